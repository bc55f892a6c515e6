"""What real tools answer is tested in tests/integration/test_which_copy.py; here, what happens without an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.install.module_tool import find_modulefile, has_module_tool, module_name


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({}, id="no tool"),
        pytest.param({"LMOD_CMD": "/nonexistent/lmod"}, id="a tool that is gone"),
        pytest.param({"LMOD_CMD": "/bin/false"}, id="a tool that fails"),
        pytest.param({"MODULES_CMD": "/bin/echo"}, id="a tool that answers something else"),
    ],
)
def test_without_an_answer_there_is_no_file(environ: dict[str, str]) -> None:
    assert find_modulefile("Toy", environ) is None
    assert has_module_tool(environ) == bool(environ)


def test_an_option_is_never_asked_for(tmp_path: Path) -> None:
    assert find_modulefile("--help", {"MODULES_CMD": "/bin/echo"}) is None


@pytest.mark.parametrize(("file", "name"), [("Toy/1.0.lua", "Toy/1.0"), ("ai/Toy/1.0", "ai/Toy/1.0")])
def test_a_module_is_named_by_its_path_below_modulepath(file: str, name: str) -> None:
    assert module_name(Path("/b", file), {"MODULEPATH": "/a:/b"}) == name
    assert module_name(Path("/elsewhere", file), {"MODULEPATH": "/a:/b"}) == ""
