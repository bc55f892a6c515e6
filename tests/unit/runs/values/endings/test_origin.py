from __future__ import annotations

import pytest

from hpcmod.runs.values.endings.origin import Exit, exit_of, host_of, moment_of, parse_ranks, ranks_of, show_ranks


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        ("[rank12]: RuntimeError: x", (12,)),
        ("[E ProcessGroupNCCL.cpp:737] [Rank 3] Watchdog", (3,)),
        ("[PG ID 0 PG GUID 0(default_pg) Rank 1] Exception", (1,)),
        (" 7: loss 0.5", (7,)),
        ("  rank      : 2 (local_rank: 2)", (2,)),
        ("srun: error: nid001: tasks 0-2,5: Killed", (0, 1, 2, 5)),
        ("epoch 3: loss", ()),
        ("[default3]: x", ()),
    ],
)
def test_ranks_of_a_line(line: str, ranks: tuple[int, ...]) -> None:
    assert ranks_of(line) == ranks


def test_host_of_a_line() -> None:
    assert host_of("srun: error: nid001: task 3: Killed") == "nid001"
    assert host_of("nid007:183006:183220 [1] NCCL WARN x") == "nid007"
    assert host_of("slurmstepd: error: *** JOB 4 ON nid002 CANCELLED AT 2026-01-01T00:00:00 ***") == "nid002"
    assert host_of("nothing") == ""


def test_times_of_different_formats_can_be_compared() -> None:
    assert moment_of("[E321 02:07:08.4 x") == (3, 21, 2, 7, 8.4)
    assert moment_of("[2026-03-21 02:07:08,500] x") == (3, 21, 2, 7, 8.5)
    assert moment_of("*** AT 2026-11-05T07:16:01 ***") == (11, 5, 7, 16, 1.0)
    assert moment_of("12:00") is None


def test_exits_of_srun_and_of_the_elastic_launcher() -> None:
    assert exit_of("srun: error: n1: task 0: Exited with exit code 1") == Exit((0,), "n1", 1, 0)
    assert exit_of("srun: error: n1: tasks 1-2: Killed") == Exit((1, 2), "n1", 0, 9)
    assert exit_of("  exitcode  : -9 (pid: 14750)") == Exit((), "", -9, 9)
    assert exit_of("srun: error: n1: task 0: Out Of Memory") is None
    assert exit_of("slurm_script: line 31:  6521 Killed   python train.py") == Exit((), "", 0, 9)
    assert exit_of("job: line 3: 71 Segmentation fault      (core dumped) ./a") == Exit((), "", 0, 11)
    assert exit_of("api.py:870] failed (exitcode: -6) local_rank: 0 (pid: 56003)") == Exit((), "", -6, 6)
    assert exit_of("[2023] [INFO] exits with return code = -9") == Exit((), "", -9, 9)
    assert exit_of("  exitcode  : 0 (pid: 1)") is None


def test_lists_of_ranks_are_bounded() -> None:
    assert parse_ranks("0-1,9") == (0, 1, 9)
    assert parse_ranks("0-99999999") == () and parse_ranks("a") == () and parse_ranks("1-x") == ()


def test_ranks_in_words() -> None:
    assert show_ranks([3]) == "rank 3"
    assert show_ranks([5, 0, 1, 2]) == "ranks 0-2 and 5"
    assert show_ranks(range(0, 40, 2)) == "ranks 0, 2, 4, 6, 8 and 15 more"
    assert show_ranks([]) == ""
