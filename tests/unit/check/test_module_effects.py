from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.check.module_effects import Effect, ShellState, compare_effects, find_effects, verify_replacement
from hpcmod.errors import CheckFailedError, LackingError, NotFoundError
from tests.foreign_recipes import write_tree

BEFORE = ShellState({"PATH": "/bin", "MANPATH": "/man", "KEEP": "1"}, frozenset({"module"}))
TOOL = """\
#!/bin/bash
# a fake of a module tool: a modulefile is bash
if [ "$2" = use ]; then echo "export MODULEPATH=$3"; exit; fi
for file in "$MODULEPATH/$3" "$MODULEPATH/$3.lua"; do [ ! -f "$file" ] || exec cat "$file"; done
echo "$3 is unknown" >&2; echo false
"""


def programs(directory: str) -> frozenset[str]:
    return frozenset({"/r/bin": {"python", "pip"}, "/r/runscripts": {"get-master"}}.get(directory, set()))


def effects(*functions: str, **variables: str) -> dict[Effect, str]:
    after = ShellState({**BEFORE.variables, **variables}, BEFORE.functions | {*functions})
    return find_effects(BEFORE, after, programs)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"A": "x"}, {("variable", "A"): "x"}),
        ({"KEEP": "1"}, {}),
        ({"MANPATH": "/new:/man"}, {("variable", "MANPATH"): "/new"}),
        ({"PATH": "/r/bin:/bin"}, {("command", "python"): "", ("command", "pip"): ""}),
        ({"SINGULARITYENV_A": "old", "APPTAINERENV_A": "new"}, {("container variable", "A"): "new"}),
        ({"APPTAINERENV_A": "new", "SINGULARITYENV_A": "old"}, {("container variable", "A"): "new"}),
        ({"SINGULARITY_BIND": "/a,/b:/c:ro"}, {("bind", "/a"): "/a", ("bind", "/c"): "/b:ro"}),
        ({"APPTAINER_BINDPATH": "/a", "SINGULARITY_BIND": "/b"}, {("bind", "/a"): "/a", ("bind", "/b"): "/b"}),
        ({"LOADEDMODULES": "x", "__LMOD_REF_COUNT_PATH": "x", "EBDEVELTOOL": "x", "_HPCMOD_X": "x"}, {}),
    ],
)  # fmt: skip
def test_each_kind_of_effect_is_found(variables: dict[str, str], expected: dict[Effect, str]) -> None:
    assert effects(**variables) == expected


def test_functions_and_aliases_are_commands() -> None:
    assert effects("samtools") == {("command", "samtools"): ""}


def test_the_directory_of_the_installation_is_not_part_of_a_value() -> None:
    found = effects(
        EBROOTTOOL="/r", SIF="/r/x.sif", OTHER="/rest", RUNSCRIPTS="/r/runscripts", SINGULARITY_BIND="/r/u:/u"
    )
    assert found == {
        ("variable", "EBROOTTOOL"): "<root>",
        ("variable", "SIF"): "<root>/x.sif",
        ("variable", "OTHER"): "/rest",
        ("variable", "RUNSCRIPTS"): "<root>/runscripts",
        ("script", "get-master"): "",
        ("bind", "/u"): "<root>/u",
    }


def test_what_is_lost_comes_first() -> None:
    old = {("variable", "A"): "1", ("variable", "B"): "1", ("variable", "C"): "/x", ("command", "x"): ""}
    new = {("variable", "A"): "1", ("variable", "B"): "2", ("variable", "C"): "/y", ("command", "y"): ""}
    found = compare_effects(old, new, is_same=lambda one, other: {one, other} == {"/x", "/y"})
    assert [(one.status, one.name, one.old, one.new) for one in found] == [
        ("lost", "x", "", None),
        ("changed", "B", "1", "2"),
        ("added", "y", None, ""),
        ("same", "A", "1", "1"),
        ("same", "C", "/x", "/y"),
    ]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    write_tree(tmp_path, {"lmod": TOOL, "m/Old/1.lua": "export A=1; tool() { :; }\n", "m/New/1": "export A=2\n"})
    (tmp_path / "lmod").chmod(0o755)
    return {"LMOD_CMD": str(tmp_path / "lmod"), "PATH": "/usr/bin:/bin", "MODULEPATH": str(tmp_path / "m")}


@pytest.mark.slow
@pytest.mark.parametrize("by_path", [False, True])
def test_compares_modules_by_name_and_by_path(tmp_path: Path, environ: dict[str, str], by_path: bool) -> None:
    old = str(tmp_path / "m/Old/1.lua") if by_path else "Old/1"
    if by_path:
        environ["MODULEPATH"] = ""
    found = verify_replacement(old, str(tmp_path / "m/New/1"), environ)
    assert [(one.status, one.name) for one in found] == [("lost", "tool"), ("changed", "A")]


@pytest.mark.slow
def test_two_paths_of_one_file_are_the_same(tmp_path: Path, environ: dict[str, str]) -> None:
    write_tree(tmp_path, {"x.sif": "", "m/Old/1.lua": f"export SIF={tmp_path}/x.sif\n"})
    (tmp_path / "link").symlink_to("x.sif")
    write_tree(tmp_path, {"m/New/1": f"export SIF={tmp_path}/link\n"})
    assert [one.status for one in verify_replacement("Old/1", "New/1", environ)] == ["same"]


@pytest.mark.slow
def test_what_cannot_be_loaded_is_an_error(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(CheckFailedError, match=r"Gone/1 does not load: Gone/1 is unknown"):
        verify_replacement("Old/1", "Gone/1", environ)
    with pytest.raises(NotFoundError, match="no such file"):
        verify_replacement(str(tmp_path / "gone.lua"), "New/1", environ)
    with pytest.raises(LackingError, match="no module tool"):
        verify_replacement("Old/1", "New/1", {"PATH": "/usr/bin:/bin"})
