"""Nothing that another user puts into the working directory is executed, with the real `eb`."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.catalogues import make_catalogue, make_record
from tests.integration.conftest import TOY_IMAGE, sha256_of, write_easyconfig
from tests.stack import Done, EasyBuild, Stack, run

pytestmark = pytest.mark.stack

NAMES = (
    "compileall",
    "easybuild",
    "hpcmod",
    "importlib",
    "json",
    "logging",
    "os",
    "pip",
    "runpy",
    "sitecustomize",
    "socket",
)
"""Modules that Python imports for `eb`, for pip, or for our programs on nodes."""


@pytest.fixture(scope="module")
def eb(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> EasyBuild:
    """An EasyBuild installation with a catalogue of one container, Toy/1.0."""
    top = tmp_path_factory.mktemp("top")
    sha256 = sha256_of(stack.tiny_sif)
    record = make_record("Toy/1.0", sif=TOY_IMAGE, sha256=sha256, size=stack.tiny_sif.stat().st_size)
    catalogue = make_catalogue(top / "catalogue", record)
    for place in (catalogue.images, catalogue.easyconfigs_of("Toy")):
        place.mkdir(parents=True)
    (catalogue.images / TOY_IMAGE).symlink_to(stack.tiny_sif)
    write_easyconfig(catalogue.easyconfigs_of("Toy"), checksums=[sha256])
    variables = {"HPCMOD_CATALOGUE": str(catalogue.directory), "HPCMOD_SITE": "generic"}
    return EasyBuild(stack, top, top / "central", variables=variables)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory full of files that its owner wants others to run."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    for name in ("eb", "apptainer", "singularity", "python3", "id"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/ran\nexit 1\n")
        program.chmod(0o755)
    (tmp_path / "Toy").mkdir()
    for planted in (tmp_path / "Toy" / "1.0", tmp_path / "Toy-1.0.eb"):
        planted.write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('easyconfig')\n")
    (tmp_path / "Toy-1.0.eb").chmod(0o666)
    return tmp_path


def hpcmod(eb: EasyBuild, here: Path, *words: str) -> Done:
    environ = eb.environment()
    environ["PATH"] = f".::{environ['PATH']}"
    return run([str(eb.stack.python.parent / "hpcmod"), *words], environ, here)


def test_a_container_is_installed_and_not_the_file_of_its_name(eb: EasyBuild, here: Path) -> None:
    done = hpcmod(eb, here, "install", "--dry-run", "Toy/1.0")
    assert done.returncode == 0, done.stdout + done.stderr
    first, *_, last = done.stdout.splitlines()
    assert (first, last) == ("module Toy/1.0 (site profile: generic)", f"directory: {eb.prefix}/software/Toy/1.0")
    assert done.stderr.splitlines()[-1] == "hpcmod: this was a dry run: nothing was installed"
    assert not (here / "ran").exists(), (here / "ran").read_text()


def test_an_easyconfig_of_another_user_is_taken_only_by_its_path(eb: EasyBuild, here: Path) -> None:
    done = hpcmod(eb, here, "install", "--dry-run", "Toy-1.0.eb")
    assert done.returncode == 2
    assert "give its path: ./Toy-1.0.eb" in done.stderr
    assert not (here / "ran").exists()
    assert stat.S_IMODE((here / "Toy-1.0.eb").stat().st_mode) == 0o666
    hpcmod(eb, here, "install", "--dry-run", "./Toy-1.0.eb")
    assert (here / "ran").read_text().strip("easyconfig") == ""


def test_a_relative_path_means_that_easyconfig(eb: EasyBuild, here: Path) -> None:
    own = write_easyconfig(here / "Toy", name="Own")
    done = hpcmod(eb, here, "install", "--dry-run", f"./Toy/{own.name}")
    assert "Own" in done.stdout, done.stdout + done.stderr
    own.write_text(f"{own.read_text()}\nwrapped_commands = 3\n")
    failed = hpcmod(eb, here, "install", "--dry-run", f"./Toy/{own.name}")
    assert (failed.returncode, "wrapped_commands: 3 is not a list\nWrite [" in failed.stderr) == (2, True)
    assert not (here / "ran").exists()


@pytest.mark.parametrize("words", [("doctor",), ("ls",), ("update", "--dry-run", "--all")])
def test_other_verbs_run_no_program_of_the_working_directory(eb: EasyBuild, here: Path, words: tuple[str, ...]) -> None:
    hpcmod(eb, here, *words)
    assert not (here / "ran").exists(), (here / "ran").read_text()


def test_pip_and_the_programs_on_nodes_import_nothing_from_there(eb: EasyBuild, here: Path) -> None:
    assert hpcmod(eb, here, "install", "Toy/1.0").returncode == 0
    offline = ("--no-index", "--wheel-dir", str(eb.stack.wheels))
    for words, code in (
        (("add", "Toy", "filelock", *offline), 0),
        (("rebase", "Toy", "--dry-run", *offline), 0),
        (("exec", "Toy", "list-packages"), 0),
        (("kernel", "Toy"), 7),  # there is no ipykernel, as Python in the image says
        (("site", "new"), 0),
        (("doctor",), None),
    ):
        done = hpcmod(eb, here, *words)
        assert code in (None, done.returncode), (words, done.stdout + done.stderr)
        assert not (here / "ran").exists(), (words, (here / "ran").read_text())
    packages = hpcmod(eb, here, "exec", "Toy", "list-packages").stdout
    assert "filelock" in packages
