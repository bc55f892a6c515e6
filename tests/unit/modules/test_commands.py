from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.errors import NotFoundError
from hpcmod.core.values.facts import ImageCommands
from hpcmod.images import Sif
from hpcmod.machine.values.bind import Bind
from hpcmod.modules.commands import check_wrapped_commands, find_missing_programs

IMAGE = Path("/images/toy.sif")
BINDS = ((Bind("/site/tools"),),)


@pytest.fixture(autouse=True)
def _image(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ImageCommands(frozenset({"python"}), ("/host/bin",), frozenset(), frozenset({"/opt/tool"}))
    monkeypatch.setattr(Sif, "commands", lambda _, paths: found)


def test_programs_of_the_image_of_binds_and_of_the_run_scripts_are_there() -> None:
    words = ("python", "/opt/tool", "/site/tools/x", "/host/bin/y", "/runscripts/get-master")
    assert find_missing_programs(tuple((str(n), (word,)) for n, word in enumerate(words)), IMAGE, BINDS) == {}


def test_all_missing_programs_are_named() -> None:
    with pytest.raises(NotFoundError, match=r"toy\.sif lacks gone, other \(/opt/other\)"):
        check_wrapped_commands((("gone", ("gone",)), ("other", ("/opt/other", "-x"))), IMAGE, BINDS)


def test_hundreds_of_missing_programs_are_counted() -> None:
    with pytest.raises(NotFoundError, match="x9 and 300 more"):
        check_wrapped_commands(tuple((f"x{number}", (f"x{number}",)) for number in range(310)), IMAGE, BINDS)


def test_no_commands_need_no_image() -> None:
    check_wrapped_commands((), Path("/nowhere"), ())
