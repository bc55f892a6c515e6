"""Verbs are killed at each of their changes to the file system, and complete when they are run again."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcmod.catalogue.admin.setup import SetupFile, write_setup
from hpcmod.catalogue.bundle import read_bundle, write_bundle
from tests.calls import hpcmod
from tests.installations import install

CHANGES = ("rename", "replace", "unlink", "rmdir", "mkdir", "link", "write", "fsync")
"""Functions of `os` that change the file system."""


def killed_at(step: int, work: Callable[[], None]) -> bool:
    """Run `work` in a child process that is killed before its n-th change; return whether it was killed."""
    child = os.fork()
    if not child:
        left = step

        def counting(change: Callable[..., object]) -> Callable[..., object]:
            def counted(*args: object, **how: object) -> object:
                nonlocal left
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)
                return change(*args, **how)

            return counted

        for name in CHANGES:
            setattr(os, name, counting(getattr(os, name)))
        try:
            work()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def kill_everywhere(fresh: Callable[[Path], Callable[[], None]], check: Callable[[Path], bool], top: Path) -> int:
    """Kill some work at each step in a directory of its own, run it again, check the result; return how many steps."""
    for step in itertools.count(1):
        place = top / str(step)
        place.mkdir()
        work = fresh(place)
        was_killed = killed_at(step, work)
        if was_killed:
            work()
        assert check(place)
        if not was_killed:
            return step
    raise AssertionError("it never ends")


def left(place: Path) -> list[str]:
    """Return the names of all files below a directory."""
    return sorted(path.name for path in place.rglob("*") if not path.is_dir())


@pytest.mark.slow
def test_remove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HPCMOD_SITE", "generic")

    def fresh(place: Path) -> Callable[[], None]:
        def work() -> None:
            done = hpcmod("remove", "PyTorch/2.6")
            # if it was killed after the last change that matters, nothing is left to remove
            assert done.exit_code == 0 or not left(place), done.output

        install(place, "PyTorch/2.6")
        monkeypatch.setenv("MODULEPATH", str(place / "modules/all"))
        return work

    assert kill_everywhere(fresh, lambda place: not left(place), tmp_path) > 5


@pytest.mark.slow
def test_bundle(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a.eb", "b.sif"):
        (source / name).write_bytes(b"x" * 100_000)

    def fresh(place: Path) -> Callable[[], None]:
        def work() -> None:
            write_bundle(sorted(source.iterdir()), place / "b.tar")
            read_bundle(place / "b.tar", place / "out")

        return work

    def is_whole(place: Path) -> bool:
        sizes = {path.name: path.stat().st_size for path in (place / "out").iterdir()}
        names = sorted(path.name for path in place.iterdir())
        return (sizes, names) == ({"a.eb": 100_000, "b.sif": 100_000}, ["b.tar", "out"])

    assert kill_everywhere(fresh, is_whole, tmp_path) > 5


@pytest.mark.slow
def test_site_setup(tmp_path: Path) -> None:
    def fresh(place: Path) -> Callable[[], None]:
        files = [SetupFile(place / "bin/hpcmod", "#!/bin/sh", executable=True), SetupFile(place / "m.lua", "x")]
        return lambda: write_setup(files)

    assert kill_everywhere(fresh, lambda place: left(place) == ["hpcmod", "m.lua"], tmp_path) > 5
