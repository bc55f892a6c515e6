from __future__ import annotations

import json
from typing import Any

import pytest

from hpcmod.runs.values.endings.stacks import (
    RankState,
    describe,
    group_ranks,
    judge_hang,
    judge_start,
    parse_answers,
    tell_group,
)

TORCH = "/opt/envs/pytorch/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"


def stack(*frames: tuple[str, str, int]) -> list[dict[str, Any]]:
    """Return a stack as `py-spy dump --json` prints it."""
    listed = [{"name": name, "filename": file, "line": line} for name, file, line in frames]
    other = {"thread_name": "Thread-1", "frames": [{"name": "other", "filename": "o.py", "line": 1}]}
    return [other, {"thread_name": "MainThread", "frames": listed}]


REDUCE = stack(
    ("all_reduce", TORCH, 9), ("wrapper", TORCH, 3), ("step", "/home/me/train.py", 41), ("<module>", "t.py", 1)
)
READ = stack(("read", "/home/me/loader.py", 88), ("<module>", "train.py", 3))


def answer(host: str, ranks: dict[int, Any], **more: Any) -> str:
    listed = [
        {"rank": str(rank), "pid": 100 + rank, "state": "S", "cpu": 0.0, "wchan": "poll", "stacks": stacks, **more}
        for rank, stacks in ranks.items()
    ]
    return f"hpcmod {host} 1/1 {json.dumps({'host': host, 'ranks': listed, 'profiler': '/py-spy'})}|"


def ranks_of_answers(*lines: str) -> list[RankState]:
    return [rank for one in parse_answers("\n".join(lines)) for rank in one.ranks]


def test_ranks_that_wait_and_the_one_that_does_not_are_told_apart() -> None:
    ranks = ranks_of_answers(
        "srun: noise",
        answer("nid001", dict.fromkeys(range(4), REDUCE)),
        answer("nid002", {4: REDUCE, 5: REDUCE, 6: READ}),
    )
    groups = group_ranks(ranks)
    assert list(map(tell_group, groups)) == [
        "rank 6 (nid002) uses no CPU at loader.py:88 in read",
        "ranks 0-5 wait in all_reduce at train.py:41 in step",
    ]
    assert judge_hang(groups, 7).sentence == "ranks 0-5 wait for rank 6."
    assert judge_hang(groups, 8).sentence == "rank 7 has ended, and the others cannot go on alone."
    assert judge_hang(groups, 7).hangs


def test_ranks_that_move_do_not_wait() -> None:
    first, second = answer("nid001", {0: REDUCE}, moved=True), answer("nid002", {1: READ}, moved=True)
    groups = group_ranks(ranks_of_answers(first, second))
    assert "rank 0 (nid001) waits in all_reduce at train.py:41 in step (moving)" in list(map(tell_group, groups))
    assert judge_hang(groups, 2).sentence == "The ranks go on: none was at the same line each time."
    assert not judge_hang(groups, 2).hangs and judge_hang(groups, 3).hangs
    groups = group_ranks(ranks_of_answers(answer("nid001", {0: REDUCE}), second))
    assert judge_hang(groups, 2).sentence == "rank 0 waits for rank 1."


START = stack(("_create_c10d_store", TORCH, 9), ("init_process_group", TORCH, 3), ("<module>", "/home/me/train.py", 5))


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (({0: START, 1: START}, "nid001"), ({0: START, 1: START}, "nid001"), "ranks 0-1 are there more than once"),
        (({0: START}, "localhost"), ({1: START}, "localhost"), "sets MASTER_ADDR, to the loopback address"),
        (({0: START}, "127.0.1.1"), ({1: START}, "nid001"), "sets MASTER_ADDR, to the loopback address"),
        (({0: START}, "nid001"), ({1: START}, ""), "differ in MASTER_ADDR: not set on b, nid001 on a"),
        (({0: START}, "a.x"), ({1: START}, "a.x"), "not all met at MASTER_ADDR a.x. `hpcmod lint SCRIPT`"),
        (({0: START}, "nid009"), ({1: START}, "nid009"), "at MASTER_ADDR nid009, which is none of their nodes a, b."),
        (({0: START}, "b-hsn0.x"), ({1: START}, "b-hsn0.x"), "at MASTER_ADDR b-hsn0.x. `hpcmod"),
        (({0: START}, "10.0.0.9"), ({1: START}, "10.0.0.9"), "at MASTER_ADDR 10.0.0.9. `hpcmod"),
        (({0: START}, "fd00::9"), ({1: START}, "fd00::9"), "at MASTER_ADDR fd00::9. `hpcmod"),
        (({0: START}, "localhost"), ({1: READ}, "localhost"), ""),
        (({0: READ}, ""), ({0: START}, ""), "rank 0 is there more than once"),
        (({0: START, 1: START}, "localhost"), ({}, ""), ""),
    ],
)
def test_ranks_that_do_not_meet_at_their_start_are_told_why(
    first: tuple[dict[int, Any], str], second: tuple[dict[int, Any], str], said: str
) -> None:
    nodes = [answer(host, ranks, master=master) for host, (ranks, master) in (("a", first), ("b", second))]
    verdict = judge_start(ranks_of_answers(*nodes))
    assert said in (verdict.sentence if verdict else "") and (verdict is None) == (not said)


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("total = world.allreduce(part)", "wait in MPI allreduce"),
        ("comm.Recv(buffer, source=0)", "wait in MPI Recv"),
        ("self.comm_world.recv(source=0)", "wait in MPI recv"),
        ("MPI.Request.Waitall(requests)", "wait in MPI Waitall"),
        ("request = comm.Iallreduce(a, b)", "run"),  # returns immediately
        ("text = connection.recv(4)", "run"),
        ("rows = values.gather(1, index)", "run"),
        ("comm.send(comm.recv())", "run"),  # either of the two
        ("", "run"),
    ],
)
def test_a_rank_in_a_call_of_mpi4py_is_known_by_its_line(code: str, what: str) -> None:
    at = stack(("<module>", "/home/me/train.py", 12))
    at[1]["frames"][0]["code"] = code
    (one,) = ranks_of_answers(answer("nid001", {0: at}, cpu=1.0))
    assert describe(one) == (f"{what} at train.py:12", what != "run")


def test_processes_that_all_say_rank_0_are_one_rank() -> None:
    groups = group_ranks(ranks_of_answers(answer("a", {0: None}), answer("b", {0: None})))
    assert list(map(tell_group, groups)) == ["rank 0 is waiting, using no CPU, in poll"]
    waiting = group_ranks(ranks_of_answers(answer("a", {0: REDUCE}), answer("b", {0: REDUCE, 1: READ})))
    assert judge_hang(waiting, 2).sentence == "rank 0 waits for rank 1."


def test_ranks_in_different_collectives() -> None:
    other = stack(("broadcast", TORCH, 9), ("step", "/home/me/train.py", 50))
    groups = group_ranks(ranks_of_answers(answer("n", {0: REDUCE, 1: other})))
    assert judge_hang(groups, 0).sentence.startswith("All ranks wait, but not in the same place")
    same = group_ranks(ranks_of_answers(answer("n", {0: REDUCE, 1: REDUCE})))
    assert judge_hang(same, 2).sentence.startswith("All ranks wait in the same place")


@pytest.mark.parametrize(
    ("frames", "what", "waits"),
    [
        ([("sleep", "/x/lib/python3.11/time.py", 1), ("main", "a.py", 2)], "sleep at a.py:2 in main", False),
        (
            [("_try_get_data", "/s/site-packages/torch/d.py", 1), ("f", "a.py", 2)],
            "wait for data of a worker at a.py:2 in f",
            False,
        ),
        (
            [("_create_c10d_store", TORCH, 1), ("f", "a.py", 2)],
            "wait for the other ranks to start at a.py:2 in f",
            True,
        ),
        ([("foo", TORCH, 1), ("f", "a.py", 2)], "in foo at a.py:2 in f", False),
        ([("all_reduce", TORCH, 7)], "wait in all_reduce at distributed_c10d.py:7 in all_reduce", True),
    ],
)
def test_describes_a_stack(frames: list[tuple[str, str, int]], what: str, waits: bool) -> None:
    (rank,) = ranks_of_answers(answer("n", {0: stack(*frames)}))
    assert describe(rank) == (what, waits)


@pytest.mark.parametrize(
    ("state", "cpu", "words"),
    [
        ("R", 1.0, "rank 0 (n) runs at"),
        ("D", 0.0, "rank 0 (n) waits for the file system at"),
        ("S", 0.0, "rank 0 (n) uses no CPU"),
    ],
)
def test_a_rank_in_its_own_code(state: str, cpu: float, words: str) -> None:
    ranks = ranks_of_answers(answer("n", {0: READ}, state=state, cpu=cpu))
    assert tell_group(group_ranks(ranks)[0]).startswith(words)


def test_without_a_stack_the_state_and_the_cpu_are_reported() -> None:
    (rank,) = ranks_of_answers(answer("n", {0: None}, state="D", wchan="cl_sync_io_wait", problem="not\nallowed"))
    assert rank.problem == "not allowed"
    assert describe(rank) == ("waiting for a disk or a file system, using no CPU, in cl_sync_io_wait", False)
    groups = group_ranks([rank])
    assert list(map(tell_group, groups)) == [
        "rank 0 (n) is waiting for a disk or a file system, using no CPU, in cl_sync_io_wait"
    ]
    assert not judge_hang(groups, 1).hangs and "Without stacks" in judge_hang(groups, 1).sentence
    assert judge_hang((), 4).sentence == "No rank waits for another in a way that is known."


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        ({1: "hrtimer_nanosleep"}, "rank 1 is not where the others are: look there. Without stacks this is all"),
        ({1: "hrtimer_nanosleep", 2: "hrtimer_nanosleep"}, "No rank waits for another in a way that is known."),
        ({1: "hrtimer_nanosleep", 2: "do_epoll_wait"}, "No rank waits for another in a way that is known."),
        ({}, "No rank waits for another in a way that is known."),
    ],
)
def test_without_stacks_the_one_rank_that_differs_is_named(kernel: dict[int, str], said: str) -> None:
    lines = [answer(f"n{rank}", {rank: None}, wchan=kernel.get(rank, "futex_do_wait")) for rank in range(4)]
    assert judge_hang(group_ranks(ranks_of_answers(*lines)), 4).sentence.startswith(said)


@pytest.mark.parametrize("piece", ["x", "", "[]", "{}", '{"host": "a", "ranks": [3]}', "[" * 5000])
def test_answers_that_are_not_valid_are_left_out(piece: str) -> None:
    assert parse_answers(f"hpcmod n 1/1 {piece}|") == parse_answers(f"hpcmod {piece}|") == ()


def test_pieces_of_several_nodes_may_be_mixed() -> None:
    mixed = [*pieces_of(answer("n1", {0: REDUCE})), *pieces_of(answer("n2", {1: REDUCE}))]
    by_end = sorted(mixed, key=lambda line: line[-9:])
    assert {one.host for one in parse_answers("\n".join(by_end))} == {"n1", "n2"}
    assert [one.host for one in parse_answers("\n".join(mixed[1:]))] == ["n2"]


def pieces_of(line: str) -> list[str]:
    """Return an answer in pieces of 50 characters."""
    head, _, text = line.rstrip("|").partition(" 1/1 ")
    pieces = [text[at : at + 50] for at in range(0, len(text), 50)]
    return [f"{head} {number}/{len(pieces)} {piece}|" for number, piece in enumerate(pieces, 1)]


def test_odd_stacks_do_no_harm() -> None:
    for stacks in (3, [3], [{}], [{"frames": [3, {"line": "x"}]}]):
        assert len(ranks_of_answers(answer("n", {0: stacks}))) == 1
