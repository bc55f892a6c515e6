"""A user's day with a catalogue, with the real `eb` and runtime: find, install, run, refresh, remove."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcmod.catalogue.records.index import write_index
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.values.record import CatalogueRecord
from tests.catalogues import change_record, make_catalogue, make_record, put
from tests.integration.conftest import TOY_IMAGE, sha256_of, write_easyconfig
from tests.stack import Done, EasyBuild, Stack, run, write_eb

pytestmark = pytest.mark.stack

MODULE = "Toy/1.0"


@dataclass(frozen=True)
class User:
    """A user who runs `hpcmod ...` with a catalogue and a personal EasyBuild, without any module loaded."""

    eb: EasyBuild
    catalogue: Catalogue

    def environment(self, **more: str) -> dict[str, str]:
        own = self.eb.environment()
        return {
            **own,
            "PATH": f"{write_eb(self.eb.stack, self.eb.top)}:{own['PATH']}",
            "HPCMOD_CATALOGUE": str(self.catalogue.directory),
            "HPCMOD_SITE": "generic",
            **more,
        }

    def argv(self, *words: str) -> list[str]:
        return [str(self.eb.stack.python.parent / "hpcmod"), *words]

    def __call__(self, *words: str, **env: str) -> Done:
        return self.eb.hpcmod(*words, **self.environment(**env))

    def must(self, *words: str, **env: str) -> str:
        done = self(*words, **env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def data(self, *words: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.must(*words, "--json"))
        return found

    @property
    def root(self) -> Path:
        return self.eb.prefix / "software" / MODULE


@pytest.fixture(scope="module")
def record(stack: Stack) -> CatalogueRecord:
    return make_record(
        MODULE, sif=TOY_IMAGE, sha256=sha256_of(stack.tiny_sif), size=stack.tiny_sif.stat().st_size, aliases=("stable",)
    )


@pytest.fixture(scope="module")
def user(stack: Stack, record: CatalogueRecord, tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user who installed Toy 1.0 from the catalogue; Toy 0.9 is available for installation."""
    top = tmp_path_factory.mktemp("it's $HOME")
    old = change_record(record, version="0.9", module="Toy/0.9", sif="old.sif", aliases=(), easyconfig="Toy-0.9.eb")
    catalogue = make_catalogue(top / "catalogue", record, old)
    for place in (catalogue.images, catalogue.easyconfigs_of("Toy")):
        place.mkdir(parents=True)
    (catalogue.images / TOY_IMAGE).symlink_to(stack.tiny_sif)
    write_easyconfig(catalogue.easyconfigs_of("Toy"), checksums=[sha256_of(stack.tiny_sif)])
    write_index(catalogue)
    found = User(EasyBuild(stack, top, top / "central"), catalogue)
    assert [one["place"] for one in found.data("ls")["containers"]] == ["available", "available"]  # type: ignore[attr-defined]
    found.must("install", "toy")
    return found


def places(user: User) -> dict[str, tuple[str, str, bool]]:
    listed = user.data("ls", "--all")["containers"]
    return {one["module"]: (one["place"], one["state"], one["yours"]) for one in listed}  # type: ignore[attr-defined]


def test_a_container_installed_by_name_is_ready_and_the_users_own(user: User) -> None:
    assert places(user) == {"Toy/0.9": ("available", "published", False), MODULE: ("ready", "published", True)}
    assert user.must("ls", "--ready").split()[:2] == [MODULE, "ready"]


def test_a_command_gets_arguments_and_input_and_gives_its_status(user: User) -> None:
    words = ["sh", "-c", 'printf "%s\\n" "$@"; exit 41', "sh", "a b", "$HOME", "--", "", "--json", "-h"]
    done = user("exec", "Toy", *words)
    assert (done.stdout, done.returncode) == ("a b\n$HOME\n--\n\n--json\n-h\n", 41)
    fed = subprocess.run(
        user.argv("exec", MODULE, "cat"), input="fed", env=user.environment(), capture_output=True, text=True
    )
    assert (fed.stdout, fed.returncode) == ("fed", 0)


def test_options_before_the_name_are_the_runtimes(user: User, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = user(
        "exec", "--no-home", "-B", f"{tmp_path}:/shown", "--env=A=b c", "Toy", "sh", "-c", 'ls /shown; echo "$A"'
    )
    assert done.stdout == "file\nb c\n", done.stderr


def test_the_image_sees_what_the_module_would_set(user: User) -> None:
    inside = user.must(
        "exec", "Toy/stable", "sh", "-c", "echo $PATH; ls /runscripts", SINGULARITY_BINDPATH="/etc:/etc2"
    )
    path, *scripts = inside.split()
    assert path.startswith("/runscripts:/user-software/venv/toy/bin:")
    assert "get-master" in scripts
    assert user.must("exec", "Toy", "ls", "/etc2/passwd", SINGULARITY_BINDPATH="/etc:/etc2")


def test_a_shell_in_the_image(user: User) -> None:
    assert user.must("shell", "Toy", "-c", "echo $BASH_VERSION").strip()


WAITS = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"told\\n"), os._exit(7)))
os.write(1, b"up\\n")
for _ in range(600):  # one long sleep would not end by a signal that comes just before it
    time.sleep(0.1)
"""


def test_signals_go_to_the_program_and_no_parent_stays(user: User) -> None:
    argv = user.argv("exec", "Toy", "python3", "-c", WAITS)
    with subprocess.Popen(argv, env=user.environment(), stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        running = Path(f"/proc/{child.pid}/cmdline").read_bytes()
        assert b"hpcmod\0" not in running and b"in-environment" not in running
        child.send_signal(signal.SIGTERM)
        assert child.stdout.read() == "told\n"
        assert child.wait(30) == 7


def test_an_available_container_is_not_run_but_the_command_to_install_it_is_shown(user: User) -> None:
    done = user("exec", "Toy/0.9", "true")
    assert (done.returncode, done.stdout) == (3, "")
    assert "hpcmod install Toy/0.9" in done.stderr


def test_info_says_how_to_use_it_and_what_is_inside(user: User) -> None:
    said = user.must("info", "Toy")
    assert f"; module load {MODULE}\n" in said
    assert "package: torch 2.7.1+rocm6.2.4\n" in said
    assert user.data("info", "Toy")["root"] == str(user.root)


def state_of(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


def test_an_update_writes_scripts_and_module_again_and_leaves_the_image(user: User) -> None:
    image, script, module = user.root / TOY_IMAGE, user.root / "in-environment", user.eb.modules / f"{MODULE}.lua"
    before, text = state_of(image), script.read_text()
    script.write_text("damaged")
    module.write_text(module.read_text() + "-- old\n")
    image.chmod(0o000 if os.geteuid() else 0o644)  # so that reading the image fails
    try:
        planned = user.must("update", MODULE, "--dry-run")
    finally:
        image.chmod(0o644)
    assert script.read_text() == "damaged" and "--rebuild" in planned
    assert ": kept, sha256 " in user("update", MODULE).stderr
    assert state_of(image) == before
    assert script.read_text() == text
    assert "-- old" not in module.read_text()


def test_an_update_takes_another_image_that_was_published_by_the_name(user: User) -> None:
    record = json.loads((user.root / "record.json").read_text())
    assert record["image"]["modified"] == (user.root / TOY_IMAGE).stat().st_mtime_ns
    (user.root / TOY_IMAGE).chmod(0o644)
    with (user.root / TOY_IMAGE).open("ab") as file:
        file.write(b"\0")
    user.must("update", MODULE)
    assert sha256_of(user.root / TOY_IMAGE) == record["image"]["sha256"]


@pytest.fixture
def changed(user: User, record: CatalogueRecord) -> Iterator[CatalogueRecord]:
    """The record of Toy 1.0, to be published with changes; restored after the test."""
    yield record
    put(user.catalogue, record)


def test_lists_outdated_installations_with_a_cure(user: User, changed: CatalogueRecord) -> None:
    assert user.data("outdated")["outdated"] == []
    put(
        user.catalogue,
        change_record(changed, state="deprecated", until="2027-01-01", successor="Toy/0.9", sha256="0" * 64),
    )
    found = {one["kind"]: one["cure"] for one in user.data("outdated")["outdated"]}  # type: ignore[attr-defined]
    assert found == {"state": "hpcmod install Toy/0.9", "image": f"hpcmod update {MODULE}"}
    assert places(user)[MODULE] == ("ready", "deprecated", True)


def test_a_retired_container_is_not_installed_and_names_its_successor(user: User, changed: CatalogueRecord) -> None:
    put(user.catalogue, change_record(changed, state="retired", successor="Toy/2", reason="too old"))
    done = user("install", MODULE)
    assert done.returncode == 3
    assert f"{MODULE} is retired: too old" in done.stderr and "hpcmod install Toy/2" in done.stderr
    assert user.must("ls").split()[0] == "Toy/0.9"


def test_a_tampered_image_fails_verification_by_name_and_by_path(user: User) -> None:
    image = user.root / TOY_IMAGE
    assert user("verify", MODULE).returncode == 0
    before = image.read_bytes()
    image.chmod(0o644)
    image.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    try:
        assert [user("verify", what).returncode for what in (MODULE, "Toy", str(image))] == [4, 4, 4]
    finally:
        image.write_bytes(before)
    assert user("verify", str(image)).returncode == 0


def test_detects_deleted_files_and_an_update_restores_them(user: User) -> None:
    (user.root / "bin/python").unlink()
    (user.root / "runscripts/get-master").unlink()
    found = {one["kind"]: one for one in user.data("outdated")["outdated"]}  # type: ignore[attr-defined]
    assert "bin/python" in found["damaged"]["found"] or "get-master" in found["damaged"]["found"]
    assert found["damaged"]["cure"] == f"hpcmod update {MODULE}"
    findings = json.loads(user("doctor", "--json").stdout)["findings"]
    assert {one["subject"]: one["level"] for one in findings}[f"installation {MODULE}"] == "fail"
    user.must("update", MODULE)
    assert user.data("outdated")["outdated"] == []


ENDS_EARLY = "import sys; from hpcmod.core.fs.temporary import *; open(f'{sys.argv[1]}/{temporary_name(\"x\")}', 'w')"


def test_repair_restores_image_scripts_and_modulefile_and_keeps_the_users_packages(user: User) -> None:
    image, script, module = (
        user.root / TOY_IMAGE,
        user.root / "runscripts/get-master",
        user.eb.modules / f"{MODULE}.lua",
    )
    package = next(user.root.glob("user-software/venv/toy/lib/python3*/site-packages")) / "mine.py"
    package.write_text("mine = 1")
    record = json.loads((user.root / "record.json").read_text())
    assert record["files"]["runscripts/get-master"] == sha256_of(script)
    assert record["modulefile"] == {"path": str(module), "sha256": sha256_of(module)}
    for place in (script.parent, module.parent):
        run([str(user.eb.stack.python), "-c", ENDS_EARLY, str(place)], {}, place)
    assert "nothing to repair" in user("repair", "Toy").stderr
    assert not [path for place in (script.parent, module.parent) for path in place.glob(".x.hpcmod-part*")]
    link = user.eb.modules.parent / "ai" / f"{MODULE}.lua"  # in the directory of its class
    before = link.readlink(), link.lstat().st_ino, link.lstat().st_ctime_ns

    image.chmod(0o644)
    with image.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 1]))
    (user.root / "bin/python").unlink()
    script.write_text("changed")
    module.unlink()
    checked = user("doctor", MODULE)
    assert checked.returncode == 1
    for found in (str(image), "bin/python", "changed since they were installed: runscripts/get-master", str(module)):
        assert found in checked.stdout
    assert user("verify", MODULE).returncode == 4
    assert "--rebuild" in user.must("repair", MODULE, "--dry-run") and script.read_text() == "changed"
    repaired = user.data("repair", MODULE)
    assert {one["subject"] for one in repaired["damage"]} == {"image", "scripts", "modulefile"}
    assert repaired["left"] == []
    # never removed to be made again: an interrupted repair would lose it, and the next one would find nothing to repair
    assert (link.readlink(), link.lstat().st_ino, link.lstat().st_ctime_ns) == before
    assert user.must("verify", MODULE).count("ok ") == 3
    assert package.read_text() == "mine = 1"
    package.unlink()


def test_removing_takes_module_and_image_and_leaves_the_users_packages(user: User) -> None:
    package = next(user.root.glob("user-software/venv/toy/lib/python3*/site-packages")) / "mine.py"
    package.write_text("mine = 1")
    listed = user.must("remove", "--dry-run", MODULE).splitlines()
    assert str(user.root / TOY_IMAGE) in listed and (user.root / TOY_IMAGE).exists()
    done = user("remove", MODULE)
    assert done.stdout.splitlines() == listed
    assert "your own packages" in done.stderr
    left = [path for path in user.root.rglob("*") if not path.is_dir() or path.is_symlink()]
    assert package in left
    assert [path for path in left if "user-software" not in path.parts] == []
    assert not list(user.eb.prefix.rglob("1.0.lua"))
    assert places(user)[MODULE][0] == "available"
    again = user("remove", MODULE)
    assert again.returncode == 3
