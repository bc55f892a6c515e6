"""A disk too small for a build: refused before starting, or cleaned up when the disk fills up during the build."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.integration.test_disk_full import MIB, SmallDisk, disk
from tests.stack import CHECKOUT, Done, Stack

pytestmark = pytest.mark.stack

__all__ = ["disk"]

# The engine must work without subordinate UIDs, as the disk's namespace has none.
BUILD = """
import sys
from pathlib import Path
from hpcmod.core.errors import HpcmodError
from tests.builds import build, make_plan
try:
    build(make_plan(Path(sys.argv[1]), sys.argv[3]), Path(sys.argv[2]), engine="apptainer-rootmapped")
except HpcmodError as err:
    print(err)
    sys.exit(err.exit_code)
"""


def build_there(disk: SmallDisk, stack: Stack, base: Path, script: str) -> Done:
    path = f"{stack.apptainer.parent}:{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'src'}"}
    return disk(sys.executable, "-c", BUILD, str(base), str(disk.place / "trial.sif"), script, env=environ)


def names_on(disk: SmallDisk) -> set[str]:
    listed = disk("ls", "-A", str(disk.place))
    assert listed.returncode == 0
    return set(listed.stdout.split()) - {"in-use"}


def test_missing_space_is_reported_before_starting(stack: Stack, small_base: Path, disk: SmallDisk) -> None:
    disk.resize(8 * MIB)
    done = build_there(disk, stack, small_base, "true")
    assert done.returncode == 5, done.stdout + done.stderr
    assert "no space: " in done.stdout and "HPCMOD_BUILD_DIR" in done.stdout and "step" not in done.stdout
    assert names_on(disk) == set()


def test_a_disk_that_fills_up_is_reported_and_cleaned(stack: Stack, small_base: Path, disk: SmallDisk) -> None:
    done = build_there(disk, stack, small_base, "head -c 2G /dev/zero >/fills-the-disk")
    assert done.returncode == 5
    assert "the component first failed" in done.stdout and "No space left on device" in done.stdout, done.stdout
    assert names_on(disk) <= {"trial.sif.build.log"}
    done = build_there(disk, stack, small_base, "true")
    assert done.returncode == 0, done.stdout + done.stderr
    assert names_on(disk) == {"trial.sif", "trial.sif.provenance.json", "state"}
