"""Judge the nodes of a job: what each found wrong with itself, and what differs between nodes."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from hpcmod.core.values.finding import FAIL, WARN, Finding, worst_level
from hpcmod.machine.values.facts import NodeFacts

CURES = {
    "answer": "Leave the node out: --exclude={node}. A file system or a device of it may hang.",
    "bind": "Leave the node out, or fix [binds] of the site profile if the path is wrong.",
    "image": "Copy the image again, e.g. with `hpcmod repair`; if it was staged, leave the node out.",
    "space": "Remove old files there; if they are not yours, leave the node out and tell the site.",
    "memory": "Leave the node out: --exclude={node}. Tell the site if it stays so.",
    "cores": "Leave the node out, or fix [nodes] of the site profile.",
    "mask": "Request full nodes, or fix reserved_cores in [nodes] of the site profile.",
    "interface": "Leave the node out: --exclude={node}. NCCL and RCCL would use another network, or none.",
    "gpus": "Leave the node out: --exclude={node}. Tell the site that a GPU is missing.",
    "gpu-errors": "Leave the node out: --exclude={node}. Tell the site that a GPU has memory errors.",
    "gpu-slow": "Leave the node out if its ranks are the slowest.",
    "gpu-busy": "Another process uses the GPU; leave the node out if it is not yours.",
    "driver": "Tell the site that the nodes differ; leave the node out if only it has problems.",
    "clock": "Tell the site that the time of the node is wrong.",
    "busy": "Leave the node out if the processes are not yours.",
    "speed": "Leave the node out if its ranks are the slowest.",
}
"""What helps, by rule; {node}: name of the node."""

ALL = "all nodes"
"""Subject of what is the same on all nodes."""

_CURE_OF_ALL = (
    "The profile {site} does not describe these nodes, or all have this fault: hpcmod site check, on one of them."
)

SKEW_WARN, SKEW_FAIL = 2.0, 60.0
"""Seconds by which a node's clock may differ from the median, which includes the time that its answer took."""

SLOW = 0.5
"""Share of the median speed, or of the median of available memory, below which a node stands out."""

ALIKE = 0.97
"""Share of the median memory that equal nodes have at least: kernels reserve different amounts."""

_BUSY = 10  # percent of a GPU's memory in use before the job has started
_Value = TypeVar("_Value")


def judge_nodes(nodes: Sequence[NodeFacts], *, missing: Sequence[str] = (), site: str = "") -> list[Finding]:
    """Return what is wrong with nodes, by node and then by rule; nothing for a healthy node.

    Parameters
    ----------
    missing
        Names of nodes that did not answer.
    site
        Name of the site profile that they are compared with.
    """
    found = [
        *(_make(name, FAIL, "answer", "the node did not answer") for name in missing),
        *(_make(node.name, one.level, one.rule, one.found) for node in nodes for one in node.problems),
        *(finding for node in nodes for finding in _judge_gpus(node)),
        *_compare(nodes),
    ]
    found = _told_once(_without_repeats(found), len(nodes) + len(missing), site)
    order = {name: number for number, name in enumerate([ALL, *missing, *(node.name for node in nodes)])}
    return sorted(found, key=lambda one: (order[one.subject], one.level != FAIL))


def _told_once(findings: Sequence[Finding], nodes: int, site: str) -> list[Finding]:
    """Return findings in which what all of several nodes have is told once: no other node would be better."""
    counts = Counter((one.level, one.rule, one.found) for one in findings)
    shared = {key for key, count in counts.items() if count == nodes > 1}
    cure = _CURE_OF_ALL.replace("{site}", site)
    together = [
        Finding(level, rule, found, cure, subject=ALL)
        for level, rule, found in counts
        if (level, rule, found) in shared
    ]
    return [*together, *(one for one in findings if (one.level, one.rule, one.found) not in shared)]


def levels_of(nodes: Iterable[NodeFacts], findings: Sequence[Finding]) -> dict[str, str]:
    """Return the level of each node: that of its worst finding."""
    return {node.name: worst_level(one for one in findings if one.subject in (node.name, ALL)) for node in nodes}


def _make(node: str, level: str, rule: str, found: str) -> Finding:
    cure = CURES.get(rule, "")
    return Finding(level, rule, found, cure.replace("{node}", node), subject=node)


def _judge_gpus(node: NodeFacts) -> Iterator[Finding]:
    for gpu in node.states:
        if gpu.uncorrected:
            errors = f"GPU {gpu.index} has {gpu.uncorrected} uncorrected memory errors since the driver was loaded"
            yield _make(node.name, FAIL, "gpu-errors", errors)
        if gpu.throttled:
            yield _make(node.name, WARN, "gpu-slow", f"GPU {gpu.index} is slowed down: {', '.join(gpu.throttled)}")
        if gpu.memory_total and gpu.memory_used and gpu.memory_used * 100 > gpu.memory_total * _BUSY:
            share = gpu.memory_used * 100 // gpu.memory_total
            yield _make(node.name, WARN, "gpu-busy", f"{share} % of the memory of GPU {gpu.index} is in use")


def _compare(nodes: Sequence[NodeFacts]) -> Iterator[Finding]:
    """Yield how nodes stand out from the others."""
    unlike_record = {node.name for node in nodes for one in node.problems if one.rule == "image"}
    others = [node for node in nodes if node.name not in unlike_record]
    yield from _differ(others, lambda node: node.image, FAIL, "image", _explain_image)
    yield from _differ(
        nodes, lambda node: node.cpus, WARN, "cores", lambda mine, usual: f"{mine} CPUs, others have {usual}"
    )
    memory = {node.name: node.memory / (1 << 30) for node in nodes}
    yield from _compare_low(nodes, "memory", memory, "{} GiB of memory, the others have {} GiB", share=ALIKE)
    for name in sorted({name for node in nodes for name, version in node.drivers if version}):
        yield from _compare_drivers(nodes, name)
    yield from _differ(
        nodes, lambda node: len(node.gpus), WARN, "gpus", lambda mine, usual: f"{mine} GPUs, others have {usual}"
    )
    yield from _compare_binds(nodes)
    yield from _compare_interfaces(nodes)
    yield from _compare_clocks(nodes)
    speed = {node.name: node.speed for node in nodes}
    yield from _compare_low(nodes, "speed", speed, "computes at {} MB/s, the others at {}")
    yield from _compare_shares(nodes)
    available = {node.name: node.available / (1 << 30) for node in nodes}
    yield from _compare_low(nodes, "memory", available, "{} GiB of memory available, the others have {} GiB")


def _compare_drivers(nodes: Sequence[NodeFacts], name: str) -> Iterator[Finding]:
    explain = f"{name} {{}}, others have {{}}".format
    return _differ(nodes, lambda node: dict(node.drivers).get(name, ""), WARN, "driver", explain)


def _differ(
    nodes: Sequence[NodeFacts],
    value: Callable[[NodeFacts], _Value],
    level: str,
    rule: str,
    explain: Callable[[_Value, _Value], str],
) -> Iterator[Finding]:
    """Yield the nodes whose value is not the most common one; if there is a tie, all of them."""
    known = {node.name: value(node) for node in nodes if value(node)}
    counts = Counter(known.values()).most_common(2)
    if len(counts) < 2:
        return
    usual = counts[0][0]
    tied = counts[0][1] == counts[1][1]
    for name, mine in known.items():
        if mine != usual:
            yield _make(name, level, rule, explain(mine, usual))
        elif tied:
            yield _make(name, level, rule, explain(mine, counts[1][0]))


def _explain_image(mine: str, usual: str) -> str:
    return f"the image differs from that of other nodes: {mine[:12]}..., not {usual[:12]}..."


def _compare_binds(nodes: Sequence[NodeFacts]) -> Iterator[Finding]:
    """Yield optional bind paths that most nodes have and a node lacks."""
    groups = [node.binds for node in nodes if node.binds]
    for number in range(min(map(len, groups), default=0)):
        there = Counter(binds[number] for binds in groups if binds[number])
        if sum(there.values()) * 2 <= len(groups):
            continue
        usual = there.most_common(1)[0][0]
        for node in nodes:
            is_known = any(one.rule == "bind" and usual in one.found for one in node.problems)
            if len(node.binds) > number and not node.binds[number] and not is_known:
                yield _make(node.name, WARN, "bind", f"bind path {usual} is missing here, other nodes have it")


def _compare_interfaces(nodes: Sequence[NodeFacts]) -> Iterator[Finding]:
    """Yield network interfaces that are up on most nodes, but not on a node."""
    up = Counter(name for node in nodes for name, state in node.interfaces if state != "down")
    known = [node for node in nodes if node.interfaces or node.problems]
    for name, count in sorted(up.items()):
        if count * 2 <= len(nodes) or count == len(nodes):
            continue
        for node in known:
            state = dict(node.interfaces).get(name, "missing")
            said = any(one.rule == "interface" and f" {name} " in one.found for one in node.problems)
            if state in ("down", "missing") and not said:
                yield _make(
                    node.name, WARN, "interface", f"network interface {name} is {state}, on other nodes it is up"
                )


def _compare_clocks(nodes: Sequence[NodeFacts]) -> Iterator[Finding]:
    known = [node for node in nodes if node.skew]
    if not known:
        return
    middle = statistics.median(node.skew for node in known)
    for node in known:
        ahead = node.skew - middle
        if abs(ahead) >= SKEW_WARN:
            level = FAIL if abs(ahead) >= SKEW_FAIL else WARN
            yield _make(node.name, level, "clock", f"its clock is {ahead:+.0f} s off that of the other nodes")


def _compare_low(
    nodes: Sequence[NodeFacts], rule: str, values: Mapping[str, float], text: str, *, share: float = SLOW
) -> Iterator[Finding]:
    """Yield nodes that have less than a share of the median of the others."""
    for node in nodes:
        others = [value for name, value in values.items() if name != node.name and value]
        mine = values[node.name]
        if others and mine and mine < share * statistics.median(others):
            yield _make(node.name, WARN, rule, text.format(round(mine), round(statistics.median(others))))


def _compare_shares(nodes: Sequence[NodeFacts]) -> Iterator[Finding]:
    """Yield nodes on which a process gets far less of a core than on every other one."""
    for node in nodes:
        least = min((one.share for one in nodes if one is not node and one.share), default=0.0)
        if 0 < node.share < SLOW * least:
            found = f"a process gets {node.share:.0%} of a core, on every other node at least {least:.0%}"
            yield _make(node.name, WARN, "speed", found)


def _without_repeats(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings without those that another one of the same node and rule makes superfluous."""
    failed = {(one.subject, one.rule) for one in findings if one.level == FAIL}
    return [one for one in findings if one.level == FAIL or (one.subject, one.rule) not in failed]
