"""Slurm commands inside containers: real jobs and steps, started by programs that run in a container."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.e2e.conftest import Jobs, must
from tests.e2e.test_interactive import lab as lab
from tests.e2e.test_interactive import lab_installed as lab_installed
from tests.walkthroughs import blocks

pytestmark = pytest.mark.stack

MODULE = "module load PyTorch 2>/dev/null; "


def in_container(jobs: Jobs, code: str, **env: str) -> str:
    """Run Python code in the module's container on the login node, and return its output."""
    command = f"{MODULE} python -c {shlex.quote(code)}"
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


def test_the_commands_of_the_page_work(tiny_jobs: Jobs) -> None:
    lines = [line.strip() for block in blocks("host-commands", "console")[:3] for line in block.splitlines()]
    done = must(tiny_jobs("bash", "-c", "\n".join(["set -e", *lines])))
    version, *hosts = done.stdout.split("\n", 1)
    assert version.startswith("slurm")
    assert {host[:3] for host in hosts[0].split()} == {"nid"}


NOTEBOOK = """
import sys
from jupyter_client.manager import KernelManager
from jupyter_client.kernelspec import KernelSpecManager
manager = KernelManager(kernel_name="lab-1.0", kernel_spec_manager=KernelSpecManager(kernel_dirs=[sys.argv[1]]))
manager.start_kernel(cwd=".")
client = manager.blocking_client()
client.start_channels()
client.wait_for_ready(timeout=60)
printed = []
def hook(message):
    printed.append(message["content"].get("text", ""))
for cell in sys.argv[2:]:
    client.execute_interactive(cell, timeout=60, output_hook=hook)
print("".join(printed))
client.stop_channels()
manager.shutdown_kernel()
"""


def test_a_notebook_starts_steps_and_submits_jobs(lab: Jobs) -> None:
    place = lab.hpcmod("kernel", "Lab", "--host-commands", JUPYTER_DATA_DIR=str(lab.directory)).stdout
    (lab.directory / "job.sh").write_text("#!/bin/bash\n#SBATCH -t 1 -o out.txt\nhostname\n")
    python = lab.machine.stack.python
    kernels = Path(place.strip()).parent
    cells = ("!srun -n1 hostname", "!sbatch --wait job.sh", "print(_exit_code)")
    done = must(lab(python, "-c", NOTEBOOK, kernels, *cells))
    lines = [line for line in done.stdout.splitlines() if "setlocale" not in line]  # the image lacks the locale
    host, submitted, status = lines[:3]
    assert (host.strip()[:3], submitted.split()[:3], status) == ("nid", ["Submitted", "batch", "job"], "0")
    assert (lab.directory / "out.txt").read_text().startswith("nid")
