from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from hpcmod.core.resources import runscript_files
from tests.unit.runscripts.scripts import DISTRIBUTED, PATIENT_PROGRAM, Rank, Scripts, make_program, task

pytestmark = pytest.mark.slow

COMPILES = "#!/bin/bash\necho compiled >$TRITON_CACHE_DIR/kernel-$RANK\nexit 7\n"
PLANTS = """#!/bin/bash
mkdir -p "$TO"
ln -s "$VICTIM" "$TO/.hpcmod-caches.$PPID"
ln -s "$VICTIM" "$TO/hpcmod-caches.tar"
"""
SHOWS = "#!/bin/bash\ncat $TRITON_CACHE_DIR/kernel\n"


def make_python(tmp_path: Path, text: str) -> None:
    """Make a stand-in for the image's Python, which runs the program that saves and restores as it is."""
    program = make_program(tmp_path / "program", text)
    own = f'#!/bin/bash\n[[ $1 != -I ]] || exec {sys.executable} "$@"\nexec {program} "$@"\n'
    make_program(tmp_path / "python-bin" / "python", own)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A directory with the saved caches of an earlier job."""
    place = tmp_path / "saved 'caches'"
    (tmp_path / "former" / "triton").mkdir(parents=True)
    (tmp_path / "former" / "triton" / "kernel").write_text("compiled once\n")
    place.mkdir()
    with tarfile.open(place / "hpcmod-caches.tar", "w") as archive:
        archive.add(tmp_path / "former", arcname=".")
    return place


def test_the_first_rank_saves_compiled_kernels_and_returns_pythons_exit_code(rank: Rank, tmp_path: Path) -> None:
    make_python(tmp_path, COMPILES)
    ran = rank(task(0), "--save-caches", str(tmp_path / "to" / "here"), "x.py")
    assert (ran.status, ran.stderr) == (7, "")
    with tarfile.open(tmp_path / "to/here/hpcmod-caches.tar") as archive:
        assert archive.getnames() == ["triton/kernel-0"]
    assert [path.name for path in (tmp_path / "to/here").iterdir()] == ["hpcmod-caches.tar"]


def test_links_and_pipes_are_not_saved_and_hard_links_are_saved_whole(tmp_path: Path) -> None:
    triton = tmp_path / "cache/triton"
    triton.mkdir(parents=True)
    (tmp_path / "secret").write_text("mine")
    (triton / "a").write_text("kernel")
    (triton / "b").symlink_to(tmp_path / "secret")
    (triton / "c").hardlink_to(triton / "a")
    os.mkfifo(triton / "d")
    (triton / "e").write_text("last")
    program = runscript_files()["lib/saved_caches.py"]
    save = [sys.executable, "-Ic", program, "save", tmp_path / "cache", tmp_path / "to"]
    subprocess.run(save, check=True, timeout=20)
    with tarfile.open(tmp_path / "to/hpcmod-caches.tar") as archive:
        saved = {entry.name: archive.extractfile(entry) for entry in archive}
        assert {name: file.read() for name, file in saved.items() if file} == {
            "triton/a": b"kernel",
            "triton/c": b"kernel",
            "triton/e": b"last",
        }
    (tmp_path / "to/hpcmod-caches.tar").unlink()
    (tmp_path / "to/hpcmod-caches.tar").mkdir()
    assert subprocess.run(save, check=False, capture_output=True).returncode == 1
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["hpcmod-caches.tar"]


def test_caches_are_not_saved_through_links_that_others_planted(rank: Rank, tmp_path: Path) -> None:
    make_python(tmp_path, PLANTS)
    (tmp_path / "thesis.txt").write_text("mine")
    rank(task(0, TO=str(tmp_path / "to"), VICTIM=str(tmp_path / "thesis.txt")), "--save-caches", str(tmp_path / "to"))
    assert (tmp_path / "thesis.txt").read_text() == "mine"
    assert (
        tarfile.is_tarfile(tmp_path / "to/hpcmod-caches.tar") and not (tmp_path / "to/hpcmod-caches.tar").is_symlink()
    )


def test_an_archive_of_others_writes_nothing_outside_the_caches(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    with tarfile.open(tmp_path / "hpcmod-caches.tar", "w") as archive:
        outside = ("../up", ""), (str(tmp_path / "root"), ""), ("out", str(tmp_path)), ("out/x", "")
        for name, link in (*outside, ("a", "")):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = (tarfile.SYMTYPE, link) if link else (tarfile.REGTYPE, "")
            archive.addfile(entry)
    program = runscript_files()["lib/saved_caches.py"]
    subprocess.run([sys.executable, "-Ic", program, "restore", tmp_path / "cache", tmp_path], check=True)
    names = sorted(path.name for path in (tmp_path / "cache").rglob("*"))
    assert names == ["a", "lock", "out", "restored", "x"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "hpcmod-caches.tar"]


@pytest.mark.parametrize("number", [1, 3])
def test_the_other_ranks_save_nothing(rank: Rank, tmp_path: Path, number: int) -> None:
    rank(task(number), "--save-caches", str(tmp_path / "to"), "x.py")
    assert not (tmp_path / "to").exists()


def test_saved_caches_are_available_to_every_rank(rank: Rank, saved: Path, tmp_path: Path) -> None:
    make_python(tmp_path, SHOWS)
    ran = [rank(task(number), "--restore-caches", str(saved), "x.py") for number in range(4)]
    assert [(each.stdout, each.stderr) for each in ran] == [("compiled once\n", "")] * 4


def test_ranks_that_start_together_wait_for_the_one_that_unpacks(
    scripts: Scripts, python_path: str, saved: Path, tmp_path: Path
) -> None:
    make_python(tmp_path, SHOWS)
    env = {"PATH": python_path, "HPCMOD_CACHE_ROOT": str(tmp_path / "c"), "HPCMOD_RESTORE_CACHES": str(saved)}
    script = str(scripts.root / "runscripts" / DISTRIBUTED)
    started = [
        subprocess.Popen([script], env={**env, **task(number, (8,))}, stdout=subprocess.PIPE, text=True)
        for number in range(8)
    ]
    assert [process.communicate()[0] for process in started] == ["compiled once\n"] * 8


def test_a_first_job_finds_none_and_says_so_once(rank: Rank, tmp_path: Path) -> None:
    ran = [rank(task(number), "--restore-caches", str(tmp_path), "x.py") for number in (0, 1)]
    assert [each.status for each in ran] == [0, 0] and ran[1].stderr == ""
    assert ran[0].stderr == f"{DISTRIBUTED}: no caches to restore: {tmp_path}/hpcmod-caches.tar not found\n"


def test_a_damaged_archive_does_not_stop_the_job(rank: Rank, saved: Path, tmp_path: Path) -> None:
    make_python(tmp_path, SHOWS)
    (saved / "hpcmod-caches.tar").write_bytes(b"no archive")
    ran = rank(task(0), "--restore-caches", str(saved), "x.py")
    assert f"cannot restore all caches from {saved}" in ran.stderr


def test_a_place_that_cannot_be_written_does_not_change_the_exit_status(rank: Rank, tmp_path: Path) -> None:
    make_python(tmp_path, COMPILES)
    (tmp_path / "file").touch()
    ran = rank(task(0), f"--save-caches={tmp_path}/file", "x.py")
    assert ran.status == 7 and f"cannot save the caches in {tmp_path}/file" in ran.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 5), (signal.SIGUSR1, 6), (signal.SIGINT, 130)])
def test_python_gets_the_signals_and_the_caches_are_saved_after_it(
    scripts: Scripts, python_path: str, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    more = "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(6))\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\n"
    make_python(tmp_path, PATIENT_PROGRAM.replace("print(", more + "print("))
    env = {"PATH": python_path, "HPCMOD_CACHE_ROOT": str(tmp_path), **task(0), "HPCMOD_SAVE_CACHES": str(tmp_path)}
    script = str(scripts.root / "runscripts" / DISTRIBUTED)
    process = subprocess.Popen([script], env=env, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == status and (tmp_path / "hpcmod-caches.tar").is_file()


def test_python_reads_its_stdin_though_another_waits_for_it(scripts: Scripts, python_path: str, tmp_path: Path) -> None:
    make_python(tmp_path, "#!/bin/bash\ncat\n")
    env = {"PATH": python_path, "HPCMOD_CACHE_ROOT": str(tmp_path), "HPCMOD_SAVE_CACHES": str(tmp_path)}
    script = str(scripts.root / "runscripts" / DISTRIBUTED)
    done = subprocess.run([script], input="given\n", env=env, capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr) == ("given\n", "")
