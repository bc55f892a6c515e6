"""A user's packages survive kills, full disks, the removal of a state in use, and an updated image."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time

import pytest

from tests.integration.conftest import TOY, Loader, moments
from tests.integration.test_disk_full import SmallDisk, disk
from tests.integration.test_user_packages import SHOW, Mine, mine, only_lmod

__all__ = ["disk", "mine"]

pytestmark = pytest.mark.stack

LATER = 1.3
"""Latest time of a kill as a multiple of the measured run time, as some runs take longer than the first."""

OLD, NEW = "0.8.0", "0.8.1"


def add_old(mine: Mine) -> None:
    """Add einops while only its old version is available, then make the new one available."""
    new = mine.wheels / f"einops-{NEW}-py3-none-any.whl"
    away = new.rename(mine.home / new.name)
    mine.must("add", "Toy", "einops")
    away.rename(new)


@only_lmod
def test_a_kill_leaves_the_state_before_or_the_new_one(mine: Mine) -> None:
    """At any time, the active state is complete, and `add` works when run again and leaves nothing behind.

    The kills of the other commands are in tests/faults.
    """
    command, copy = ("add", "Toy", f"einops=={NEW}"), mine.home / "before"
    add_old(mine)
    shutil.copytree(mine.packages, copy, symlinks=True)
    began = time.monotonic()
    mine.must(*command)
    whole = time.monotonic() - began
    seen = {OLD: 0, NEW: 0}
    for number, moment in enumerate(moments(2)):
        shutil.rmtree(mine.packages)
        shutil.copytree(copy, mine.packages, symlinks=True)
        child = subprocess.Popen(
            mine.argv(*command),
            env=mine.environment(),
            cwd=mine.home,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(moment * whole * LATER)
        child.send_signal(signal.SIGKILL)
        child.wait()
        active = active_version(mine)
        seen[active] += 1
        if number % 5 == 0:
            mine.must(*command)
            assert active_version(mine) == NEW
            assert leftovers(mine) == set()
    print(f"active after the kill: {seen}")


def active_version(mine: Mine) -> str:
    """Return the version of einops in the active state, and require that a container imports the same one."""
    done = mine("exec", "Toy", "python", "-c", SHOW)
    assert done.returncode == 0 or "No module named 'einops'" in done.stderr, done.stderr
    version = done.stdout.partition(" ")[0]
    assert [one["version"] for one in mine.state()["packages"] if one["name"] == "einops"] == [version][: bool(version)]  # type: ignore[attr-defined]
    return version


def leftovers(mine: Mine) -> set[str]:
    """Return the names of temporary files, edited files and incomplete states."""
    places = (*mine.packages.rglob("*"), *mine.home.glob(".*"))
    found = {path.name for path in places if "hpcmod-part" in path.name or path.name.startswith("edit-")}
    states = [path for path in mine.packages.glob("*/states/*") if path.suffix in (".json", ".squashfs")]
    return found | {path.name for path in states if sum(one.stem == path.stem for one in states) != 2}


@only_lmod
def test_jobs_keep_their_states_while_gc_removes_one(mine: Mine) -> None:
    """Two ranks use different states on one node; one state is removed before its rank imports anything from it."""
    mine.must("add", "Toy", f"einops=={OLD}")
    mine.must("add", "Toy", f"einops=={NEW}")
    mine.must("drop", "Toy", "einops")
    program = "print(flush=True); input(); import einops; print(einops.version)"
    ranks = [start(mine.loader, program, HPCMOD_PACKAGES=f"default@{number}") for number in (1, 2)]
    for rank in ranks:
        assert rank.stdout is not None and rank.stdout.readline() == "\n"
    assert mine.must("packages", "Toy", "--gc", "--keep", "0").split()[0] == "1"
    assert not list(mine.packages.glob("default/states/1-*"))
    assert [rank.communicate("\n")[0].strip() for rank in ranks] == [OLD, NEW]


@only_lmod
def test_states_are_removed_where_no_byte_is_free(mine: Mine, disk: SmallDisk) -> None:
    environ = mine.environment(HPCMOD_PACKAGES_DIR=str(disk.place))
    for change in (("add", f"einops=={OLD}"), ("add", f"einops=={NEW}"), ("drop", "einops")):
        assert disk(*mine.argv(change[0], "Toy", change[1]), env=environ).returncode == 0
    disk.leave_free(0)
    removed = disk(*mine.argv("packages", "Toy", "--gc", "--keep", "0"), env=environ)
    assert (removed.returncode, removed.stdout.split()[:1]) == (0, ["1"]), removed.stderr


@only_lmod
def test_a_first_package_goes_elsewhere_after_one_that_failed(mine: Mine, disk: SmallDisk) -> None:
    """No package of that name, a full disk, and then the command that its message names."""
    environ = mine.environment(HPCMOD_PACKAGES_DIR=str(disk.place))
    assert disk(*mine.argv("add", "Toy", "no-such-package"), env=environ).returncode == 3
    disk.leave_free(0)
    full = disk(*mine.argv("add", "Toy", "einops"), env=environ)
    assert (full.returncode, "keep it elsewhere: hpcmod add Toy --prefix DIRECTORY" in full.stderr) == (5, True)
    unknown = disk(*mine.argv("exec", "Toy", "true"), env={**environ, "HPCMOD_PACKAGES": "default"})
    assert (unknown.returncode, "you have no set of packages `default`" in unknown.stderr) == (3, True)
    moved = disk(*mine.argv("add", "Toy", "einops", "--prefix", str(mine.home)), env=environ)
    assert moved.returncode == 0, moved.stderr
    assert disk(*mine.argv("exec", "Toy", "python", "-c", SHOW), env=environ).stdout.split()[0] == NEW


def start(loader: Loader, program: str, **env: str) -> subprocess.Popen[str]:
    """Load Toy and start a Python program in its container."""
    snippet = f"{loader.tool.prologue()}module use '{loader.eb.modules}'; module load {TOY}; "
    return subprocess.Popen(
        ["bash", "--norc", "-c", f"{snippet} exec singularity exec $SIF python -c '{program}'"],
        env=loader.tool.stack.environment(loader.tool.home, **env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
