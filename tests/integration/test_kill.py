"""An installation killed at any time leaves no broken module and loses no old one; running it again repairs it."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcmod.core.lock import lock_name
from tests.integration.conftest import (
    TOY_IMAGE,
    installed,
    leftovers,
    make_images,
    modulefiles,
    moments,
    running_generation,
    use_image,
    write_easyconfig,
)
from tests.locks import write_dead_lock
from tests.stack import EasyBuild, ModuleTool, until

pytestmark = pytest.mark.stack

POINTS = 2
MEGABYTES = 40


@pytest.fixture(scope="module")
def images(tiny_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two images large enough that copying one takes a noticeable part of an installation."""
    return make_images(tiny_sif, tmp_path_factory.mktemp("images"), "one", "two", megabytes=MEGABYTES)


def kill_at(eb: EasyBuild, seconds: float, *args: str | Path) -> str:
    """Kill the process group of an `eb ARGS` this long after its first step began; return the step that was running."""
    log = eb.top / "killed.log"
    with log.open("w") as out:
        started = subprocess.Popen(
            eb.command(*args),
            env={**eb.environment(), "PYTHONUNBUFFERED": "1"},
            cwd=eb.top,
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            assert until(lambda: "== " in log.read_text())
            started.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()
    steps = re.findall(r"^== ([a-z, ]+)\.\.\.$", log.read_text(), re.MULTILINE)
    return "ended" if started.returncode >= 0 else steps[-1] if steps else "before the first step"


def seconds_of(eb: EasyBuild, *args: str | Path) -> float:
    began = time.monotonic()
    installed(eb, *args)
    return time.monotonic() - began


def kill_within(eb: EasyBuild, share: float, whole: float, prepare: Callable[[], None], *args: str | Path) -> str:
    """Kill `eb ARGS` after a share of its `whole` time; return the step that was running.

    If it finished first, the machine is less busy than during the measurement: prepare and try it again, twice.
    """
    for _ in range(3):
        prepare()
        began = time.monotonic()
        step = kill_at(eb, share * whole, *args)
        if step != "ended":
            break
        whole = time.monotonic() - began
    return step


def test_a_first_installation_killed_anywhere_leaves_no_broken_module(
    eb: EasyBuild, images: list[Path], tmp_path: Path, lmod: ModuleTool
) -> None:
    easyconfig = write_easyconfig(tmp_path)
    use_image(eb, images[0])
    killed_in = Counter[str]()
    whole = seconds_of(eb, easyconfig)
    for moment in moments(POINTS):
        step = kill_within(eb, moment, whole, lambda: shutil.rmtree(eb.prefix), easyconfig)
        killed_in[step] += 1
        there = running_generation(lmod, eb)
        assert there in ("", "one")
        again = seconds_of(eb, easyconfig)
        whole = whole if there else again  # the load of the machine may have changed
        assert running_generation(lmod, eb) == "one"
        if there and step != "ended":  # killed while holding its lock; plain `eb` then needed no lock
            installed(eb, easyconfig, "--rebuild")
        assert leftovers(eb) == set()
    print(killed_in)
    assert killed_in["ended"] < POINTS, "all ended before their moment came"


def test_a_rebuild_killed_anywhere_leaves_the_old_module_or_the_new_one(
    eb: EasyBuild, images: list[Path], tmp_path: Path, lmod: ModuleTool
) -> None:
    easyconfig = write_easyconfig(tmp_path)
    use_image(eb, images[1])
    installed(eb, easyconfig)
    mine = eb.prefix / "software/Toy/1.0/user-software/mine"
    mine.write_text("of the user")
    use_image(eb, images[0])
    whole = seconds_of(eb, easyconfig, "--rebuild")
    killed_in, turns = Counter[str](), itertools.count(1)
    for moment in moments(POINTS):
        step = kill_within(eb, moment, whole, lambda: use_image(eb, images[next(turns) % 2]), easyconfig, "--rebuild")
        killed_in[step] += 1
        new = (eb.central / TOY_IMAGE).resolve().stem
        assert running_generation(lmod, eb) in ("one", "two")
        whole = seconds_of(eb, easyconfig, "--rebuild")
        assert running_generation(lmod, eb) == new
        assert leftovers(eb) == set()
        assert mine.read_text() == "of the user"
    print(killed_in)
    assert killed_in["ended"] < POINTS, "all ended before their moment came"


def lock_of(eb: EasyBuild) -> Path:
    """Return the lock file of Toy's installation."""
    locks = eb.prefix / "software/.locks"
    locks.mkdir(parents=True, exist_ok=True)
    return locks / f"{lock_name(str(eb.prefix / 'software/Toy/1.0'))}.lock"


def forge(lock: Path) -> None:
    """Write the lock of a process on another machine that never sends a heartbeat."""
    lock.write_text(
        json.dumps(
            {"host": "another-login-node", "pid": 4242, "user": "ada", "since": "2026-11-20 08:00:00"}
            | {"started": "1", "machine": "another-boot", "token": "0123456789abcdef"}
        )
    )


def test_the_lock_of_a_dead_process_is_cleared_with_easybuilds_own_and_by_a_rebuild(
    eb: EasyBuild, toy: Path, lmod: ModuleTool
) -> None:
    lock = lock_of(eb)
    write_dead_lock(lock)
    easybuilds = lock.with_name(f"{str(eb.prefix / 'software/Toy/1.0').replace('/', '_')}.lock")
    easybuilds.mkdir()
    done = installed(eb, toy)
    assert f"removing the lock of process {os.getpid()} of " in done.stdout
    assert leftovers(eb) == set()
    write_dead_lock(lock)
    installed(eb, toy)
    assert lock.exists()  # the module exists, so nothing is done that needs a lock
    installed(eb, toy, "--rebuild")
    assert leftovers(eb) == set()
    assert lmod("module load Toy && start-shell -c 'echo 1'", eb.modules).stdout == "1\n"


def test_the_lock_of_a_silent_process_elsewhere_is_explained_and_left(eb: EasyBuild, toy: Path, tmp_path: Path) -> None:
    lock = lock_of(eb)
    forge(lock)
    (tmp_path / "sitecustomize.py").write_text("import hpcmod.core.lock\n\nhpcmod.core.lock.SILENCE = 1.0\n")
    began = time.monotonic()
    done = eb(toy, PYTHONPATH=str(tmp_path))
    assert time.monotonic() - began < 50
    assert "is held by process 4242 of ada on another-login-node, since 2026-11-20 08:00:00" in done.stdout
    assert f"remove its lock: rm {lock}" in done.stdout
    assert done.returncode == 6
    assert lock.exists()
    assert modulefiles(eb) == set()


def test_the_lock_of_a_process_elsewhere_is_waited_for_only_as_long_as_asked(eb: EasyBuild, toy: Path) -> None:
    forge(lock_of(eb))
    done = eb(toy, "--wait-on-lock-limit=1")
    assert "waiting for process 4242 of ada on another-login-node" in done.stdout
    assert "--wait-on-lock-limit" in done.stdout.partition("ERROR")[2]
    assert done.returncode == 6


HOOKS = """
import sys

def fail(*args, **kwargs):
    raise OSError(5, "Input/output error")

def pre_module_hook(self, *args, **kwargs):
    sys.modules[type(self).__module__].complete_record = fail
"""


def test_no_module_exists_if_the_record_could_not_be_completed(eb: EasyBuild, tiny_sif: Path, tmp_path: Path) -> None:
    """Otherwise, the next `install` would find the module and leave the record as it is."""
    (tmp_path / "hooks.py").write_text(HOOKS)
    (tmp_path / TOY_IMAGE).symlink_to(tiny_sif)
    done = eb(write_easyconfig(tmp_path), "--hooks", tmp_path / "hooks.py")
    assert "Input/output error" in done.stdout
    assert not (eb.modules / "Toy/1.0.lua").exists()
