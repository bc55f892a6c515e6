from __future__ import annotations

from typing import Any

from hpcmod.core.values.finding import FAIL, WARN
from hpcmod.machine.values.site import NodeType
from hpcmod.runs.values.nodes.affinity import RankPlace, judge_ranks, parse_rank

NODE = NodeType("gpu", cores=8, threads_per_core=2, gpus=4, gpu_cores=((6, 7), (4, 5), (2, 3), (0, 1)))


def answer(rank: int, cpus: list[int]) -> dict[str, Any]:
    numa = {"0": [0, 1, 2, 3, 8, 9, 10, 11], "1": [4, 5, 6, 7, 12, 13, 14, 15]}
    return {
        "host": "nid001",
        "rank": rank,
        "local": rank,
        "cpus": {"online": 16, "allowed": cpus, "numa": numa},
        "interfaces": {"hsn0": {"state": "up"}, "hsn1": {"state": "up"}},
        "gpus": [],
    }


def place(rank: int, cpus: list[int], ranks: int = 4) -> RankPlace:
    return parse_rank(answer(rank, cpus), node=NODE, ranks=ranks, interfaces=("hsn0", "hsn1"))


def test_a_rank_has_the_gpu_of_its_local_rank_and_the_interface_for_it() -> None:
    found = place(1, [4, 5])
    assert (found.gpu, found.interface, found.numa, found.near) == (1, "hsn0", (1,), (4, 5, 12, 13))
    assert place(2, [2, 3]).interface == "hsn1"


def test_with_more_ranks_than_gpus_no_rank_has_its_own() -> None:
    assert place(1, [4], ranks=8).gpu is None


def test_ranks_near_their_gpus_are_right_and_those_that_are_not_bound_which_the_run_script_binds() -> None:
    assert judge_ranks([place(0, [6, 7]), place(1, [4, 5]), place(2, [2, 3, 10]), place(3, [0, 1])]) == []
    assert judge_ranks([place(rank, list(range(16))) for rank in range(4)]) == []


def test_a_rank_on_cores_near_another_gpu_is_named() -> None:
    (finding,) = judge_ranks([place(0, [0, 1])])
    assert (finding.level, finding.rule, finding.subject) == (WARN, "far-cores", "nid001")
    assert finding.found == "rank 0 with GPU 0 runs on CPUs 0-1; near it are 6-7,14-15"


def test_ranks_that_share_cores_are_named() -> None:
    findings = judge_ranks([place(0, [6, 7]), place(1, [4, 5, 6])])
    assert (findings[0].level, findings[0].found) == (FAIL, "ranks 0, 1 share CPUs 6")


def test_a_rank_on_two_numa_nodes_is_named_if_nothing_else_is_known() -> None:
    unknown = NodeType("gpu", cores=8, gpus=4)
    rank = parse_rank(answer(0, [3, 4]), node=unknown, ranks=4)
    assert [one.rule for one in judge_ranks([rank])] == ["numa"]
