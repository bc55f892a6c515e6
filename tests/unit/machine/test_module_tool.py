"""Detecting module tools, and missing answers; tests/integration/test_which_copy.py asks real tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.machine.module_tool import (
    ENVIRONMENT_MODULES,
    LMOD,
    eb_settings,
    find_module_tool,
    find_modulefile,
    module_name,
    with_one_tool,
)

LMODS_FUNCTION = '() {  eval "$($LMOD_CMD bash "$@")"\n}'
BOTH = {"LMOD_CMD": "/usr/share/lmod/lmod/libexec/lmod", "MODULES_CMD": "/usr/lib/modulecmd.tcl"}


@pytest.mark.parametrize(
    ("environ", "tool"),
    [
        pytest.param({}, "", id="none"),
        pytest.param({"LMOD_CMD": "/lmod", "MODULES_CMD": ""}, LMOD, id="Lmod"),
        pytest.param({"MODULES_CMD": "/modulecmd.tcl"}, ENVIRONMENT_MODULES, id="Environment Modules"),
        pytest.param(BOTH, LMOD, id="both, and nothing says which"),
        pytest.param({**BOTH, "MODULESHOME": "/usr/share/lmod/lmod"}, LMOD, id="both, home of Lmod"),
        pytest.param({**BOTH, "MODULESHOME": "/usr/share/modules"}, ENVIRONMENT_MODULES, id="both, home of the other"),
        pytest.param(
            {**BOTH, "MODULESHOME": "/usr/share/lmod/lmod", "EASYBUILD_MODULES_TOOL": "EnvironmentModules"},
            ENVIRONMENT_MODULES,
            id="both, home of Lmod, and the module of hpcmod was loaded with the other",
        ),
        pytest.param(
            {**BOTH, "BASH_FUNC_module%%": '() {  _module_raw "$@"\n}', "MODULESHOME": "/usr/share/lmod/lmod"},
            ENVIRONMENT_MODULES,
            id="both, function of Environment Modules",
        ),
        pytest.param(
            {
                **BOTH,
                "BASH_FUNC_module%%": LMODS_FUNCTION,
                "MODULESHOME": "/usr/share/modules",
                "EASYBUILD_MODULES_TOOL": "EnvironmentModules",
            },
            LMOD,
            id="both, function of Lmod",
        ),
    ],
)
def test_the_module_tool_started_last_is_used(environ: dict[str, str], tool: str) -> None:
    assert find_module_tool(environ) == tool
    assert find_module_tool(with_one_tool(environ)) == tool
    assert len({"LMOD_CMD", "MODULES_CMD"} & set(with_one_tool(environ))) <= 1


@pytest.mark.parametrize(
    ("environ", "settings"),
    [
        pytest.param({}, {}, id="no tool"),
        pytest.param({"LMOD_CMD": "/lmod"}, {}, id="Lmod is the default"),
        pytest.param({"MODULES_CMD": "/m"}, ("EnvironmentModules", "Tcl"), id="the other tool"),
        pytest.param({"MODULES_CMD": "/m", "EASYBUILD_MODULES_TOOL": "Lmod"}, {}, id="the user says otherwise"),
        pytest.param(
            {"EASYBUILD_MODULES_TOOL": "EnvironmentModulesC"},
            ("EnvironmentModulesC", "Tcl"),
            id="an old tool",
        ),
        pytest.param(
            {"MODULES_CMD": "/m", "EASYBUILD_MODULE_SYNTAX": "Lua"},
            ("EnvironmentModules", "Lua"),
            id="own syntax",
        ),
    ],
)
def test_eb_gets_settings_where_its_defaults_are_wrong(environ: dict[str, str], settings: tuple[str, str]) -> None:
    names = ("EASYBUILD_MODULES_TOOL", "EASYBUILD_MODULE_SYNTAX")
    assert eb_settings(environ) == dict(zip(names, settings))


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({}, id="no tool"),
        pytest.param({"LMOD_CMD": "/nonexistent/lmod"}, id="a tool that is gone"),
        pytest.param({"LMOD_CMD": "/bin/false"}, id="a tool that fails"),
        pytest.param({"MODULES_CMD": "/bin/echo"}, id="a tool that answers something else"),
    ],
)
def test_no_answer_of_the_module_tool_means_no_file(environ: dict[str, str]) -> None:
    assert find_modulefile("Toy", environ) is None


def test_an_option_is_never_asked_for(tmp_path: Path) -> None:
    assert find_modulefile("--help", {"MODULES_CMD": "/bin/echo"}) is None


@pytest.mark.parametrize(("file", "name"), [("Toy/1.0.lua", "Toy/1.0"), ("ai/Toy/1.0", "ai/Toy/1.0")])
def test_a_module_is_named_by_its_path_below_modulepath(file: str, name: str) -> None:
    assert module_name(Path("/b", file), {"MODULEPATH": "/a:/b"}) == name
    assert module_name(Path("/elsewhere", file), {"MODULEPATH": "/a:/b"}) == ""
