"""A batch script that requeues its job, run by bash: the signal is real, srun and scontrol are fakes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hpcmod.jobs.text.jobscript import render_jobscript
from hpcmod.jobs.values.job import make_job
from hpcmod.jobs.values.request import JobModule, JobRequest
from hpcmod.jobs.values.requeue import Requeue
from hpcmod.machine.values.site import Site
from tests.unit.runscripts.scripts import make_program

pytestmark = pytest.mark.slow

SRUN = """#!/bin/bash
# A fake srun: training that exits with status 3 if its rank gets the signal, otherwise with 4.
printf 'srun %s\\n' "${*: -1}" >>"$LOG"
trap 'exit 3' USR2
[[ ! $SIGNALLED ]] || kill -USR1 $PPID
for ((i = 0; i < 50; i++)); do read -rt 0.1 <> <(:); [[ $SIGNALLED ]] || break; done
exit "${STATUS:-4}"
"""
SIGNAL_RANKS = '#!/bin/bash\necho "signal-ranks $1" >>"$LOG"\npkill -USR2 -P $PPID -f srun\n'
SCONTROL = '#!/bin/bash\necho "scontrol $*" >>"$LOG"\n'


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    for name, text in (("srun", SRUN), ("signal-ranks", SIGNAL_RANKS), ("scontrol", SCONTROL)):
        make_program(tmp_path / "tools" / name, text)
    return tmp_path / "tools"


def run(tools: Path, **env: str) -> tuple[int, list[str], str]:
    """Run the script; return its status, the programs that it started, and its stderr."""
    request = JobRequest(("train.py",), JobModule("X/1"), requeue=Requeue("USR1", 60))
    script = tools / "job.sh"
    script.write_text(render_jobscript(make_job(request, Site("ours"))))
    log = tools / "log"
    given = {"PATH": f"{tools}:/usr/bin:/bin", "RUNSCRIPTS": str(tools), "LOG": str(log), "SLURM_JOB_ID": "7", **env}
    command = f"module() {{ :; }}; export -f module; exec bash {script}"
    done = subprocess.run(
        ["bash", "-c", command], env={"SIF": "x", "SIGNALLED": "", **given}, capture_output=True, text=True
    )
    return done.returncode, log.read_text().splitlines(), done.stderr


def test_the_signal_goes_to_the_ranks_and_the_job_into_the_queue(tools: Path) -> None:
    status, started, said = run(tools, SIGNALLED="1")
    assert (status, started, said) == (0, ["srun train.py", "signal-ranks USR1", "scontrol requeue 7"], "")


def test_after_as_many_times_as_it_may_it_ends_as_the_step_did(tools: Path) -> None:
    status, started, said = run(tools, SIGNALLED="1", SLURM_RESTART_COUNT="10")
    assert (status, started) == (3, ["srun train.py", "signal-ranks USR1"])
    assert said == "requeued 10 times, which is the limit\n"


def test_without_a_signal_nothing_is_requeued(tools: Path) -> None:
    assert run(tools)[:2] == (4, ["srun train.py"])
    (tools / "log").unlink()
    assert run(tools, STATUS="0")[:2] == (0, ["srun train.py"])
