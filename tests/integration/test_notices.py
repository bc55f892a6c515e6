"""Notices about an image, shown on loading: once per shell, whatever the file contains, without leaving a trace."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hpcmod.catalogue.text.notice import HEAD, LIMIT, render_advisory_notice, render_notices, render_state_notice
from hpcmod.catalogue.values.advisory import Advisory, HostFact
from hpcmod.catalogue.values.record import CatalogueRecord
from hpcmod.catalogue.visible.notices import write_notices
from hpcmod.core.resources import module_templates
from hpcmod.machine.values.condition import Bound
from hpcmod.modules.binds import find_newest_path
from hpcmod.modules.text.modulefile import render_body, render_description
from hpcmod.modules.values.plan import with_notices
from tests.catalogues import change_record, make_catalogue, make_record, put
from tests.installations import write_libexec
from tests.integration.conftest import SNAPSHOT, TOY, installed, sha256_of
from tests.plans import make_example
from tests.stack import Done, EasyBuild, ModuleTool, Stack

pytestmark = pytest.mark.stack

SHA256 = "5" * 64
MODULE = "PyTorch/2.7.1-rocm-6.2.4-singularity"
TOMORROW = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 86400))
YESTERDAY = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 86400))
ADVISORY = Advisory("x", "GDR hangs here", "A text\nof two lines", "https://example.org/1", YESTERDAY, TOMORROW)
HANGS = "GDR hangs here"


@dataclass(frozen=True)
class Modules:
    """A module in one syntax, read by one tool, for whose image a catalogue has notices."""

    tool: ModuleTool
    top: Path

    @property
    def notices(self) -> Path:
        return self.top / "notices"

    def __call__(self, snippet: str, **env: str) -> Done:
        return self.tool(f"{SNAPSHOT}\n{snippet}", self.top / "modules", cwd=self.top, **env)

    def said(self, *notices: str, **env: str) -> str:
        """Write these notices to the catalogue and return what loading prints, as a single line."""
        (self.notices / SHA256).write_text(render_notices(notices), encoding="utf-8")
        return self.loaded(**env)

    def loaded(self, **env: str) -> str:
        """Load the module and return what it prints as one line; unloading must leave only HPCMOD_NOTICED behind."""
        done = self(
            f"snapshot >before; module load {MODULE} || exit 1; [[ -n $SIF ]] || exit 1; module unload {MODULE}; "
            "[[ ${HPCMOD_NOTICED-all} == all ]] || unset HPCMOD_NOTICED; snapshot >after; compare before after",
            **env,
        )
        assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
        return " ".join(done.stderr.split())


@pytest.fixture(params=["lmod-lua", "lmod-tcl", "envmodules-tcl"])
def modules(request: pytest.FixtureRequest, stack: Stack, tmp_path: Path) -> Modules:
    tool, syntax = request.param.split("-")
    syntax = syntax.capitalize()
    plan = make_example("generic")
    root = tmp_path / "root"
    (root / "runscripts").mkdir(parents=True)
    sif = root / plan.spec.image
    sif.touch()
    plan = replace(plan, spec=replace(plan.spec, root=str(root)), own_sif=str(sif), sif_places=(str(sif),))
    plan = replace(plan, runscripts=plan.runscripts._replace(binds=()))
    plan = with_notices(plan, [str(tmp_path / "notices"), str(tmp_path / "nowhere")], SHA256)
    file = tmp_path / "modules" / (MODULE + (".lua" if syntax == "Lua" else ""))
    file.parent.mkdir(parents=True)
    (tmp_path / "notices").mkdir()
    write_libexec(plan)
    head = "" if syntax == "Lua" else "#%Module\n"
    templates = module_templates()
    described = render_description(plan, syntax, templates, conflict="PyTorch")
    file.write_text(head + described + render_body(plan, syntax, templates), encoding="utf-8")
    return Modules(ModuleTool(stack, tmp_path, tool), tmp_path)


each_language = pytest.mark.parametrize("modules", ["lmod-lua", "envmodules-tcl"], indirect=True)
"""For what a language computes from the file: both tools run the same Tcl."""


@pytest.mark.parametrize("file", [SHA256, "all"])
def test_a_notice_is_reported_once_in_a_shell_and_again_in_the_next(modules: Modules, file: str) -> None:
    (modules.notices / file).write_text(render_notices([render_advisory_notice(ADVISORY)]))
    again = f"module load {MODULE}; module unload {MODULE}; module load {MODULE}; module purge; module load {MODULE}"
    for _ in range(2):
        done = modules(again)
        assert done.stderr.count(HANGS) == 1
        assert done.stdout == ""
    assert re.sub(r"\s+", " ", done.stderr).strip().startswith(f"{MODULE}: {HANGS} A text of two lines")


def test_unloading_leaves_only_the_mark_of_shown_notices(modules: Modules) -> None:
    (modules.notices / SHA256).write_text(render_notices([render_advisory_notice(ADVISORY)]))
    done = modules(
        f"snapshot >before; module load {MODULE} 2>/dev/null; module unload {MODULE}; snapshot >after; "
        "compare before after"
    )
    assert re.fullmatch(r"\d+a\d+\n> HPCMOD_NOTICED=[0-9a-f]{12}\n", done.stdout)


def test_a_changed_notice_is_shown_again_and_the_other_is_not(modules: Modules) -> None:
    other = replace(ADVISORY, title="Another thing")
    first, second = (
        render_notices([render_advisory_notice(one), render_advisory_notice(ADVISORY)])
        for one in (other, replace(other, text="changed"))
    )
    (modules.notices / SHA256).write_text(first)
    (modules.notices / "new").write_text(second)
    done = modules(
        f"module load {MODULE}; module unload {MODULE}; mv notices/new notices/{SHA256}; module load {MODULE}"
    )
    assert (done.stderr.count(HANGS), done.stderr.count("Another thing")) == (1, 2)


def test_a_user_can_suppress_all_notices(modules: Modules) -> None:
    assert modules.said(render_advisory_notice(ADVISORY), HPCMOD_NOTICED="all") == ""


@pytest.mark.parametrize("verb", ["show", "help", "whatis", "avail"])
def test_looking_at_a_module_tells_no_notice(modules: Modules, verb: str) -> None:
    (modules.notices / SHA256).write_text(render_notices([render_advisory_notice(ADVISORY)]))
    done = modules(f"module {verb} {MODULE}; echo ${{HPCMOD_NOTICED-none}}")
    assert HANGS not in done.stdout + done.stderr
    assert done.stdout.endswith("none\n")


LIBFABRIC = HostFact("TOP/libfabric/{version}/lib", (Bound("libfabric", ">=", "1.22"), Bound("libfabric", "<", "2")))

CONDITIONS = [
    pytest.param({}, True, id="without a condition"),
    pytest.param({"expires": YESTERDAY}, False, id="expired"),
    pytest.param({"environment": (("NCCL_NET_GDR_LEVEL", "*"),)}, True, id="a variable that is set"),
    pytest.param({"environment": (("NCCL_NET_GDR_LEVEL", "P?B"),)}, True, id="of such a value"),
    pytest.param({"environment": (("NCCL_NET_GDR_LEVEL", "P[H]B"),)}, False, id="no other sign is special"),
    pytest.param({"environment": (("NCCL_NET_GDR_LEVEL", "3"),)}, False, id="of another value"),
    pytest.param({"environment": (("NOWHERE_SET", "*"),)}, False, id="a variable that is not set"),
    pytest.param({"environment": (("NOWHERE_SET", None),)}, True, id="which must not be set"),
    pytest.param({"environment": (("NCCL_NET_GDR_LEVEL", None),)}, False, id="set, but must not"),
    pytest.param({"environment": (("SIFPYTORCH", "*.sif"),)}, True, id="a variable that the module sets"),
    pytest.param({"host": (LIBFABRIC,)}, True, id="a release on the host, the newest of several"),
    pytest.param({"host": (replace(LIBFABRIC, bounds=(Bound("x", "==", "1.22.0"),)),)}, True, id="equal"),
    pytest.param({"host": (replace(LIBFABRIC, bounds=(Bound("x", "<=", "1.21"),)),)}, False, id="an older one"),
    pytest.param({"host": (replace(LIBFABRIC, bounds=(Bound("x", ">", "1.22"),)),)}, False, id="a newer one"),
    pytest.param({"host": (HostFact("TOP/libfabric/*/lib"),)}, True, id="something that is there"),
    pytest.param({"host": (HostFact("TOP/nowhere/*"),)}, False, id="something that is not there"),
    pytest.param({"host": (LIBFABRIC, HostFact("TOP/nowhere"))}, False, id="of two one is not there"),
]


@each_language
@pytest.mark.parametrize(("conditions", "told"), CONDITIONS)
def test_an_advisory_is_shown_where_it_applies_and_the_command_agrees(
    modules: Modules, conditions: dict[str, object], told: bool
) -> None:
    for release in ("1.9", "1.22", "1.15.2.0", "words"):
        (modules.top / "libfabric" / release / "lib").mkdir(parents=True)
    advisory = replace(ADVISORY, **conditions)
    here = tuple(replace(fact, path=fact.path.replace("TOP", str(modules.top))) for fact in advisory.host)
    advisory = replace(advisory, host=here)
    said = modules.said(render_advisory_notice(advisory), NCCL_NET_GDR_LEVEL="PHB")
    assert (HANGS in said) == told
    environ = {"NCCL_NET_GDR_LEVEL": "PHB", "SIFPYTORCH": "/x.sif"}
    assert advisory.holds_in(environ, find_newest_path, now=time.time()) == told


RECORD = CatalogueRecord("PyTorch", MODULE.partition("/")[2], MODULE, "x.sif", SHA256, 1)

STATES = [
    pytest.param(
        change_record(RECORD, state="deprecated", until="2027-01-01", successor="A/3", reason="too old"),
        "is deprecated, and may be retired on or after 2027-01-01. Use A/3 instead: module load A/3 Reason: too old",
        id="deprecated",
    ),
    pytest.param(
        change_record(RECORD, state="retired", until="2027-01-01"),
        "and its module does not load from 2027-01-01.",
        id="retired",
    ),
    pytest.param(change_record(RECORD, state="retired", successor="PyTorch/3"), "Use PyTorch/3 instead", id="for good"),
]


@each_language
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(("record", "told"), STATES)
def test_the_state_of_a_container_is_reported(
    modules: Modules, record: CatalogueRecord, told: str, named: bool
) -> None:
    assert told in modules.said(render_state_notice(record, named=named))


def test_omits_the_state_of_another_container_with_the_same_image(modules: Modules) -> None:
    other = replace(RECORD, state="deprecated", module="PyTorch/other")
    assert modules.said(render_state_notice(other, named=True)) == ""


EVIL = (
    "$(touch pwned) `touch pwned` \"; touch pwned; ' ]===] os.execute('touch pwned') ]] [exec touch pwned] {{ }} "
    "%s %1\\\x1b[31mred\x07 \x9b31m \u202e \U0001f525 \u00e9"
)


def test_hostile_text_is_shown_and_does_nothing(modules: Modules) -> None:
    said = modules.said(render_advisory_notice(replace(ADVISORY, title=EVIL, text=EVIL)))
    assert '$(touch pwned) `touch pwned` "; touch pwned' in said
    assert not list(modules.top.rglob("pwned"))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", said)


NOTICE = "notice abc\nsay hello\n"


def write(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


FILES = [
    pytest.param(lambda path: None, id="missing"),
    pytest.param(lambda path: path.mkdir(), id="a directory"),
    pytest.param(lambda path: path.symlink_to(path), id="a link to itself"),
    pytest.param(os.mkfifo, id="a pipe that nobody writes to"),
    pytest.param(lambda path: (path.write_text(f"{HEAD}\n{NOTICE}"), path.chmod(0)), id="unreadable"),
    pytest.param(write(b""), id="empty"),
    pytest.param(write(f"{HEAD}\n{NOTICE}{'say x' * LIMIT}\n".encode()), id="huge"),
    pytest.param(write(b"hpcmod-notices 2\n" + NOTICE.encode()), id="of another version"),
    pytest.param(write(NOTICE.encode()), id="without its first line"),
    pytest.param(write(bytes(range(256)) * 100), id="not text"),
    pytest.param(write(f"{HEAD}\nnotice abc\nmoon full\nsay hello\n".encode()), id="a condition that is not known"),
    pytest.param(write(f"{HEAD}\nnotice $(id)\nsay hello\n".encode()), id="a name that is none"),
    pytest.param(write(f"{HEAD}\nnotice abc\nuntil never\nsay hello\n".encode()), id="no time"),
    pytest.param(write(f"{HEAD}\nnotice abc\nuntil [exit 1]\nsay hello\n".encode()), id="a program for a time"),
    pytest.param(
        write(f"{HEAD}\nnotice abc\nhost >=1[exit],2 /{{version}}\nsay hello\n".encode()), id="a program in a bound"
    ),
    pytest.param(
        write(f"{HEAD}\nnotice abc\nhost any /*/*/*/*/*/*\nsay hello\n".encode()), id="a search of the whole disk"
    ),
    pytest.param(
        write(f"{HEAD}\nnotice abc\nvariable PATH {'*a' * 40}b\nsay hello\n".encode()),
        id="a pattern that takes for ever",
    ),
    pytest.param(write(f"{HEAD}\nsay hello\nnotice abc\nvariable $(id) *\nsay hello\n".encode()), id="out of order"),
]


@each_language
@pytest.mark.parametrize("make", FILES)
def test_an_invalid_notice_file_is_skipped(modules: Modules, make: Callable[[Path], object]) -> None:
    make(modules.notices / SHA256)
    assert modules.loaded() == ""


def test_invalid_utf8_never_reaches_the_terminal(modules: Modules) -> None:
    text = f"{HEAD}\nnotice abc\nsay hello ".encode() + b"\x9b31m \xc2\x9b \xe2\x80 \xff \0 \x1b]0;x\x07 end\n"
    (modules.notices / SHA256).write_bytes(text)
    done = modules(f"module load {MODULE} 2>said")
    assert done.returncode == 0
    said = (modules.top / "said").read_bytes()
    assert b"hello" in said
    assert b"end" in said
    assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|(?<![\xc2-\xf4])[\x80-\x9f](?![\x80-\xbf])", said)


def test_an_installed_module_tells_what_a_catalogue_says_of_its_image_from_then_on(
    eb: EasyBuild, toy: Path, tiny_sif: Path, lmod: ModuleTool, tmp_path: Path
) -> None:
    catalogue = make_catalogue(tmp_path / "catalogue")
    installed(eb, toy, HPCMOD_CATALOGUE=str(catalogue.directory))
    load = f"module load {TOY} >/dev/null || exit 1; hpcmod catalogue advisory --apply"
    here = {"HPCMOD_CATALOGUE": str(catalogue.directory), "NCCL_NET_GDR_LEVEL": "3"}
    assert "deprecated" not in lmod(load, eb.modules, **here).stderr
    put(catalogue, make_record("Toy/1.0", sha256=sha256_of(tiny_sif), state="deprecated", successor="Toy/2.0"))
    catalogue.advisories.mkdir()
    (catalogue.advisories / "x.toml").write_text(
        'title = "It hangs"\ntext = "x"\nsource = "https://example.org"\nissued = 2026-01-01\n'
        f'expires = 2099-01-01\nmatch.digests = ["{sha256_of(tiny_sif)}"]\ncure.unset = ["NCCL_NET_GDR_LEVEL"]\n'
    )
    write_notices(catalogue, tell=print)
    done = lmod(
        f"module load {TOY} && module unload {TOY} && module load {TOY}; "
        'eval "$(hpcmod catalogue advisory --apply)"; '
        "echo ${NCCL_NET_GDR_LEVEL-unset}; hpcmod doctor",
        eb.modules,
        **here,
    )
    assert done.stderr.count("this container is deprecated") == 1
    assert "Use Toy/2.0 instead" in " ".join(done.stderr.split())
    assert done.stdout.startswith("unset\n")
    assert re.search(r"^warn advisory: Toy/1\.0: It hangs$", done.stdout, re.MULTILINE)
