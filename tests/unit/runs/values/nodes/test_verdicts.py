from __future__ import annotations

from dataclasses import replace

import pytest

from hpcmod.core.values.finding import FAIL, OK, WARN
from hpcmod.machine.values.facts import HardwareThreads, KnownGpu, NodeFacts, NodeProblem, NodeTimes
from hpcmod.machine.values.node_gpus import GpuState
from hpcmod.runs.values.nodes.verdicts import CURES, judge_nodes, levels_of

HEALTHY = NodeFacts(
    name="",
    threads=HardwareThreads(64, tuple(range(64))),
    memory=512 << 30,
    available=500 << 30,
    interfaces=(("hsn0", "up"), ("hsn1", "up")),
    gpus=(KnownGpu("amd", "0000:c1:00.0", ()),),
    states=(GpuState(0, uncorrected=0, throttled=(), memory_total=100, memory_used=1),),
    drivers=(("amdgpu", "6.3.6"), ("kernel", "5.14")),
    binds=("/opt/cray", "/scratch"),
    image="ab" * 32,
    times=NodeTimes(speed=1000.0, share=0.9, skew=0.1),
)


def nodes(*changed: dict[str, object], of: int = 4) -> list[NodeFacts]:
    """Return healthy nodes nid001, nid002, ...; the last ones are modified."""
    made = [replace(HEALTHY, name=f"nid{number:03}") for number in range(1, of + 1)]
    changed_nodes = [changed_node(node, values) for node, values in zip(reversed(made), changed)]
    return [*made[: of - len(changed)], *reversed(changed_nodes)]


def changed_node(node: NodeFacts, values: dict[str, object]) -> NodeFacts:
    """Return a node with other values of its fields, or of the fields of its threads and times."""
    for name, value in values.items():
        if hasattr(node, name):
            node = replace(node, **{name: value})  # type: ignore[arg-type]
        elif hasattr(node.threads, name):
            node = replace(node, threads=replace(node.threads, **{name: value}))  # type: ignore[arg-type]
        else:
            node = replace(node, times=replace(node.times, **{name: value}))  # type: ignore[arg-type]
    return node


def found(listed: list[NodeFacts], missing: tuple[str, ...] = ()) -> list[tuple[str, str, str]]:
    return [(one.subject, one.level, one.rule) for one in judge_nodes(listed, missing=missing)]


def test_nodes_that_are_alike_are_healthy() -> None:
    assert found(nodes()) == []
    assert set(levels_of(nodes(), []).values()) == {OK}


@pytest.mark.parametrize(
    ("change", "level", "rule"),
    [
        ({"image": "cd" * 32}, FAIL, "image"),
        ({"cpus": 32}, WARN, "cores"),
        ({"memory": 256 << 30, "available": 250 << 30}, WARN, "memory"),
        ({"available": 100 << 30}, WARN, "memory"),
        ({"drivers": (("amdgpu", "6.2.0"), ("kernel", "5.14"))}, WARN, "driver"),
        ({"binds": ("/opt/cray", "")}, WARN, "bind"),
        ({"interfaces": (("hsn0", "up"), ("hsn1", "down"))}, WARN, "interface"),
        ({"interfaces": (("hsn0", "up"),)}, WARN, "interface"),
        ({"skew": 5.0}, WARN, "clock"),
        ({"skew": -120.0}, FAIL, "clock"),
        ({"speed": 300.0}, WARN, "speed"),
        ({"share": 0.3}, WARN, "speed"),
        ({"states": (GpuState(0, uncorrected=2),)}, FAIL, "gpu-errors"),
        ({"states": (GpuState(0, throttled=("hardware thermal slowdown",)),)}, WARN, "gpu-slow"),
        ({"states": (GpuState(0, memory_total=100, memory_used=60),)}, WARN, "gpu-busy"),
        ({"problems": (NodeProblem(FAIL, "bind", "required bind path /x is missing"),)}, FAIL, "bind"),
    ],
)
def test_an_outlier_among_nodes_is_named(change: dict[str, object], level: str, rule: str) -> None:
    assert found(nodes(change)) == [("nid004", level, rule)]


def test_a_node_without_an_answer_fails() -> None:
    assert found(nodes(of=2), missing=("nid009",)) == [("nid009", FAIL, "answer")]


def test_two_nodes_that_differ_are_both_named() -> None:
    assert found(nodes({"image": "cd" * 32}, of=2)) == [("nid001", FAIL, "image"), ("nid002", FAIL, "image")]


def test_what_all_nodes_have_is_told_once_and_excludes_none() -> None:
    both = {"problems": (NodeProblem(FAIL, "bind", "required bind path /x is missing"),)}
    assert found(nodes(both, both, of=2)) == [("all nodes", FAIL, "bind")]
    (finding,) = judge_nodes(nodes(both, both, of=2), site="lumi")
    assert "The profile lumi does not describe these nodes" in finding.cure and "exclude" not in finding.cure
    assert set(levels_of(nodes(of=2), [finding]).values()) == {FAIL}
    assert found(nodes(both, of=1)) == [("nid001", FAIL, "bind")]
    assert found(nodes(both, both, of=3)) == [("nid002", FAIL, "bind"), ("nid003", FAIL, "bind")]


def test_a_node_whose_image_is_that_of_the_record_is_not_named() -> None:
    problem = NodeProblem(FAIL, "image", "image a.sif has sha256 cdcd..., expected abab...")
    assert found(nodes({"image": "cd" * 32, "problems": (problem,)}, of=2)) == [("nid002", FAIL, "image")]


def test_no_node_stands_out_where_all_are_busy() -> None:
    assert found(nodes({"share": 0.2}, {"share": 0.3}, {"share": 0.25}, {"share": 0.35})) == []


def test_the_worst_finding_of_a_rule_is_enough() -> None:
    problem = NodeProblem(FAIL, "interface", "network interface hsn1 is missing")
    change = {"interfaces": (("hsn0", "up"),), "problems": (problem,)}
    assert found(nodes(change)) == [("nid004", FAIL, "interface")]


def test_one_node_is_not_compared() -> None:
    assert found(nodes({"skew": 1e6}, of=1)) == []


def test_every_rule_has_a_cure_that_names_the_node() -> None:
    (finding,) = judge_nodes(nodes({"states": (GpuState(0, uncorrected=2),)}))
    assert "--exclude=nid004" in finding.cure
    assert all(cure.endswith(".") for cure in CURES.values())
