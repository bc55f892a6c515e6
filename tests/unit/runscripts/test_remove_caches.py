"""The script that removes the caches of a job from a node; processes of this machine act as its tasks."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.runscripts.scripts import Ran, Scripts, make_program

OF_STEP = {"SLURM_JOB_ID": "770", "SLURM_STEP_ID": "0", "SLURMD_NODENAME": "nid001", "USER": "alice"}


@pytest.fixture
def caches(tmp_path: Path) -> Path:
    made = tmp_path / "root" / "alice-hpcmod-770-nid001"
    (made / "triton").mkdir(parents=True)
    return made


def ended(scripts: Scripts, caches: Path, **more: str) -> Ran:
    """Run the script as Slurm does after a task of step 0 has ended."""
    return scripts("remove-caches", env={**OF_STEP, "HPCMOD_CACHE_ROOT": str(caches.parent), **more})


@contextmanager
def running(*words: str, env: dict[str, str]) -> Iterator[None]:
    with subprocess.Popen(words or ["sleep", "60"], env={"PATH": "/usr/bin:/bin", **env}) as process:
        try:
            yield
        finally:
            process.kill()


def test_the_last_task_of_a_node_removes_the_caches(scripts: Scripts, caches: Path) -> None:
    (caches.parent / "alice-hpcmod-770-nid002").mkdir()
    assert ended(scripts, caches) == Ran(0, "", "")
    assert [path.name for path in caches.parent.iterdir()] == ["alice-hpcmod-770-nid002"]


@pytest.mark.parametrize(
    ("env", "kept"),
    [
        pytest.param(OF_STEP, True, id="a task of the step"),
        pytest.param({**OF_STEP, "SLURM_STEP_ID": "3"}, True, id="a task of another step"),
        pytest.param({"SLURM_JOB_ID": "770"}, False, id="the batch script"),
        pytest.param({**OF_STEP, "SLURM_JOB_ID": "77"}, False, id="another job"),
        pytest.param({**OF_STEP, "SLURMD_NODENAME": "nid002"}, False, id="another node, where they share processes"),
    ],
)
def test_they_stay_while_the_job_runs_on_the_node(
    scripts: Scripts, caches: Path, env: dict[str, str], kept: bool
) -> None:
    with running(env=env):
        assert ended(scripts, caches).status == 0
    assert caches.exists() is kept


def test_a_script_that_uses_no_caches_does_not_keep_them(scripts: Scripts, caches: Path, tmp_path: Path) -> None:
    waiting = make_program(tmp_path / "signal-ranks", "#!/bin/bash -p\nread -t 60 -r <> <(:)\n")
    with running(str(waiting), env=OF_STEP):
        assert ended(scripts, caches) == Ran(0, "", "")
    assert not caches.exists()


def test_a_directory_that_is_not_yours_is_left_unchanged(scripts: Scripts, caches: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    caches.rename(other)
    caches.symlink_to(other)
    assert ended(scripts, caches) == Ran(0, "", "")
    assert (other / "triton").exists()


def test_outside_of_a_step_it_explains_itself(scripts: Scripts, caches: Path) -> None:
    assert ended(scripts, caches, SLURM_STEP_ID="").status == 2
    assert caches.exists()
