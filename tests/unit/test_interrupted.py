"""Verbs are killed at each of their changes to the file system, and complete when they are run again."""

from __future__ import annotations

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


def kill_everywhere(fresh: Callable[[int], Callable[[], None]], check: Callable[[], None]) -> int:
    """Kill some work at each step, run it again, and check the result; return the number of steps."""
    step = 1
    while True:
        work = fresh(step)
        was_killed = killed_at(step, work)
        if was_killed:
            work()
        check()
        if not was_killed:
            return step
        step += 1


@pytest.mark.slow
def test_remove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HPCMOD_SITE", "generic")
    top = tmp_path

    def fresh(step: int) -> Callable[[], None]:
        nonlocal top
        top = tmp_path / str(step)
        install(top, "PyTorch/2.6")
        monkeypatch.setenv("MODULEPATH", str(top / "modules/all"))
        return work

    def work() -> None:
        done = hpcmod("remove", "PyTorch/2.6")
        # if it was killed after the last change that matters, nothing is left to remove
        assert done.exit_code == 0 or not left(), done.output

    def left() -> list[Path]:
        return [path for path in top.rglob("*") if not path.is_dir()]

    def check() -> None:
        assert left() == []

    assert kill_everywhere(fresh, check) > 5


@pytest.mark.slow
def test_bundle(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a.eb", "b.sif"):
        (source / name).write_bytes(b"x" * 100_000)
    out = directory = tmp_path

    def fresh(step: int) -> Callable[[], None]:
        nonlocal out, directory
        out, directory = tmp_path / str(step) / "b.tar", tmp_path / str(step) / "out"
        out.parent.mkdir()
        return work

    def work() -> None:
        write_bundle(sorted(source.iterdir()), out)
        read_bundle(out, directory)

    def check() -> None:
        assert sorted(path.name for path in out.parent.iterdir()) == ["b.tar", "out"]
        assert {path.name: path.stat().st_size for path in directory.iterdir()} == {"a.eb": 100_000, "b.sif": 100_000}

    assert kill_everywhere(fresh, check) > 5


@pytest.mark.slow
def test_site_setup(tmp_path: Path) -> None:
    place = tmp_path

    def fresh(step: int) -> Callable[[], None]:
        nonlocal place
        place = tmp_path / str(step)
        place.mkdir()
        return work

    def work() -> None:
        write_setup(
            [SetupFile(place / "bin" / "hpcmod", "#!/bin/sh", executable=True), SetupFile(place / "m.lua", "x")]
        )

    def check() -> None:
        assert sorted(path.name for path in place.rglob("*") if path.is_file()) == ["hpcmod", "m.lua"]

    assert kill_everywhere(fresh, check) > 5
