from __future__ import annotations

import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.text.page import Documentation, render_html
from hpcmod.catalogue.values.container_page import ContainerPage, PageRow
from hpcmod.catalogue.values.record import Check, Publication, refusal
from hpcmod.catalogue.visible.documentation import (
    MARK,
    find_with_package,
    make_documentation,
    make_examples,
    page_files,
    write_documentation,
)
from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.core.resources import module_templates
from hpcmod.core.values.facts import Package
from hpcmod.machine.machine import load_site
from hpcmod.modules.text.modulefile import read_help, render_description, render_help
from tests.catalogues import make_catalogue, make_record, put
from tests.plans import HOSTILE, make_example, make_plan_of
from tests.unit.catalogue.stage import make_shop

pytestmark = pytest.mark.slow

ENVIRON = {"HPCMOD_SITE": "generic"}
NOW = 1_800_000_000.0


def document(*catalogues: Catalogue) -> Documentation:
    return make_documentation(catalogues, ENVIRON, title="T", now=NOW)


def page(documentation: Documentation, module: str) -> ContainerPage:
    return next(page for page in documentation.pages if page.record.module == module)


def test_pages_come_by_name_and_the_newest_version_first(tmp_path: Path) -> None:
    modules = ["b/1.9", "A/1", "b/1.10"]
    found = document(make_catalogue(tmp_path, *map(make_record, modules)))
    assert [one.record.module for one in found.pages] == ["A/1", "b/1.10", "b/1.9"]


def test_the_first_of_two_catalogues_wins(tmp_path: Path) -> None:
    mine = make_catalogue(tmp_path / "mine", make_record("A/1", description="mine"))
    sites = make_catalogue(tmp_path / "site", make_record("A/1", description="the site's"), make_record("B/1"))
    assert [one.record.publication.description for one in document(mine, sites).pages] == ["mine", "B as a container"]


def test_changes_are_those_since_the_version_before(tmp_path: Path) -> None:
    old = make_record("A/1.9", size=5_000_000, packages=(Package("x", "1"), Package("gone", "1")), commands=("c",))
    new = make_record("A/1.10", size=6_000_000, packages=(Package("x", "2"),), environment=(("V", "1"),))
    found = document(make_catalogue(tmp_path, old, new))
    assert page(found, "A/1.10").previous == "1.9"
    assert set(page(found, "A/1.10").changes) == {
        PageRow("x", "1", "2"),
        PageRow("gone", "1", ""),
        PageRow("variable V", "", "1"),
        PageRow("command c", "there", ""),
        PageRow("size", "5.0 MB", "6.0 MB"),
    }
    assert (page(found, "A/1.9").previous, page(found, "A/1.9").changes) == ("", ())


def test_examples_are_for_the_machine_a_container_was_published_for() -> None:
    record = make_record("A/1", site="lumi", commands=("python",))
    texts = {example.title: example.text for example in make_examples(record, load_site("lumi", {}))}
    (job,) = [text for text in texts.values() if text.startswith("#!")]
    assert "#SBATCH --partition=standard-g" in job
    assert "#SBATCH --account=ACCOUNT" in job
    assert "module load A/1\npython train.py" in texts.values()
    record = make_record("A/1", python="3.12", commands=("python3",))
    texts = {example.title: example.text for example in make_examples(record, load_site("lumi", {}))}
    assert "module load A/1\npython3 train.py" in texts.values()


def test_examples_of_a_tool_run_its_own_command() -> None:
    record = make_record("A/1", python="3.12", commands=("mytool", "pip"))
    texts = [example.text for example in make_examples(record, load_site("lumi", {}), ("mytool", "start-shell"))]
    assert not [text for text in texts if "python" in text]
    record = make_record("A/1", commands=("python", "solve"))
    texts = [example.text for example in make_examples(record, load_site("generic", {}), ("solve", "start-shell"))]
    assert texts[:2] == ["module load A/1\nsolve", "module load A/1\nstart-shell python train.py"]
    none: dict[str, tuple[object, ...]] = {"packages": (), "commands": ("python",)}
    examples = list(make_examples(make_record("A/1", **none), load_site("lumi", {}), ("mesh", "sort", "start-shell")))
    assert [examples[0], examples[1].text.splitlines()[0]] == [
        ("Load it and run its commands", "module load A/1\nmesh\nsort"),
        "hpcmod exec A/1 mesh",
    ]
    assert not [text for _, text in examples if "train" in text or "python" in text]
    (plain, *rest) = make_examples(make_record("A/1", **none), load_site("lumi", {}))
    assert plain.text == "module load A/1\npython program.py"
    assert not [text for _, text in rest if "train" in text]
    with_mpi = make_examples(make_record("A/1", **none, stack=(("mpi", "4.1.2"),)), load_site("lumi", {}))
    assert "module load A/1\npython train.py" in [text for _, text in with_mpi]
    examples = list(make_examples(make_record("A/1", python="", commands=("mesh", "post")), load_site("generic", {})))
    assert examples[0].title == "Load it and run one of its commands: mesh, post"
    assert not [text for _, text in examples if "python" in text]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"commands": ("solve",)}, "start-shell solve", id="the only one"),
        pytest.param({"commands": ("mesh", "vendor-solver")}, "start-shell vendor-solver", id="the one of its name"),
        pytest.param({"commands": ("mesh", "post")}, "start-shell COMMAND", id="several"),
        pytest.param({"commands": ("$(reboot)",)}, "start-shell COMMAND", id="a hostile name"),
        pytest.param({"commands": ("env", "solve"), "on_path": ("solve", "start-shell")}, "solve", id="on PATH"),
        pytest.param({"commands": ("python3", "x"), "on_path": ("python3", "x")}, "x", id="on PATH, beside Python's"),
    ],
)
def test_examples_name_the_commands_of_the_tool(fields: dict[str, tuple[str, ...]], expected: str) -> None:
    record = make_record("Vendor-Solver/1", python="", commands=fields["commands"])
    examples = list(make_examples(record, load_site("generic", {}), fields.get("on_path")))
    assert examples[0].text == f"module load Vendor-Solver/1\n{expected}"
    assert examples[1].text.startswith(f"hpcmod exec Vendor-Solver/1 {expected.removeprefix('start-shell ')}\n")


def test_the_pages_know_which_commands_a_container_has_on_path(tmp_path: Path) -> None:
    catalogue = make_catalogue(tmp_path, make_record("A/1", python="", commands=("env", "solve")))
    (catalogue.software / "A/1/bin").mkdir(parents=True)
    for name in ("list-packages", "make-squashfs", "solve", "start-shell", "singularity", "unmake-squashfs"):
        (catalogue.software / "A/1/bin" / name).touch()
    assert page(document(catalogue), "A/1").examples[0].text == "module load A/1\nsolve"


def test_a_page_of_a_restricted_container_says_whom_to_ask_and_how_to_accept_its_licence_only(tmp_path: Path) -> None:
    x = "SECRET"
    closed = replace(
        make_record("Solver/3.2", sif=x, reason=x, packages=(Package(x, x),), commands=(x,), labels=((x, x),), sbom=x),
        publication=Publication("generic", x, x, x, "A solver", x, "2026", "ada@login1", x),
        checks=(Check(x, True, "", ""),),
        readers="chemists",
        licence="a" * 64,
    )
    catalogue = make_catalogue(tmp_path / "c", make_record("Solver/3.1"), closed, make_record("Solver/3.3"))
    for place, name in (("software/Solver/3.2/bin", x), ("kept/Solver/3.2", "module.lua")):
        (catalogue.directory / place).mkdir(parents=True)
        (catalogue.directory / place / name).write_text(f"help([==[{x}]==])")
    found = document(catalogue)
    shown = page(found, "Solver/3.2")
    assert (shown.state, shown.told) == ("restricted", (refusal(closed),))
    assert shown.examples[0].text == "hpcmod install --accept-licence Solver/3.2"
    assert [each.previous for each in found.pages] == ["", "", ""]
    texts = dict(render_html(found, page_files()))
    assert [name for name, text in texts.items() if x in text or closed.sha256 in text] == []
    assert "restricted to the group chemists; to get access, ask ada@login1" in texts["containers/Solver/3.2.html"]
    assert '<span class="state published">restricted</span>' in texts["index.html"]
    with pytest.raises(NotFoundError):  # nor is it in an app that all users of a portal see
        find_with_package([catalogue], x)


def test_a_container_that_does_not_load_any_more_has_no_examples() -> None:
    assert list(make_examples(make_record("A/1", state="retired"), load_site("generic", {}))) == []


def test_the_profile_of_the_record_is_taken_and_one_that_is_gone_is_not_missed(tmp_path: Path) -> None:
    records = [make_record("A/1", site="lumi"), make_record("B/1", site="nowhere"), make_record("C/1")]
    found = document(make_catalogue(tmp_path, *records))
    with_lumi = ["standard-g" in "".join(example.text for example in one.examples) for one in found.pages]
    assert with_lumi == [True, False, False]


def test_the_help_is_that_of_the_module_users_load(tmp_path: Path) -> None:
    catalogue = make_catalogue(tmp_path, make_record("A/1"))
    kept = catalogue.kept / "A" / "1"
    kept.mkdir(parents=True)
    plan = make_example("lumi")
    text = render_description(plan, "Lua", module_templates(), conflict="A")
    (kept / "module.lua").write_text(text, encoding="utf-8")
    assert page(document(catalogue), "A/1").help == render_help(plan)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_help_of_hostile_text_is_read_back_as_it_was(text: str) -> None:
    plan = make_plan_of(text)
    assert read_help("-- x\n" + render_description(plan, "Lua", module_templates(), conflict="A")) == render_help(plan)


def test_only_advisories_that_have_not_expired_are_on_the_pages_they_concern(tmp_path: Path) -> None:
    catalogue = make_catalogue(tmp_path, make_record("A/1"), make_record("B/1"))
    catalogue.advisories.mkdir()
    common = 'text = "x"\nsource = "https://example.org"\nissued = 2026-01-01\n'
    files = {
        "old": 'title = "old"\nexpires = 2026-12-01\n',
        "new": 'title = "new"\nexpires = 2027-12-01\nmatch.modules = ["A/*"]\ncure.unset = ["V"]\n',
    }
    for name, text in files.items():
        (catalogue.advisories / f"{name}.toml").write_text(common + text)
    found = document(catalogue)
    assert [[problem.advisory.title for problem in each.advisories] for each in found.pages] == [["new"], []]
    assert found.pages[0].advisories[0].cure == ("unset V",)


def test_a_successor_with_a_page_is_linked_and_another_is_not(tmp_path: Path) -> None:
    records = [make_record("A/2"), make_record("A/1", state="retired", successor="A/2")]
    other = make_record("B/1", state="deprecated", successor="https://elsewhere.example.org")
    found = document(make_catalogue(tmp_path, *records, other))
    assert page(found, "A/1").successor == "containers/A/2.html"
    assert page(found, "B/1").successor == ""


def test_a_broken_site_profile_does_not_show_the_examples_of_another(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("nonsense = 1")
    with pytest.raises(BadInputError, match="nonsense"):
        document(make_catalogue(tmp_path / "c", make_record("A/1", site=str(tmp_path / "broken.toml"))))


def write(catalogue: Catalogue, directory: Path) -> int:
    return write_documentation(render_html(document(catalogue), page_files()), directory)


def test_pages_that_are_not_made_any_more_go(tmp_path: Path) -> None:
    catalogue = make_catalogue(tmp_path / "c", make_record("A/1"), make_record("B/1"))
    count = write(catalogue, tmp_path / "site")
    assert count == len([path for path in (tmp_path / "site").rglob("*") if path.is_file() and path.name != MARK])
    catalogue.record_path("B", "1").unlink()
    put(catalogue, make_record("C/1"))
    write(catalogue, tmp_path / "site")
    assert {path.parent.name for path in (tmp_path / "site" / "containers").rglob("*.html")} == {"A", "C"}


def test_a_directory_with_other_files_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").touch()
    with pytest.raises(BadInputError, match="directory is not empty"):
        write(make_catalogue(tmp_path / "c"), tmp_path / "home")
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["thesis.tex"]


def test_a_link_that_a_web_server_knows_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "www").symlink_to(tmp_path / "real")
    (tmp_path / "real").mkdir()
    write(make_catalogue(tmp_path / "c", make_record("A/1")), tmp_path / "www")
    assert (tmp_path / "www").is_symlink()
    assert (tmp_path / "real" / "index.html").is_file()


KILLED = """
import os, signal, sys
from pathlib import Path
from hpcmod.core.fs import replacing
from hpcmod.catalogue.visible.documentation import write_documentation
replacing._exchange = lambda one, other: False  # as on Lustre
rename = Path.rename
def die(self, target):
    rename(self, target)
    os.kill(os.getpid(), signal.SIGKILL)
Path.rename = die
write_documentation([("index.html", "")], Path(sys.argv[1]))
"""


def test_the_next_run_removes_leftovers_of_a_kill_between_two_renames(tmp_path: Path) -> None:
    catalogue = make_catalogue(tmp_path / "c", make_record("A/1"))
    top = tmp_path / "www"
    write(catalogue, top / "site")
    assert subprocess.run([sys.executable, "-c", KILLED, str(top / "site")]).returncode == -signal.SIGKILL
    assert not (top / "site").exists()
    assert len(list(top.glob(".site.hpcmod-part-*/*"))) == 2
    write(catalogue, top / "site")
    assert [path.name for path in top.iterdir()] == ["site"]
    assert (top / "site" / "containers" / "A" / "1.html").is_file()


def test_two_runs_at_once_write_one_after_the_other(tmp_path: Path) -> None:
    catalogue = make_catalogue(tmp_path / "c", *(make_record(f"A/{number}") for number in range(20)))
    threads = [threading.Thread(target=write, args=(catalogue, tmp_path / "www" / "site")) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.name for path in (tmp_path / "www").iterdir()] == ["site"]
    assert len(list((tmp_path / "www" / "site" / "containers" / "A").iterdir())) == 20


def test_names_behind_a_planted_link_are_on_no_page(tmp_path: Path) -> None:
    shop = make_shop(tmp_path / "shop", "Toy/1.0")
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home/secret-name").touch()
    (shop.software / "Toy/1.0/bin").symlink_to(tmp_path / "home")
    made = make_documentation([shop], {"HPCMOD_SITE": "generic"}, title="x", now=0.0)
    write_documentation(render_html(made, page_files()), tmp_path / "site")
    texts = [path.read_text() for path in (tmp_path / "site").rglob("*") if path.is_file()]
    assert not [text for text in texts if "secret-name" in text]
