"""Signals from Slurm, saved caches and requeued jobs: real Slurm, and real containers mounted with FUSE."""

from __future__ import annotations

import random
import tarfile

import pytest

from tests.e2e.conftest import Jobs, must
from tests.stack import until

pytestmark = pytest.mark.stack

SHARED = ("-p", "small-g", "--gpus", "2")

HANDLER = """
import os, signal, sys, time
name = f"rank-{os.environ['RANK']}"
def save(number, frame):
    signal.signal(number, signal.SIG_IGN)  # the runtime hands on what Slurm has sent to this process as well
    import xmlrpc.client  # a file of the image that nothing has read yet
    files = sum(len(files) for _, _, files in os.walk("/usr/lib/python3"))
    with open(f"{name}.saved", "a") as out:
        print(signal.Signals(number).name, files > 100 or os.path.exists(xmlrpc.client.__file__), file=out)
    sys.exit(0)
for each in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
    signal.signal(each, save)
with open(os.environ["TRITON_CACHE_DIR"] + "/kernel", "w") as out:
    out.write("compiled")
open(f"{name}.started", "w").close()
print("ready", flush=True)
time.sleep(100)
"""


def begin(jobs: Jobs, *words: str) -> str:
    (jobs.directory / "train.py").write_text(HANDLER)
    number = jobs.submit("-N", "2", *SHARED, *words, "--", "train.py")
    assert until(lambda: len(list(jobs.directory.glob("rank-*.started"))) == 4), jobs.output(number)
    return number


def mounts(jobs: Jobs) -> set[str]:
    """Return the processes that serve images on this test's cluster, except zombies, which its init never reaps."""
    lines = jobs("ps", "-C", "squashfuse_ll", "-o", "pid=,stat=").stdout.splitlines()
    return {line.split()[0] for line in lines if " Z" not in line}


def saved(jobs: Jobs) -> list[str]:
    return [path.read_text() for path in sorted(jobs.directory.glob("rank-*.saved"))]


def test_a_program_has_its_files_when_a_signal_comes(tiny_jobs: Jobs) -> None:
    before = mounts(tiny_jobs)
    number = begin(tiny_jobs)
    must(tiny_jobs("scancel", "--signal=TERM", number))
    tiny_jobs.wait(number)
    assert [set(text.splitlines()) for text in saved(tiny_jobs)] == [{"SIGTERM True"}] * 4, tiny_jobs.output(number)
    assert tiny_jobs.state(number) == "COMPLETED"
    assert until(lambda: not mounts(tiny_jobs) - before)
    assert not list(tiny_jobs.caches.iterdir())


@pytest.mark.parametrize("killed", ["the runtime", "the step"])
def test_no_mount_outlives_a_job_that_is_killed(tiny_jobs: Jobs, killed: str) -> None:
    before = mounts(tiny_jobs)
    number = begin(tiny_jobs)
    assert len(mounts(tiny_jobs) - before) == 4
    if killed == "the runtime":
        must(tiny_jobs("pkill", "-KILL", "-f", "Apptainer runtime parent"))
    else:
        must(tiny_jobs("scancel", "--signal=KILL", number))
    tiny_jobs.wait(number)
    assert until(lambda: not mounts(tiny_jobs) - before)


def test_caches_are_saved_when_a_job_is_cancelled(torch_jobs: Jobs) -> None:
    archive = torch_jobs.directory / "kept" / "hpcmod-caches.tar"
    number = begin(torch_jobs, "--env", f"HPCMOD_SAVE_CACHES={archive.parent}")
    must(torch_jobs("scancel", number))
    torch_jobs.wait(number)
    assert archive.exists(), torch_jobs.output(number)
    with tarfile.open(archive) as kept:
        assert "triton/kernel" in kept.getnames()


def test_signal_ranks_reaches_the_program_of_each_rank_once(tiny_jobs: Jobs) -> None:
    number = begin(tiny_jobs, "--requeue-on", "USR1@60")
    must(tiny_jobs("scancel", "--batch", "--signal=USR1", number))
    assert until(lambda: len(saved(tiny_jobs)) == 4), tiny_jobs.output(number)
    assert saved(tiny_jobs) == ["SIGUSR1 True\n"] * 4, tiny_jobs.output(number)
    must(tiny_jobs("scancel", number))
    tiny_jobs.wait(number)


TRAIN = """
import json, os, random, signal, sys, time
rank = int(os.environ["RANK"])
place = f"checkpoint-{rank}.json"
state = json.load(open(place)) if os.path.exists(place) else {"step": 0, "weight": 0}
asked = []
signal.signal(signal.SIGUSR1, lambda *_: asked.append(True))
print(f"rank {rank} begins at step {state['step']}", flush=True)
while state["step"] < 40:
    state["weight"] += random.Random(100 * rank + state["step"]).random()
    state["step"] += 1
    if state["step"] in PAUSES:
        open(f"at-{state['step']}-{rank}", "w").close()
        while not asked:  # stand-in for a long step
            time.sleep(0.1)
    if asked:
        with open(place + ".part", "w") as out:
            json.dump(state, out)
        os.replace(place + ".part", place)
        sys.exit(0)
print(f"rank {rank} has weight {state['weight']:.6f}", flush=True)
"""


def test_training_resumes_from_its_checkpoint_after_each_requeue(tiny_jobs: Jobs) -> None:
    pauses = (5, 15)
    (tiny_jobs.directory / "train.py").write_text(TRAIN.replace("PAUSES", str(pauses)))
    words = ("-N", "2", *SHARED, "--ranks-per-node", "1", "--gpus", "1", "--requeue-on", "USR1@60")
    number = tiny_jobs.submit(*words, "--", "train.py")
    for step in pauses:
        at = [tiny_jobs.directory / f"at-{step}-{rank}" for rank in range(2)]
        assert until(lambda at=at: all(path.exists() for path in at), 240), tiny_jobs.output(number)
        must(tiny_jobs("scancel", "--batch", "--signal=USR1", number))
    tiny_jobs.wait(number)
    told = tiny_jobs.output(number).splitlines()
    begun = [0, *pauses]
    for rank in range(2):
        weight = sum(random.Random(100 * rank + step).random() for step in range(40))  # noqa: S311 - as in TRAIN
        own = [line for line in told if line.startswith(f"rank {rank} ")]
        assert own == [*(f"rank {rank} begins at step {n}" for n in begun), f"rank {rank} has weight {weight:.6f}"]
    assert tiny_jobs.state(number) == "COMPLETED"
    assert not list(tiny_jobs.caches.iterdir())
