from __future__ import annotations

import re

import pytest

from hpcmod.runs.values.endings.diagnosis import Diagnosis, Waiting, diagnose
from hpcmod.runs.values.endings.events import Log, read_events
from tests.stack import CHECKOUT
from tests.unit.runs.values.endings.test_corpus import KNOWN

BEGIN = "Traceback (most recent call last):"
CLOSED = """[rank0]: Traceback (most recent call last):
[rank0]:   File "/x/train.py", line 41, in step
[rank0]: RuntimeError: [pair.cc:598] Connection closed by peer [18.25.6.30]:30872
"""


def explain(*texts: str, world: int = 0, nodes: int = 0) -> Diagnosis:
    events = [e for n, text in enumerate(texts) for e in read_events(Log(f"{n}", text), KNOWN)]
    return diagnose(events, world=world, nodes=nodes)


def test_a_killed_rank_explains_the_errors_of_the_others() -> None:
    found = explain(
        CLOSED + "srun: error: nid002: task 1: Killed\nsrun: error: nid001: task 0: Exited with exit code 1"
    )
    assert found.cause and found.cause.who == "rank 1 on nid002" and found.cause.signal == 9
    assert [group.rule for group in found.followed] == ["peer-closed", "task-exit"]


def test_a_rank_that_got_sigterm_before_the_others_is_named() -> None:
    found = explain(
        "srun: error: nid002: task 4: Terminated\nsrun: Terminating StepId=2.0\nsrun: error: nid001: task 0: Terminated"
    )
    assert found.cause and (found.cause.who, found.cause.signal) == ("rank 4 on nid002", 15)
    cancelled = "slurmstepd: error: *** STEP 2.0 ON nid001 CANCELLED AT 2026-11-23T06:33:43 ***\n"
    assert explain(cancelled + "srun: error: nid002: task 4: Terminated").cause is None


def test_the_rank_that_the_kernel_killed_for_its_memory_is_named() -> None:
    found = explain("slurmstepd: error: Detected 1 oom_kill event in StepId=2.0.\nsrun: error: nid002: task 4: Killed")
    assert found.cause and (found.cause.rule, found.cause.who) == ("oom-kill", "rank 4 on nid002")
    assert found.others != () and found.cause.hosts == ("nid002",)


def test_messages_of_slurm_after_an_exception_are_not_a_part_of_it() -> None:
    ended = "slurmstepd-nid001: error: *** STEP 2.0 ON nid001 CANCELLED AT 2026-11-23T06:33:43 ***"
    exited = "srun: error: nid003: task 2: Exited with exit code 1"
    found = explain(f'{BEGIN}\n  File "a.py", line 9, in g\nValueError: x\n{exited}\n{ended}')
    assert found.cause and found.cause.title == "ValueError: x"


def test_the_error_of_a_data_loader_worker_counts_more_than_what_wraps_it() -> None:
    found = explain(
        f'{BEGIN}\n  File "a.py", line 9, in g\nRuntimeError: Caught RuntimeError in DataLoader worker process 0.\n'
        f"Original {BEGIN}\n"
        + 6 * "  more\n"
        + "RuntimeError: unable to allocate shared memory(shm) for file </torch_5>"
    )
    assert found.cause and found.cause.rule == "shared-memory-full"


@pytest.mark.parametrize(
    ("address", "more", "nodes", "alone"),
    [
        ("(localhost, 29500)", "", 2, True),
        ("(127.0.0.1, 29500)", "srun: error: nid001: task 0: Terminated\nsrun: error: nid002: task 2: Killed", 0, True),
        ("(localhost, 29500)", "", 1, False),
        ("(nid001, 29500)", "", 2, False),
    ],
)
def test_ranks_of_several_nodes_do_not_meet_at_the_loopback_address(
    address: str, more: str, nodes: int, alone: bool
) -> None:
    said = "The client socket has timed out after 60000ms while trying to connect to"
    line = f"[rank2]: torch.distributed.DistNetworkError: {said} {address}."
    cause = explain(f"{line}\n{more}", nodes=nodes).cause
    assert cause and cause.rule == "master-not-reached"
    assert ("on their own node" in cause.meaning, "hpcmod lint SCRIPT" in cause.cure) == (alone, alone)


def test_mpirun_names_the_rank_that_a_signal_ended() -> None:
    found = explain(
        "mpirun noticed that process rank 1 with PID 29013 on node n12 exited on signal 11 (Segmentation fault)."
    )
    assert found.cause and (found.cause.who, found.cause.signal) == ("rank 1 on n12", 11)


def test_of_two_endings_in_a_line_the_more_specific_one_counts() -> None:
    text = "[rank2]: torch.OutOfMemoryError: HIP out of memory\nsrun: error: n7: task 2: Exited with exit code 1"
    found = explain(text)
    assert found.cause and (found.cause.rule, found.cause.who) == ("gpu-memory", "rank 2 on n7") and found.others == ()


def test_an_exception_comes_before_the_exit_it_leads_to() -> None:
    text = '3: Traceback (most recent call last):\n3:   File "a.py", line 4, in f\n3: ValueError: x\n'
    found = explain(text + CLOSED + "srun: error: n: task 3: Exited with exit code 1")
    assert found.cause and (found.cause.title, found.cause.who) == ("ValueError: x", "rank 3 on n")
    assert found.others == ()


def test_an_error_after_the_connection_was_lost_is_a_consequence() -> None:
    later = "".join(f"[rank0]: {line}\n" for line in (BEGIN, '  File "a.py", line 9, in g', "ValueError: no group"))
    found = explain(CLOSED + later + "srun: error: nid002: task 1: Segmentation fault")
    assert found.cause and found.cause.signal == 11


def test_without_a_cause_nothing_is_made_up() -> None:
    found = explain(CLOSED)
    assert found.cause is None and [group.rule for group in found.followed] == ["peer-closed"]


TIMEOUT = "[Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={1}, OpType={2}, NumelIn=1) ran\n"


def test_ranks_that_do_not_report_a_timeout_are_named() -> None:
    text = "".join(TIMEOUT.format(rank, 5, "ALLREDUCE") for rank in (0, 1, 3))
    assert explain(text, world=4).silent == (2,)
    assert explain(text).silent == (2,)
    assert explain(CLOSED, world=4).silent == ()


def test_ranks_in_different_collectives_are_told_apart() -> None:
    found = explain(TIMEOUT.format(0, 5, "ALLREDUCE") + TIMEOUT.format(1, 5, "BROADCAST"))
    assert found.collectives == (Waiting(5, "ALLREDUCE", (0,)), Waiting(5, "BROADCAST", (1,)))


def test_of_two_logs_the_earlier_time_counts() -> None:
    late = "2026-01-01 10:00:09 [rank0]: OSError: [Errno 122] Disk quota exceeded"
    early = "2026-01-01 10:00:01 [rank1]: HIP out of memory"
    found = explain(late, early)
    assert found.cause and found.cause.rule == "gpu-memory" and [one.rule for one in found.others] == ["quota"]


def test_a_hint_explains_only_if_nothing_else_does() -> None:
    hint = "MIOpen: Internal error while accessing SQLite database: locking protocol\n"
    alone, beside = explain(hint), explain(hint + "[rank0]: HIP out of memory")
    assert alone.cause and alone.cause.rule == "miopen-database"
    assert (
        beside.cause and beside.cause.rule == "gpu-memory" and [one.rule for one in beside.hints] == ["miopen-database"]
    )


DUPLICATE = "nid1:2:3 [0] init.cc:497 NCCL WARN Duplicate GPU detected : rank 2 and rank 0 both on CUDA device 1000"
ABORT = "Abort(7) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 7) - process 1"
OPEN_MPI = "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\nwith errorcode 7."
RAY = """conda-python-distributed: Ray runs on 2 nodes at 10.77.0.11:29786
Traceback (most recent call last):
  File "b_ray.py", line 9, in <module>
ray.exceptions.RayTaskError(ValueError): ray::f() (pid=1, ip=10.77.0.11)
  File "b_ray.py", line 5, in f
ValueError: bad shard 3
"""
RAISED = RAY.partition("ray.ex")[0]
NAMESPACES = f"{RAISED}mpi4py.MPI.Exception: Other MPI error\ncopy_iovs(224): process_vm_readv failed (errno 1)\n"
RESOLVER = RAISED.replace("b_ray", "slurm_cluster_resolver").replace("<module>", "cluster_spec")
BETWEEN = RAY.replace("\nValueError", "\nsrun: Job step aborted: Waiting up to 4 seconds\nValueError")
BOX = "\u256d\u2500 Traceback (most recent call last) \u2500\u256e\n\u2570\u2500\u2500\u2500\u256f\nKeyError: 'lr'\n"


@pytest.mark.parametrize(
    ("text", "rule", "ranks", "title"),
    [
        (DUPLICATE, "gpu-twice", (), "two ranks use the same GPU"),
        (f"NCCL error in: x.cpp:1, invalid usage, NCCL version 2\n{DUPLICATE}", "gpu-twice", (), "same GPU"),
        ("[rank6]: RuntimeError: CUDA error: invalid device ordinal", "no-such-gpu", (6,), "does not have"),
        ("HIP error: invalid device ordinal", "no-such-gpu", (), "does not have"),
        (f"input deck invalid\n{ABORT}\nsrun: error: n1: tasks 0-1: Killed", "mpi-aborted", (1,), "input deck invalid"),
        (f"ERROR: density < 0\n------\n{OPEN_MPI}", "mpi-aborted", (1,), "ERROR: density < 0"),
        (RAY, "python-exception", (), "ValueError: bad shard 3"),
        (NAMESPACES, "mpi-namespaces", (), "memory of other ranks"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'sbatch'", "host-command-missing", (), "scheduler"),
        ("slurm_script: line 9: /v/bin/python: No such file or directory", "python-of-container", (), "a Python that"),
        (BETWEEN, "python-exception", (), "ValueError: bad shard 3"),
        (f"{RESOLVER}ValueError: zero", "tensorflow-without-gpus", (), "counts GPUs"),
        (BOX, "python-exception", (), "KeyError: 'lr'"),
    ],
)
def test_what_was_named_wrongly_once(text: str, rule: str, ranks: tuple[int, ...], title: str) -> None:
    cause = explain(text).cause
    assert cause and (cause.rule, cause.ranks) == (rule, ranks) and title in cause.title


def test_data_that_was_not_staged_is_the_cause_of_the_end() -> None:
    cause = explain(
        "stage-data: n1: tar failed: tar: x\nstage-data: cannot stage d.tar\nsrun: error: n1: task 0: Exited"
    ).cause
    assert cause and (cause.rule, cause.line) == ("not-staged", 1)


def test_the_package_that_is_missing_is_named_in_what_to_do() -> None:
    cause = explain("ModuleNotFoundError: No module named 'einops.layers'").cause
    assert cause and "hpcmod add NAME einops installs it" in cause.cure


@pytest.mark.parametrize("text", [ABORT, f"x\n{OPEN_MPI}"])
def test_the_code_of_an_abort_is_told(text: str) -> None:
    assert [one.title[:22] for one in explain(text).followed if one.ranks == (1,)] == ["ended with exit code 7"]


STACK = """{0}: Fatal Python error: {1}
{0}:
{0}: Thread 0x00007fdd0d7f66c0 (most recent call first):
{0}:   File "/usr/lib/python3.11/threading.py", line 982 in run
{0}:
{0}: Current thread 0x00007fdd0e638b80 [python3] (most recent call first):
"""
WAITING = '{0}:   File "/site-packages/dist.py", line 2 in all_reduce\n{0}:   File "/x/train.py", line 7 in step\n'
READING = '{0}:   File "/x/train.py", line 5 in read\n'


def test_stacks_that_the_fault_handler_printed_name_the_rank_that_others_waited_for() -> None:
    """The ranks were ended by hand with SIGABRT, which each of them prints and srun reports of all."""
    ranks = [(STACK + (READING if rank == 1 else WAITING)).format(rank, "Aborted") for rank in range(3)]
    found = explain("".join(ranks) + "srun: error: nid001: tasks 0-2: Aborted\n")
    assert found.cause and (found.cause.ranks, found.cause.title) == (
        (1,),
        "Fatal Python error: Aborted: run at train.py:5 in read",
    )
    assert [(one.ranks, one.title) for one in found.followed] == [
        ((0, 2), "Fatal Python error: Aborted: wait in all_reduce at train.py:7 in step")
    ]


FRAME_OF = {"W": '  File "/site-packages/dist.py", line 2 in all_reduce', "S": '  File "/x/train.py", line 7 in step',
            "R": '  File "/x/train.py", line 5 in read', "F": "Fatal Python error: Aborted", "-": "", "T":
            "Thread 0x00007fdd0d7f66c0 (most recent call first):", "E": "\nExtension modules: numpy._core, torch._C",
            "C": "Current thread 0x00007fdd0e638b80 (most recent call first):", ".": "  <no Python frame>"}  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "mixed", "seen"),
    [
        ("F-F-CWSECF-CWRSSESE", 2, "W"),
        ("F-CWSEF-CF-CWSERSEF-CWSE", 2, "W"),
        ("F-F-CWCRSEWSE", 2, ""),
        ("F-CWF-SECRSE", 1, "R"),
        ("F-F-CW-SECRSE", 1, "R"),
        ("F-TW-CRT-WSE", 1, ""),
        ("F-F-CWCSRS", 2, ""),
        ("F-CF-WSCRS", 2, ""),
        ("F-F-CWSECRSE", 0, "RW"),
        ("F-CWSEF-CRSE", 0, "RW"),
        ("F-TW-CRS-TWE", 0, "R"),
        ("F-CWSF-CRS", 0, "RW"),
        ("CRSCRSF-CWSE", 0, "W"),
        ("F-C.EF-CRSE", 0, "R"),
    ],
)
def test_stacks_that_are_mixed_in_one_file_name_no_line(lines: str, mixed: int, seen: str) -> None:
    """The first two are what `srun` without --label made of four ranks that were ended by hand."""
    found = explain("\n".join(map(FRAME_OF.__getitem__, lines)) + "\nsrun: error: nid001: tasks 0-3: Aborted\n")
    groups = [group for group in (found.cause, *found.others, *found.followed) if group]
    told = {group.title.removeprefix("Fatal Python error: Aborted: "): group for group in groups}
    places = {"run at train.py:5 in read": "R", "wait in all_reduce at train.py:7 in step": "W"}
    assert "".join(sorted(places.get(title, title) for title in told if " at " in title)) == seen
    unsure = told.get("the stacks of several ranks are mixed")
    assert (unsure.count if unsure else 0) == mixed and (unsure is None or "SLURM_LABELIO" in unsure.cure)
    assert "read" in groups[0].title if "R" in seen else groups[0] is unsure or not mixed


@pytest.mark.parametrize(
    ("stacks", "ended", "who"),
    [
        (1, "nid001: task 1: Aborted", "rank 1 on nid001"),  # as srun 22.05 printed
        (1, "nid001: task 1: Aborted (core dumped)", "rank 1 on nid001"),
        (2, "nid001: tasks 0,3: Aborted", "ranks 0 and 3 on nid001"),
        (1, "nid001: tasks 0-1: Aborted", ""),
        (1, "nid001: task 1: Terminated", ""),
        (0, "nid001: task 1: Aborted", "rank 1 on nid001"),
    ],
)
def test_srun_names_the_rank_of_a_stack_without_a_label(stacks: int, ended: str, who: str) -> None:
    text = "".join(FRAME_OF[letter] + "\n" for letter in "F-CR-" * stacks)
    found = explain(f"{text}srun: error: {ended}\nsrun: error: nid002: tasks 2,4: Terminated\n")
    assert found.cause and found.cause.who == who


def test_a_crash_is_a_cause_wherever_it_happens_and_an_abort_after_a_timeout_is_none() -> None:
    crash = explain((STACK + WAITING).format(0, "Segmentation fault"))
    assert crash.cause and crash.cause.title.startswith("Fatal Python error: Segmentation fault: ")
    late = explain(TIMEOUT.format(0, 5, "ALLREDUCE") + "\n" + (STACK + READING).format(0, "Aborted"))
    assert late.cause and late.cause.rule == "collective-timeout"


def test_what_the_run_script_tells_is_no_refusal() -> None:
    """All of its messages but those that end it."""
    told = set()
    for path in [*CHECKOUT.glob("runscripts/lib/*.bash"), *CHECKOUT.glob("runscripts/lib/*.py")]:
        if path.stem not in ("stage", "check_node"):
            told |= set(re.findall(r"""\bsay[ (](?:"((?:[^"\\]|\\.)+)"|'([^']+)')""", path.read_text()))
    texts = ["".join(pair) for pair in told if "".join(pair) not in ("$2", "cannot run %s: %s")]
    assert len(texts) > 10
    taken = [explain(f"conda-python-distributed: {text}").cause for text in texts]
    assert [cause.text for cause in taken if cause and cause.rule == "launcher-refused"] == []
    refused = explain("conda-python-distributed: RANK is 3 in task 2. Unset RANK").cause
    assert refused and refused.rule == "launcher-refused"


@pytest.mark.parametrize(("rank", "who"), [("", ""), ("rank 1: ", "rank 1 on nid001")])
@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("profiler 'py-spy' not found in this image, PATH=/bin. For py-spy: x", "profiler-missing"),
        ("--profile-rank is 'x', but the ranks are 0 to 3", "launcher-refused"),
    ],
)
def test_a_refusal_is_known_in_whichever_rank_it_is(text: str, rule: str, rank: str, who: str) -> None:
    found = explain(
        f"conda-python-distributed: {rank}{text}\nsrun: error: nid001: tasks 0-3: Exited with exit code 2\n"
    )
    assert found.cause and (found.cause.rule, found.cause.who) == (rule, who)


def test_ranks_that_fail_as_the_first_one_are_not_told_twice() -> None:
    same = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: x\n'
    found = explain(f"[rank0]: Connection closed by peer\n{same * 3}")
    assert [one.rule for one in found.followed].count("python-exception") <= 1
