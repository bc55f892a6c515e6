"""The scheduler's commands inside containers: real jobs and steps, started from programs that run in one."""

from __future__ import annotations

import shlex

import pytest

from tests.e2e.conftest import Jobs, must

pytestmark = pytest.mark.stack

MODULE = "module load PyTorch 2>/dev/null; "


def in_container(jobs: Jobs, code: str, before: str = "", **env: str) -> str:
    """Run Python code in the container of the module on the login node, and return what it prints."""
    command = f"{MODULE}{before} python -c {shlex.quote(code)}"
    return must(jobs("bash", "-c", command, **{"HPCMOD_HOST_COMMANDS": "1", **env})).stdout.strip()


def test_python_in_a_container_starts_steps_and_submits_jobs(tiny_jobs: Jobs) -> None:
    code = """
import os, subprocess
assert os.environ["APPTAINER_CONTAINER"]
def say(*words):
    print(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout.decode().strip())
say("srun", "-N2", "-n2", "--label", "hostname")
print(subprocess.run(["srun", "-n1", "sh", "-c", "exit 7"]).returncode)
open("job.sh", "w").write("#!/bin/bash\\necho in ${APPTAINER_CONTAINER-no} container\\n")
say("sbatch", "--parsable", "--wait", "-o", "out.txt", "-t", "1", "job.sh")
say("sinfo", "-h", "-o", "%D")
"""
    lines = in_container(tiny_jobs, code).splitlines()
    steps, (status, job, nodes) = sorted(lines[:2]), lines[2:]
    assert [step.split(":")[0] for step in steps] == ["0", "1"]
    assert {step.split()[1] for step in steps} <= {f"nid{number:03}" for number in range(1, 5)}
    assert (status, int(job) > 0, nodes) == ("7", True, "4")
    assert (tiny_jobs.directory / "out.txt").read_text() == "in no container\n"


@pytest.mark.parametrize(
    "start",
    [
        pytest.param("singularity exec $SIF", id="the module's runtime"),
        pytest.param("$OURS exec PyTorch", id="hpcmod exec"),
        pytest.param("start-shell -c 'exec \"$@\"' sh", id="start-shell"),
    ],
)
def test_every_way_to_start_a_container_offers_them(tiny_jobs: Jobs, start: str) -> None:
    ours = str(tiny_jobs.machine.stack.python.parent / "hpcmod")
    done = must(tiny_jobs("bash", "-c", f"{MODULE}{start} sinfo -h -o %D", HPCMOD_HOST_COMMANDS="1", OURS=ours))
    assert done.stdout == "4\n"


def test_they_are_off_unless_the_user_asks_and_only_those_of_the_profile(tiny_jobs: Jobs) -> None:
    look = "import shutil; print(shutil.which('srun'), shutil.which('sinfo'))"
    assert in_container(tiny_jobs, look, HPCMOD_HOST_COMMANDS="") == "None None"
    assert in_container(tiny_jobs, look, HPCMOD_HOST_COMMANDS="sinfo") == "None /hostcommands/sinfo"
    done = tiny_jobs("bash", "-c", f"{MODULE} python -c {shlex.quote(look)}", HPCMOD_HOST_COMMANDS="sinfo bash")
    assert done.returncode == 9
    assert "command 'bash' of the host is not allowed in the container" in done.stderr
    assert "the site profile allows srun sbatch squeue scancel sinfo" in done.stderr
