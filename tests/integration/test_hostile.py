"""Hostile text and paths from outside: none of it is ever executed, and it is displayed as written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests import corpus
from tests.integration.conftest import (
    LOADERS,
    SNAPSHOT,
    TOY_IMAGE,
    Loader,
    files_below,
    installed,
    modulefiles,
    unpack,
    write_easyconfig,
    write_site,
)
from tests.stack import EasyBuild, ModuleTool, Stack

pytestmark = pytest.mark.stack

LINES = [
    "$(touch pwned) `touch pwned` ${IFS}$HOME ; touch pwned & | > pwned",
    "]] ]=] ]==] [[ --[[ os.execute('touch pwned') ]]--",
    "[exec touch pwned] { } }{ { $env(HOME) \\[exec touch pwned\\]",
    "\" ' \\ \\n \\x41 '\"'\"' \"\"\" ''' #",
    "{{ 7 * 7 }} {# #} %%(name)s $root",
    "größe 数 \U0001f600 e\u0301",
]
"""One line each: shell, Lua, Tcl, quotes, templates (EasyBuild needs `%%` for a percent sign), UTF-8."""

LONG = "very long " * 5000

LABELS = {
    "org.example.multi-line": "first\ntouch pwned\n$(touch pwned)",
    "$(touch pwned) ]] \" ' [exec touch pwned] {": "\n".join(LINES),
    "org.example.long": LONG.strip(),
    "org.example.control": "\x1b[31mred\x07 \r\x00",
}

TUNABLE = " ".join(LINES).replace("\U0001f600", "")
"""A value that the site profile sets; see `as_shown`."""

EVERYTHING = 'it\'s "so" $(touch pwned) `touch pwned` [exec touch pwned] ]] ]==] {b} }{ ;&|*?#~=!<>,größe 数 \\'
"""A directory name with every character that file systems allow, except what no module tool supports."""

WITHOUT_LMODS_OWN = EVERYTHING.replace('"', "").replace("\\", "")
"""Without quotes and backslashes, which Lmod does not escape when it translates `prepend-path` from Tcl to Lua."""


@pytest.fixture(scope="session")
def hostile_sif(tiny_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runnable image with hostile labels and packages."""
    directory = tmp_path_factory.mktemp("hostile")
    root = unpack(tiny_sif, directory / "root")
    (root / ".singularity.d/labels.json").write_text(json.dumps(LABELS))
    packages = next(root.glob("opt/miniconda3/envs/pytorch/lib/python3*/site-packages"))
    for number, name in enumerate(["$(touch pwned)", "a]]b", 'q"[exec touch pwned]', "x/1.0,y"]):
        info = packages / f"evil{number}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0$(touch pwned)\n")
    body = corpus.pack(root, directory / "body", "-comp", "zstd", "-Xcompression-level", "1").read_bytes()
    shutil.rmtree(root)
    return corpus.make_sif(directory / "hostile.sif", body)


@pytest.fixture(scope="module", params=list(LOADERS))
def hostile(
    request: pytest.FixtureRequest, stack: Stack, hostile_sif: Path, tmp_path_factory: pytest.TempPathFactory
) -> Loader:
    """The hostile image installed in a hostile path with a hostile description, for each module tool and syntax."""
    tool, syntax = LOADERS[request.param]
    top = tmp_path_factory.mktemp("top")
    place = top / (WITHOUT_LMODS_OWN if (tool, syntax) == ("lmod", "Tcl") else EVERYTHING) / ("long" * 20)
    # only the software goes there, as not every module tool can read modulefiles from every path
    variables = {"EASYBUILD_INSTALLPATH_SOFTWARE": str(place)}
    eb = EasyBuild(stack, top, top / "central", modules_tool=tool, syntax=syntax, variables=variables)
    eb.central.mkdir()
    (eb.central / TOY_IMAGE).symlink_to(hostile_sif)
    site = write_site(top, f"[environment]\nTOY_TUNABLE = {json.dumps(TUNABLE, ensure_ascii=False)}\n")
    installed(eb, write_easyconfig(top, description="\n".join([*LINES, LONG])), HPCMOD_SITE=str(site))
    return Loader(ModuleTool(stack, top, tool), eb)


def assert_nothing_was_run(hostile: Loader) -> None:
    assert [name for name in files_below(hostile.eb.top) if Path(name).name == "pwned"] == []


def as_shown(hostile: Loader, text: str) -> str:
    """Return the text as this module tool can display it."""
    if (hostile.tool.name, hostile.eb.syntax) == ("lmod", "Tcl"):
        return text.replace("\U0001f600", "?")  # Lmod's Tcl does not support characters beyond U+FFFF
    return text


def shown(hostile: Loader, verb: str) -> str:
    done = hostile(f"module {verb} Toy")
    assert done.returncode == 0, done.stderr
    assert_nothing_was_run(hostile)
    return done.stdout + done.stderr


def unwrapped(text: str) -> str:
    """Return a text without whitespace: help is wrapped to 80 columns, and lists are indented."""
    return "".join(text.split())


def test_help_shows_description_and_labels_as_written_and_no_control_character(hostile: Loader) -> None:
    said = shown(hostile, "help")
    for line in [*LINES, LONG.strip()]:
        assert unwrapped(as_shown(hostile, line).replace("%%", "%")) in unwrapped(said)
    for key, value in LABELS.items():
        if key != "org.example.control":
            assert unwrapped(as_shown(hostile, f"{key}: {value}")) in unwrapped(said)
    assert "org.example.control" in said
    assert [char for char in said if ord(char) < 32 and char not in "\n\t"] == []


def test_whatis_shows_the_description_on_one_line_and_no_package_with_a_hostile_name(hostile: Loader) -> None:
    said = shown(hostile, "whatis")
    assert "$(touch pwned) `touch pwned` ${IFS}$HOME ; touch pwned & | > pwned ]] ]=]" in said
    listed = said.partition("Packages: ")[2].partition("\n")[0]
    assert "packaging/" in listed
    assert "touch" not in listed


@pytest.mark.parametrize("verb", ["show", "spider", "avail"])
def test_looking_at_the_module_runs_nothing(hostile: Loader, verb: str) -> None:
    if (hostile.tool.name, verb) == ("envmodules", "spider"):
        verb = "search"
    assert "Toy" in shown(hostile, verb)


def test_the_module_loads_runs_and_unloads_without_a_trace(hostile: Loader) -> None:
    python = "import sys; print(sys.argv[1:], sys.prefix)"
    venv = "/user-software/venv/toy"
    done = hostile(
        f"{SNAPSHOT} snapshot >before; module load Toy; "
        f"python -c '{python}' 'a b'; start-shell -c 'echo \"$0 $1 $2\"' x 'c  d' 'e*'; "
        f"singularity exec \"$SIF\" conda-python-simple -c '{python}' e; "
        '"$CONTAINERROOT/runscripts/get-master" nid[1-2]; '
        "module unload Toy; snapshot >after; compare before after"
    )
    assert done.stdout == f"['a b'] {venv}\nx c  d e*\n['e'] {venv}\nnid1\n"
    assert_nothing_was_run(hostile)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("python3", id="from the module"),
        pytest.param('singularity exec --cleanenv "$SIF" conda-python-distributed', id="from the run script"),
    ],
)
def test_a_tunable_of_the_site_arrives_as_written(hostile: Loader, command: str) -> None:
    done = hostile(f"module load Toy; {command} -c 'import os; print(os.environ[\"TOY_TUNABLE\"])'")
    assert done.stdout == f"{TUNABLE}\n", done.stderr
    assert_nothing_was_run(hostile)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("co:lon", "contains a colon", id="colon"),
        pytest.param("line\nend", "contains a control character", id="line end"),
        pytest.param("ta\tb", "contains a control character", id="tab"),
    ],
)
def test_a_directory_that_cannot_be_bound_or_loaded_is_refused_before_anything_is_written(
    eb: EasyBuild, toy: Path, tmp_path: Path, name: str, message: str
) -> None:
    done = eb(toy, EASYBUILD_INSTALLPATH_SOFTWARE=str(tmp_path / name))
    assert message in done.stdout
    assert done.returncode == 2
    assert modulefiles(eb) == set()
    assert {path for path in files_below(tmp_path / name) if not path.startswith(".locks/")} == set()


def test_a_long_path_works(eb: EasyBuild, toy: Path, tmp_path: Path, lmod: ModuleTool) -> None:
    place = tmp_path / ("x" * (230 - len(str(tmp_path))))
    installed(eb, toy, EASYBUILD_INSTALLPATH_SOFTWARE=str(place))
    assert lmod("module load Toy && start-shell -c 'echo 1'", eb.modules).stdout == "1\n"
