"""An admin's day, from publishing to retiring, with the real tools; and the faults that break similar tools."""

from __future__ import annotations

import functools
import grp
import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.images import Sif
from tests import corpus
from tests.integration.conftest import make_images
from tests.integration.publishing import Site, make_site, make_vendor_image
from tests.signatures import make_key
from tests.stack import ModuleTool, Stack
from tests.walkthroughs import blocks

pytestmark = pytest.mark.stack

HOSTILE = "a\"b'; touch {0}; $(touch {0}) --]] ]===] [exec touch {0}] {{\\\n os.execute('touch {0}')"

PRINTS = "python -c 'import os; print(42 * os.path.isdir(\"/.singularity.d\"))' | grep -x 42"


@pytest.fixture(scope="module")
def images(tiny_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runnable images, told apart by /generation."""
    return make_images(tiny_sif, tmp_path_factory.mktemp("images"), "one", "two", megabytes=1)


@pytest.fixture
def site(lmod: ModuleTool, tmp_path: Path) -> Site:
    return make_site(lmod, tmp_path)


@pytest.fixture(scope="module")
def published_sites(
    stack: Stack, tmp_path_factory: pytest.TempPathFactory, images: list[Path]
) -> Callable[[str], Site]:
    """A function that creates a site with Toy 1.0 just published, for a module tool; a copy is kept next to it."""

    @functools.cache
    def make(tool: str) -> Site:
        top = tmp_path_factory.mktemp(tool) / "now"
        top.mkdir()
        site = make_site(ModuleTool(stack, top, tool), top)
        site.published(images[0], "1.0", "--check", PRINTS)
        copy_exactly(top, top.with_name("kept"))
        return site

    return make


def copy_exactly(source: Path, target: Path) -> None:
    """Copy a directory, preserving times, modes and links; a catalogue's images and installations are hard links."""
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def as_published(site: Site) -> Site:
    """Revert what an earlier test changed."""
    shutil.rmtree(site.top)
    copy_exactly(site.top.with_name("kept"), site.top)
    return site


@pytest.fixture
def published_site(published_sites: Callable[[str], Site]) -> Site:
    """A site with Lmod and Toy 1.0 just published."""
    return as_published(published_sites("lmod"))


@pytest.fixture(params=["lmod", "envmodules"])
def each_published_site(published_sites: Callable[[str], Site], request: pytest.FixtureRequest) -> Site:
    """A site with Toy 1.0 just published, for each module tool in turn."""
    return as_published(published_sites(request.param))


def test_a_day_of_an_admin(lmod: ModuleTool, tmp_path: Path, images: list[Path]) -> None:
    site = make_site(lmod, tmp_path)
    one, two = images

    hostile = HOSTILE.format(tmp_path / "was-here")

    site.published(one, "1.0", "--alias", "stable", "--check", PRINTS, "--description", hostile)
    assert site.loaded("Toy") == site.loaded("Toy/1.0") == site.loaded("Toy/stable") == "one"
    (tmp_path / "users").mkdir()
    own = {"EASYBUILD_PREFIX": str(tmp_path / "users"), "EASYBUILD_MODULE_NAMING_SCHEME": "EasyBuildMNS"}
    easyconfig = site.catalogue / "easyconfigs/t/Toy/Toy-1.0.eb"
    site.does("install", easyconfig, EASYBUILD_SOURCEPATH=str(site.catalogue / "images"), **own)
    users = lmod("module load Toy/1.0 && singularity exec $SIF cat /generation", tmp_path / "users/modules/all")
    assert users.stdout.endswith("generation one")

    site.published(two, "2.0", "--alias", "latest", "--check", PRINTS, "--check", 'test -n "$SIFTOY"')
    assert (site.loaded("Toy"), site.loaded("Toy/latest")) == ("one", "two")
    record = site.record("2.0")
    assert [check["name"] for check in record["checks"]][1:] == [PRINTS, 'test -n "$SIFTOY"']
    assert all(check["passed"] and check["sha256"] == record["sha256"] for check in record["checks"])

    site.does("catalogue", "promote", "Toy/2.0", "-m", "tested for two weeks")
    assert (site.loaded("Toy"), site.loaded("Toy/stable"), site.loaded("Toy/1.0")) == ("two", "two", "one")

    site.does(
        "catalogue", "deprecate", "Toy/1.0", "--until", "2999-01-01", "--successor", "Toy/2.0", "--reason", hostile
    )
    told = " ".join(site.user("module load Toy/1.0 && echo $SIF").stderr.split())
    assert "2999-01-01" in told
    assert "os.execute(" in told
    assert "module load Toy/2.0" in told
    assert site.loaded("Toy/1.0") == "one"

    site.does("catalogue", "retire", "Toy/1.0")
    refused = site.user("module load Toy/1.0; echo rc $? $SIF")
    assert refused.stdout in ("rc 1 \n", "rc 1\n")
    assert re.search(r"Use\s+Toy/2.0\s+instead:\s+module\s+load\s+Toy/2.0", refused.stderr)
    assert site.loaded("Toy") == "two"
    assert "1.0" not in site.user("module -t avail Toy 2>&1").stdout
    assert "retired" in site.user("module whatis Toy/1.0 2>&1").stdout
    assert not (tmp_path / "was-here").exists()

    site.does("catalogue", "restore", "Toy/1.0")
    assert site.loaded("Toy/1.0") == "one"
    assert "Use" not in site.user("module load Toy/1.0").stderr
    assert [line["verb"] for line in site.journal()] == [
        *("publish", "publish", "promote", "deprecate", "retire", "restore")
    ]
    assert {line["who"].partition("@")[0] for line in site.journal()} == {site.environment()["USER"]}
    assert site.journal()[2]["why"] == "tested for two weeks"


def test_a_retired_container_loads_until_its_day_and_can_always_be_unloaded(
    published_sites: Callable[[str], Site],
) -> None:
    site = as_published(published_sites("envmodules"))
    site.does("catalogue", "retire", "Toy/1.0", "--until", "2999-01-01")
    assert site.loaded("Toy/1.0") == "one"
    retire = " ".join(site.argv("catalogue", "retire", "Toy/1.0", "--until", "2020-01-01"))
    mine = f"HPCMOD_CATALOGUE={site.catalogue} HPCMOD_SITE=generic"
    done = site.user(f'module load Toy/1.0; {mine} {retire} >&2; module unload Toy; echo "[$SIF]"; module load Toy/1.0')
    assert (done.stdout, done.returncode) == ("[]\n", 1)


def test_loads_are_counted_only_where_the_site_wants_it(each_published_site: Site) -> None:
    site = each_published_site
    assert site.loaded("Toy") == "one"
    assert not (site.catalogue / "usage").exists()
    site.does("catalogue", "init", site.catalogue, "--count-use")
    loads = site.catalogue / "usage/loads"
    assert stat.filemode(loads.stat().st_mode) == "drwx-wx-wt"
    site.user("module load Toy; module unload Toy; module whatis Toy; module help Toy; module avail; module show Toy")
    (first,) = loads.iterdir()
    assert (re.fullmatch(r"Toy@1\.0@[0-9a-f]{32}", first.name) is not None, first.stat().st_size) == (True, 0)
    os.mkfifo(loads / f"Toy@1.0@{'0' * 32}")  # nobody opens files that another user put there
    assert site.loaded("Toy") == "one"
    assert len(list(loads.iterdir())) == 3
    counted = json.loads(site.does("catalogue", "usage", "Toy", "--fold", "--json").stdout)["usage"]
    assert [(one["module"], one["loads"]) for one in counted] == [("Toy/1.0", 2)]
    loads.chmod(0o500)
    assert site.user("module load Toy").returncode == 0
    loads.chmod(0o755)


def test_a_failed_check_publishes_nothing_and_trials_are_hidden(site: Site, images: list[Path]) -> None:
    before = site.files()
    places = " ".join(str(site.catalogue / place) for place in ("modules", "records", "easyconfigs", "index.json"))
    spy = f"find {places} -name '*Toy*' >{site.top}/seen"
    done = site.publish(images[0], "1.0", "--check", spy, "--check", "echo the GPU is not there; exit 7")
    assert done.returncode == 1
    failed = "a check of Toy/1.0 failed (exit code 7): echo the GPU is not there; exit 7\n  the GPU is not there"
    assert failed in done.stderr
    assert site.files() == before
    assert site.loaded("Toy") == ""
    assert not list((site.catalogue / "software").rglob("Toy/*"))
    assert (site.top / "seen").read_text() == ""


def test_a_failed_check_keeps_what_undo_brings_back(site: Site, images: list[Path]) -> None:
    site.publish(images[0], "1.0", "--command", "hello=/bin/echo")
    record = site.catalogue / "records/Toy/1.0.json"
    text = record.read_text()
    record.unlink()  # restored from the journal: nothing of it is lost
    done = site.publish(images[0], "1.0")
    assert (done.returncode, f"restored from the journal: {record}" in done.stderr) == (0, True)
    assert record.read_text() == text
    site.does("catalogue", "undo")
    assert site.publish(images[0], "1.0", "--check", "false").returncode == 1
    site.does("catalogue", "undo", "2")
    assert site.user("module load Toy; hello again").stdout == "again\n"
    for place in (site.catalogue / "images/Toy-1.0.sif", Sif(site.catalogue / "images/Toy-1.0.sif").sidecar):
        place.chmod(0o600)  # as a repair that was killed left it
    assert site.publish(images[0], "1.0", EBROOTTOY="/loaded").returncode == 0
    assert "fail modes" not in " ".join(site.hpcmod("catalogue", "verify").stdout.split())
    site.does("catalogue", "undo")
    assert site.publish(images[0], "1.0", EBROOTTOY="/loaded").returncode == 0
    site.does("catalogue", "undo")
    done = site.hpcmod("catalogue", "undo", "4")
    assert (done.returncode, "change 5 has published Toy/1.0 again" in done.stderr) == (2, True)


def test_a_dry_run_prints_the_complete_plan_and_does_nothing(site: Site, images: list[Path]) -> None:
    before = site.files()
    words = ("publish", images[0], "--name", "Toy", "--version", "1.0-cpu", "--alias", "new", "--check", PRINTS)
    plain = site.does(*words, "--dry-run")
    for expected in ("module: Toy/1.0-cpu", "sha256: ", "command: eb ", f"check: {PRINTS}", "  versionsuffix = '-cpu'"):
        assert expected in plain.stdout
    found = json.loads(site.does(*words, "--dry-run", "--json").stdout)
    assert (found["module"], found["record"]["size"]) == ("Toy/1.0-cpu", images[0].stat().st_size)
    assert site.files() == before


def test_the_same_image_twice_is_not_a_change_and_another_one_is_refused(
    site: Site, images: list[Path], tmp_path: Path
) -> None:
    licence = tmp_path / "licence.txt"
    licence.write_text("Cite us.\n")
    assert written_as_planned(site, images[0], "--licence", licence, "--check", PRINTS) == ("publish", [])
    before = site.files()
    assert written_as_planned(site, images[0]) == ("alias", [])
    assert site.files() == before
    assert written_as_planned(site, images[0], "--alias", "stable") == ("alias", [])
    site.does("install", "--accept-licence", "--yes", "Toy/1.0")
    assert site.loaded("Toy/stable") == "one"
    done = site.publish(images[1], "1.0")
    assert done.returncode == 2
    assert "is published with another image" in done.stderr
    assert site.loaded("Toy") == "one"


def test_damage_is_found_and_publishing_again_fixes_it(published_site: Site, images: list[Path]) -> None:
    site, before = published_site, published_site.files()
    assert site.does("verify", "--checks", "Toy/1.0").stdout.count("ok ") >= 6
    assert site.files() == before
    corpus.flip_byte(site.catalogue / "images/Toy-1.0.sif")
    (site.catalogue / "software/Toy/1.0/bin/python").unlink()
    (site.modules / "Toy/1.0.lua").unlink()
    done = site.hpcmod("verify", "Toy/1.0")
    assert done.returncode == 4
    assert done.stdout.count("fail ") == 3
    assert written_as_planned(site, images[0]) == ("repair", ["easyconfigs/t/Toy/Toy-1.0.eb"])
    assert site.does("verify", "Toy/1.0")
    assert site.loaded("Toy") == "one"
    assert site.journal()[-1]["verb"] == "repair"
    (site.catalogue / "software/Toy/1.0/libexec/wrapper").chmod(0o644)
    (site.modules / "Toy/.modulerc.lua").unlink()
    assert site.hpcmod("verify", "Toy/1.0").stdout.count("fail ") == 2
    site.does("catalogue", "rebuild")
    assert site.does("verify", "Toy/1.0")


def test_pip_of_an_admin_does_not_change_what_all_users_get(published_site: Site, images: list[Path]) -> None:
    site, writes = published_site, 'python -c \'open("/user-software/venv/x.py", "w")\''
    for line in (f"module load Toy && {writes}", f"module load Toy && singularity exec $SIF {writes}"):
        assert "Read-only file system" in site.user(line).stderr
    said = site.user("module load Toy && pip install --no-index x").stderr
    assert "to add to this one: hpcmod add Toy x" in " ".join(said.split())
    layer = site.catalogue / "software/Toy/1.0/user-software"
    (layer / "venv/x.py").touch()  # as pip did in a container that an earlier release published
    done = site.hpcmod("verify", "Toy/1.0")
    assert (done.returncode, f"{layer}: packages were added" in " ".join(done.stdout.split())) == (1, True), done.stdout
    shutil.rmtree(layer)
    assert f"missing: {layer}" in " ".join(site.hpcmod("verify", "Toy/1.0").stdout.split())
    assert written_as_planned(site, images[0])[0] == "repair"
    assert site.does("verify", "Toy/1.0") and layer.is_dir()


def test_a_repair_in_the_other_syntax_keeps_what_the_old_module_calls_until_a_refresh(
    published_site: Site, images: list[Path]
) -> None:
    site, root = published_site, published_site.catalogue / "software/Toy/1.0"
    for syntax, name in (("Tcl", "1.0"), ("Lua", "1.0.lua")):
        (root / "bin/python").unlink()
        replace(site, variables={**site.variables, "EASYBUILD_MODULE_SYNTAX": syntax}).published(images[0], "1.0")
        assert {path.name for path in (site.modules / "Toy").glob("1*")} == {name}
        assert {path.name for path in root.glob("libexec/module.*")} == {"module.lua", "module.tcl"}
    site.does("catalogue", "refresh")
    assert {path.name for path in root.glob("libexec/module.*")} == {"module.lua"}
    assert site.loaded("Toy") == "one"
    assert site.does("verify", "Toy/1.0")


def test_an_easyconfig_is_published_as_it_is(site: Site, images: list[Path], tmp_path: Path) -> None:
    shutil.copy(images[0], tmp_path / "toy.sif")
    easyconfig = tmp_path / "Toy-3.0-gpu.eb"
    easyconfig.write_text(
        "easyblock = 'ContainerModule'\nname = 'Toy'\nversion = '3.0'\nversionsuffix = '-gpu'\n"
        "homepage = 'https://example.org'\ndescription = 'A toy'\ntoolchain = SYSTEM\nsources = ['toy.sif']\n"
        "checksums = [None]\nsanity_check_commands = ['python --version']\nmoduleclass = 'ai'\n"
    )
    site.does("publish", easyconfig, "--no-slurm")
    record = site.record("3.0-gpu")
    assert (record["sif"], record["easyconfig"]) == ("toy.sif", "Toy-3.0-gpu.eb")
    published = (site.catalogue / "easyconfigs/t/Toy/Toy-3.0-gpu.eb").read_text()
    assert published == easyconfig.read_text().replace("[None]", f"['{record['sha256']}']")
    assert site.loaded("Toy/3.0-gpu") == "one"
    other = tmp_path / "Toy-4.0.eb"
    other.write_text(easyconfig.read_text().replace("3.0", "4.0").replace("-gpu", ""))
    done = site.hpcmod("publish", other)
    assert done.returncode == 2
    assert "toy.sif belongs to Toy/3.0-gpu" in done.stderr


def test_the_record_is_readable_for_everyone_regardless_of_the_umask(published_site: Site) -> None:
    site = published_site
    record = site.record("1.0")
    listed = site.user("module load Toy && python -s -m pip list --format=json")  # -s: only what the image has
    inside = {(one["name"].lower(), one["version"]) for one in json.loads(listed.stdout)}
    assert {(one["name"].lower(), one["version"]) for one in record["packages"]} == inside
    assert record["labels"]["org.opencontainers.image.title"] == "hpcmod-tiny"
    assert (record["architecture"], record["state"], record["compat"]) == ("amd64", "published", "ok")
    assert record["stack"]["glibc"]
    assert (site.catalogue / "images/Toy-1.0.sif").samefile(site.catalogue / "software/Toy/1.0/Toy-1.0.sif")
    for path in {*site.catalogue.rglob("*")} - {site.catalogue / ".locks/reserve"}:  # space for undo and gc
        bits = 0o005 if path.is_dir() else 0o004
        assert path.is_symlink() or path.stat().st_mode & bits == bits, path
        assert path.is_symlink() or not path.stat().st_mode & 0o022, path


Row = Callable[[Site, Path, Path], None]
"""A trial from a peer, given a site with the first image published as Toy 1.0, that image and a working directory."""


def refused(*words: str, code: int) -> Row:
    """Return a trial that publishing must refuse with a single error message and without changing anything."""

    def trial(site: Site, image: Path, work: Path) -> None:
        before = site.files()
        done = site.hpcmod("publish", *(word.format(image=image, work=work) for word in words), "--no-slurm")
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
        assert done.stderr.startswith("hpcmod: ")
        assert site.files() == before

    return trial


def siblings(site: Site, image: Path, work: Path) -> None:
    (work / "other-team.sif").write_bytes(b"theirs")
    ours = shutil.copy(image, work / "ours, with $HOME.sif")
    site.published(ours, "7.0")
    assert site.loaded("Toy/7.0") == "one"
    site.does("catalogue", "gc", "--days", "0")
    assert sorted(path.name for path in work.glob("*.sif")) == ["other-team.sif", ours.name]


def read_only(site: Site, image: Path, work: Path) -> None:
    for place in ("images", "software/Toy", "modules/all/Toy"):
        before, closed = site.files(), site.catalogue / place
        closed.chmod(0o555)
        done = site.publish(image, "9.0")
        closed.chmod(0o755)
        assert (done.returncode, "Traceback" in done.stderr) == (7, False), (place, done.stderr)
        assert site.files() == before, place


ROWS: dict[str, Row] = {
    "SIF of a wrong digest: installed": refused(
        "{image}", "--name", "Toy", "--version", "2.0", "--checksum", "ab" * 32, code=4
    ),
    "image that cannot be got: traceback, empty directories stay": refused(
        "docker-archive:{work}/none.tar", "--name", "Toy", "--version", "2.0", code=3
    ),
    "site directory with others' SIFs, path with blanks: siblings deleted, wrapper dies": siblings,
    "read-only places: traceback, orphans stay": read_only,
}
"""Keys: behaviour of the peer, singularity-hpc 0.1.32, in November 2026; values: the same trial with hpcmod.

Its trials with killed or concurrent processes and with full disks are in test_publish_kill.py, those with files that
are no SIF and with bad names in tests/unit/catalogue/publishing.
"""


@pytest.fixture(scope="module")
def busy_site(published_sites: Callable[[str], Site]) -> Iterator[Site]:
    """A site with Toy 1.0 published, for trials that do not change it."""
    site = as_published(published_sites("lmod"))
    yield site
    assert site.loaded("Toy/1.0") == "one"
    assert site.does("verify", "Toy/1.0")


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_faults_that_break_other_tools_do_not_break_us(
    busy_site: Site, images: list[Path], tmp_path: Path, row: Row
) -> None:
    row(busy_site, images[0], tmp_path)


def written_as_planned(site: Site, image: Path, *more: str | Path) -> tuple[str, list[str]]:
    """Compare a plan with what publishing Toy 1.0 writes; return its action and the planned files left unchanged."""
    words = ("publish", image, "--name", "Toy", "--version", "1.0", "--no-slurm", *more)
    plan = json.loads(site.does(*words, "--dry-run", "--json").stdout)
    before = times(site.catalogue)
    site.does(*words)
    after = times(site.catalogue)
    written = {name for name, changed in after.items() if before.get(name) != changed}
    assert not set(before) - set(after)

    def is_planned(name: str, planned: str) -> bool:
        return name.startswith(planned) if planned.endswith("/") else name == planned

    assert [name for name in sorted(written) if not any(is_planned(name, one) for one in plan["files"])] == []
    if plan["command"]:
        record = site.record("1.0")
        assert plan["easyconfig"] == (site.catalogue / "easyconfigs/t/Toy" / record["easyconfig"]).read_text()
        assert {key: record[key] for key in plan["record"] if key not in SET_BY_PUBLISHING} == {
            key: value for key, value in plan["record"].items() if key not in SET_BY_PUBLISHING
        }
        assert [check["name"] for check in record["checks"]][1:] == plan["checks"]
    return plan["action"], [one for one in plan["files"] if not any(is_planned(name, one) for name in written)]


SET_BY_PUBLISHING = ("aliases", "checks", "licence", "published", "publisher", "reference", "signature")


def times(directory: Path) -> dict[str, int]:
    """Return the modification time (ns) of each file by relative path, without locks."""
    found = (path for path in directory.rglob("*") if not path.is_dir() or path.is_symlink())
    files = {str(path.relative_to(directory)): path.lstat().st_mtime_ns for path in found}
    return {name: changed for name, changed in files.items() if not name.startswith(".locks/")}


def test_the_commands_of_a_tool_are_on_path_and_on_its_pages(site: Site, tiny_sif: Path, tmp_path: Path) -> None:
    vendor_image = make_vendor_image(tiny_sif, tmp_path)
    commands = ("--command", "solve", "--command", "mesh=/opt/vendor/bin/mesh")
    site.published(vendor_image, "3.1", *commands, "--check", "solve 1 | grep -Fx 'solve: <1>'")
    for lost in (("kept/Toy",), ("kept/Toy", "easyconfigs/t/Toy")):  # the commands are in other easyconfigs
        for place in lost:
            shutil.rmtree(site.catalogue / place)
        cure = f"hpcmod publish {vendor_image} --name Toy --version 3.1"
        assert cure in " ".join(site.hpcmod("verify", "Toy/3.1").stdout.split())
        site.published(vendor_image, "3.1")
        assert "fail" not in site.does("verify", "Toy/3.1").stdout

    done = site.user("module load Toy/3.1 && solve 'a b' '$x' && mesh 2 && type -P python | grep -c Toy")
    assert done.stdout.splitlines() == ["solve: <a b> <$x>", "mesh: <2>", "0"], done.stderr
    done = site.user(
        "hpcmod exec Toy/3.1 mesh 3; module load Toy/3.1; start-shell mesh 4; start-shell -c 'mesh 5'; "
        "hpcmod info Toy/3.1 | grep ^commands; hpcmod job Toy/3.1 -- mesh 6 2>&1 | grep 'mesh '"
    )
    known_everywhere = ["mesh: <3>", "mesh: <4>", "mesh: <5>", "commands: mesh solve", "run-in-env mesh 6"]
    assert [line.strip() for line in done.stdout.splitlines()] == known_everywhere, done.stdout + done.stderr
    assert "solve" in site.record("3.1")["commands"]
    assert "env" not in site.record("3.1")["commands"]

    known = ("--name", "Toy", "--version", "3.2", "--no-slurm")
    for command, reason in (("nosuch", "has no command 'nosuch'"), ("mesh=/opt/no/mesh", "no program /opt/no/mesh")):
        for dry_run in ((), ("--dry-run",)):
            refused = site.hpcmod("publish", str(vendor_image), *known, "--command", command, *dry_run)
            assert (refused.returncode, reason in refused.stderr) == (3, True), refused.stderr
    assert not (site.catalogue / "images/Toy-3.2.sif").exists()

    pages = tmp_path / "pages"
    site.does("catalogue", "docs", pages)
    text = "".join(path.read_text() for path in (pages / "containers").rglob("*.html"))
    assert "module load Toy/3.1\nmesh\nsolve</code>" in text
    assert "\npython train.py" not in text


def test_the_commands_of_the_page_do_what_it_says(lmod: ModuleTool, tiny_sif: Path, tmp_path: Path) -> None:
    one, two = make_images(tiny_sif, tmp_path, "one", "two", megabytes=1)
    shutil.move(one, tmp_path / "torch.sif")
    shutil.move(two, tmp_path / "torch-new.sif")
    make_vendor_image(tiny_sif, tmp_path)
    make_key(tmp_path, "signing")
    site = Site(lmod, tmp_path)
    mine = {
        "/appl/containers": str(site.catalogue),
        "swadmin": grp.getgrgid(os.getgid()).gr_name,
        "import torch": "import json",  # the image is small and has no torch
    }
    lines = [line for block in blocks("publish", "console") for line in block.splitlines()]
    script = "\n".join(["set -ex", *lines])
    for theirs, ours in mine.items():
        assert theirs in script
        script = script.replace(theirs, ours)
    loads = 'module load PyTorch && singularity exec "$SIF" cat /generation >&2; module purge'
    assert script.count("module load PyTorch\n") == 1
    script = script.replace("module load PyTorch\n", f"{loads}\n")
    done = lmod(f"{script}\n{loads}", site.modules, cwd=tmp_path, **site.environment(HPCMOD_CATALOGUE=""))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall("this image is generation (one|two)", done.stderr) == ["one", "two"]
    assert [line["verb"] for line in site.journal()] == [
        *("publish", "publish", "publish", "publish", "promote", "deprecate", "retire", "restore", "undo restore")
    ]
