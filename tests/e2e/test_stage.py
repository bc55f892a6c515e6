"""Staging on real Slurm: copies are made, verified and used, and removed however the job ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import Jobs, must, processes_of
from tests.stack import until

pytestmark = pytest.mark.stack

SHARED = ("-p", "small-g", "--gpus", "1")

LOOK = """
import json, os, socket
data = "/staged-data/set"
found = sorted(os.listdir(data)) if os.path.isdir(data) else []
print(json.dumps({"RANK": os.environ["RANK"], "host": socket.gethostname(), "sif": os.environ["SIF"], "data": found}))
"""
"""Prints the image that a rank runs in, and the data it sees."""

HANG = """
import time
open(f"started-{__import__('os').environ['RANK']}", "w").close()
time.sleep(600)
"""


def write(jobs: Jobs, text: str) -> str:
    (jobs.directory / "train.py").write_text(text)
    return "train.py"


def hanging(jobs: Jobs, *words: str) -> str:
    """Submit a job that stages, starts two ranks and then hangs; return its ID once both ranks run."""
    number = jobs.submit(
        "-N", "2", *SHARED, "--stage", "ram", *words, "--", write(jobs, HANG), MARK=jobs.directory.name
    )
    assert until(lambda: len(list(jobs.directory.glob("started-*"))) == 2)
    assert len(jobs.left_behind()) == 2
    return number


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        pytest.param("set.tar.gz", ("tar", "-C", "set", "-czf", "set.tar.gz", "."), id="an archive"),
        pytest.param("set.squashfs", ("mksquashfs", "set", "set.squashfs", "-quiet", "-no-progress"), id="a squashfs"),
    ],
)
def test_every_node_runs_its_private_copy_with_its_data_and_none_is_left(
    tiny_jobs: Jobs, name: str, pack: tuple[str, ...]
) -> None:
    (tiny_jobs.directory / "set").mkdir()
    (tiny_jobs.directory / "set" / "a file").write_text("of the set")
    must(tiny_jobs(*pack))
    words = ("-N", "2", *SHARED, "--stage", "nvme", "--stage-data", str(tiny_jobs.directory / name))
    number = tiny_jobs.submit(*words, "--", write(tiny_jobs, LOOK))
    tiny_jobs.wait(number)
    ranks = tiny_jobs.ranks(number)
    assert {rank["sif"].rpartition("/hpcmod-")[0] for rank in ranks} == {str(tiny_jobs.local)}
    assert [rank["data"] for rank in ranks] == [["a file"], ["a file"]]
    assert len({rank["host"] for rank in ranks}) == 2
    assert tiny_jobs.left_behind() == []


def test_scancel_leaves_no_process_no_file_and_no_instance(tiny_jobs: Jobs) -> None:
    number = hanging(tiny_jobs)
    mark = str(tiny_jobs.directory)
    assert find_keepers(tiny_jobs)
    must(tiny_jobs("scancel", number))
    tiny_jobs.wait(number)
    assert until(lambda: tiny_jobs.left_behind() == [])
    assert tiny_jobs.state(number) == "CANCELLED"
    assert until(lambda: not processes_of(mark) and not find_keepers(tiny_jobs))
    listed = must(tiny_jobs(tiny_jobs.machine.stack.apptainer, "instance", "list", "--json")).stdout
    assert '"instances": []' in listed


def find_keepers(jobs: Jobs) -> list[str]:
    """Return the processes that keep a copy on the nodes of this cluster; other clusters may run on this machine."""
    return [line for line in processes_of("hpcmod-stage") if str(jobs.machine.dir) in line]


def test_a_batch_script_that_is_killed_leaves_no_file(tiny_jobs: Jobs) -> None:
    number = hanging(tiny_jobs)
    (shell,) = find_batch_shells(tiny_jobs, number)
    os.kill(shell, signal.SIGKILL)
    tiny_jobs.wait(number)
    assert until(lambda: tiny_jobs.left_behind() == [])


def find_batch_shells(jobs: Jobs, number: str) -> list[int]:
    """Return the PIDs of the shells that run a job's batch script, which is in the spool of this cluster's slurmd."""
    script = f"{re.escape(str(jobs.machine.dir))}/spool/[^/]*/job0*{number}/slurm_script"
    found = subprocess.run(["pgrep", "-f", script], capture_output=True, text=True)
    return [int(pid) for pid in found.stdout.split() if "slurmstepd" not in Path(f"/proc/{pid}/comm").read_text()]


def test_a_broken_copy_is_detected_and_the_job_continues_without_it(tiny_jobs: Jobs) -> None:
    # stand in for sbcast, as if it could not send, and for cp, which changes one byte of each copy
    programs = tiny_jobs.directory / "bin"
    programs.mkdir()
    flip = 'printf X | dd of="${!#}" bs=1 seek=4096 conv=notrunc status=none'
    for name, code in (("sbcast", "exit 1"), ("cp", f'/usr/bin/cp "$@" && {flip}')):
        (programs / name).write_text(f"#!/bin/bash\n{code}\n")
        (programs / name).chmod(0o755)
    env = {"BASH_ENV": f"{tiny_jobs.directory}/env"}
    (tiny_jobs.directory / "env").write_text(f"source {tiny_jobs.machine.stack.lmod_init}\nPATH={programs}:$PATH\n")
    number = tiny_jobs.submit("-N", "2", *SHARED, "--stage", "ram", "--", write(tiny_jobs, LOOK), **env)
    tiny_jobs.wait(number)
    ranks = tiny_jobs.ranks(number)
    assert {Path(rank["sif"]).name for rank in ranks} == {"tiny.sif"}
    assert str(tiny_jobs.local) not in ranks[0]["sif"]
    assert re.search(r"the copy of nid00\d differs from", tiny_jobs.output(number))
    assert "continuing without a staged image" in tiny_jobs.output(number)
    assert tiny_jobs.left_behind() == []


def test_an_archive_that_is_cut_short_ends_the_job(tiny_jobs: Jobs) -> None:
    (tiny_jobs.directory / "set").mkdir()
    (tiny_jobs.directory / "set" / "noise").write_bytes(os.urandom(1 << 20))
    must(tiny_jobs("tar", "-C", "set", "-cf", "set.tar", "."))
    with (tiny_jobs.directory / "set.tar").open("r+b") as file:
        file.truncate(1 << 19)
    words = ("-N", "2", *SHARED, "--stage-data", str(tiny_jobs.directory / "set.tar"))
    number = tiny_jobs.submit(*words, "--", write(tiny_jobs, LOOK))
    tiny_jobs.wait(number)
    assert tiny_jobs.state(number) == "FAILED"
    assert "tar failed: tar: Unexpected EOF in archive" in tiny_jobs.output(number)
    assert tiny_jobs.left_behind() == []


def test_slurm_sends_the_image_to_all_nodes(tiny_jobs: Jobs) -> None:
    script = tiny_jobs.directory / "stage.sh"
    script.write_text(
        "#!/bin/bash\nmodule load PyTorch || exit\n"
        f'staged=$("$RUNSCRIPTS"/stage-image {tiny_jobs.local}) || exit\n'
        'eval "$staged"\nsrun sha256sum "$SIF"\n'
    )
    number = must(tiny_jobs("sbatch", "-N2", "--ntasks-per-node=1", "-pstandard", "--parsable", script)).stdout.strip()
    tiny_jobs.wait(number)
    output = (tiny_jobs.directory / f"slurm-{number}.out").read_text()
    sums = [line for line in output.splitlines() if re.match(r"[0-9a-f]{64} ", line)]
    assert len(sums) == 2 and sums[0] == sums[1], output
    assert str(tiny_jobs.local) in sums[0]
    assert "itself" not in output
    assert tiny_jobs.left_behind() == []


def test_launch_stages_once_and_its_next_step_uses_the_copies(tiny_jobs: Jobs) -> None:
    step = f"hpcmod launch --gpus 1 --ranks-per-node 1 --stage nvme -- {write(tiny_jobs, LOOK)}\n"
    script = tiny_jobs.directory / "steps.sh"
    script.write_text(f"#!/bin/bash\nmodule load PyTorch || exit\n{step}{step}")
    words = ("-N2", "--ntasks-per-node=1", "-p", "small-g", "--gpus-per-node=1", "--output=%x-%j.out")
    number = must(tiny_jobs("sbatch", "--parsable", *words, script)).stdout.strip()
    tiny_jobs.wait(number)
    ranks = tiny_jobs.ranks(number)
    assert len(ranks) == 4, tiny_jobs.output(number)
    assert {rank["sif"].rpartition("/hpcmod-")[0] for rank in ranks} == {str(tiny_jobs.local)}
    assert tiny_jobs.output(number).count("using the copies in") == 1
    assert tiny_jobs.left_behind() == []
