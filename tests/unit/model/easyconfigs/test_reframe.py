from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcmod.errors import BadInputError
from hpcmod.model.easyconfigs.reframe import read_reframe_tests, render_reframe

EASYCONFIG = """\
name = 'llama.cpp'
version = '1.2'
versionsuffix = '-singularity'
sanity_check_commands = ["python -c 'import torch'", 'tool --version | grep %(version)s', ('tool', '--help')]
"""


def test_the_file_of_a_container_with_pytorch(golden: Callable[[Path, str], None]) -> None:
    """ReFrame 4.10.4 was run on this text, with a dummy image and a fake `hpcmod` for the network tests."""
    text = render_reframe(read_reframe_tests(EASYCONFIG, "x.eb", packages=("numpy", "torch")))
    ast.parse(text)
    golden(Path(__file__).parent / "golden" / "reframe.txt", text)


def test_without_pytorch_or_mpi4py_there_are_no_network_tests() -> None:
    tests = read_reframe_tests(EASYCONFIG, "x.eb", packages=("numpy",))
    assert not tests.networked
    text = render_reframe(tests)
    assert "verify-net" not in text
    assert "getlauncher" not in text


def test_the_checks_are_those_of_the_easyconfig_after_one_that_starts_the_container() -> None:
    assert read_reframe_tests(EASYCONFIG, "x.eb").commands == (
        *("start-shell -c true", "python -c 'import torch'", "tool --version | grep 1.2"),
        "tool --help",
    )
    assert len(read_reframe_tests(EASYCONFIG.partition("sanity")[0], "x.eb").commands) == 1


def test_hostile_commands_stay_strings() -> None:
    hostile = '\'); import os; os.system("x") #\n\x1b\u202e \\'
    text = render_reframe(
        read_reframe_tests(f"name = 'a'\nversion = '1'\nsanity_check_commands = [{hostile!r}]\n", "x.eb")
    )
    assert text.isascii()
    strings = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    assert hostile in strings


@pytest.mark.parametrize(
    "text",
    [
        "name = 'a'\n",
        "name = 'a'\nversion = '1'\nsanity_check_commands = open('x').read()\n",
        "name = 'a'\nversion = '1'\nsanity_check_commands = [1]\n",
        "name = 'a'\nversion = '1\\'\\'\\''\n",
        "name = 'a b'\nversion = '1'\n",
    ],
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(BadInputError):
        read_reframe_tests(text, "x.eb")
