"""Which parts of the run scripts contain terms of schedulers, and the job ID that they read from each."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping

import pytest

from hpcmod.core.resources import runscript_files

pytestmark = pytest.mark.slow

OWNERS = {
    "lib/common.bash": "reads the variables of a job, and gives them names that are the same for all schedulers",
    "lib/check_node.py": "reads the variables of a task: it is Python, and also runs without the run scripts",
    "lib/step.bash": "starts steps, copies files to nodes and sends signals",
}
"""The parts that contain terms of a scheduler."""

WORDS = re.compile(
    r"\bSLURMD?_|\$\{?PBS_JOBID|\bLSB_JOBID|\b(?:srun|sbatch|salloc|scontrol|squeue|scancel|sacct|sbcast)\b"
)


def without_help(template: str) -> str:
    """Return a template without the text of --help, which names programs for users."""
    return re.sub(r"^_usage='.*?'$", "", template, flags=re.MULTILINE | re.DOTALL)


def test_only_these_parts_of_the_run_scripts_know_the_words_of_schedulers() -> None:
    knowing = {name for name, text in runscript_files().items() if WORDS.search(without_help(text))}
    assert knowing == set(OWNERS)


def read_job(env: Mapping[str, str], *names: str) -> list[str]:
    """Return the values that lib/common.bash derives from an environment."""
    shown = "".join(f"\nprintf '%s\\n' \"${name}\"" for name in names)
    script = "set -u\n" + runscript_files()["lib/common.bash"] + shown
    done = subprocess.run(["bash", "-c", script], env=dict(env), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("env", "job"),
    [
        ({}, ""),
        ({"SLURM_JOB_ID": "7", "PBS_JOBID": "8.pbs"}, "7"),
        ({"PBS_JOBID": "8.pbs"}, "8.pbs"),
        ({"LSB_JOBID": "9"}, "9"),
        ({"FLUX_JOB_ID": "f2"}, "f2"),
    ],
)
def test_the_job_of_each_scheduler_has_one_name(env: dict[str, str], job: str) -> None:
    assert read_job(env, "_job") == [job]


def test_the_hosts_of_the_step_are_those_of_the_job_if_nothing_else_is_known() -> None:
    env = {"SLURM_JOB_NODELIST": "n[1-2]"}
    assert read_job(env, "_job_hosts", "_step_hosts") == ["n[1-2]", "n[1-2]"]
    assert read_job({**env, "SLURM_STEP_NODELIST": "n2"}, "_job_hosts", "_step_hosts") == ["n[1-2]", "n2"]


def test_outside_a_job_nothing_is_known_and_nothing_fails() -> None:
    names = "_job _job_nodes _step_number _node_name _gpus_here _task_cpus _job_tasks _node_index"
    assert read_job({}, *names.split()) == ["", "", "", "", "", "", "1", "0"]
