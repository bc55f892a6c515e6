"""Judge the nodes of a job: what each found wrong with itself, and what differs between nodes."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

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
    "The profile {site} does not describe these nodes, or all have this fault; run `hpcmod site check` on one of them."
)

SKEW_WARN, SKEW_FAIL = 2.0, 60.0
"""Seconds by which a node's clock may differ from the median, which includes the time that its answer took."""

SLOW = 0.5
"""Share of the median speed, or of the median of available memory, below which a node stands out."""

ALIKE = 0.97
"""Share of the median memory that equal nodes have at least: kernels reserve different amounts."""

_BUSY = 10  # percent of a GPU's memory in use before the job has started


def judge_nodes(nodes: Sequence[NodeFacts], *, missing: Sequence[str] = (), site: str = "") -> list[Finding]:
    """Return what is wrong with nodes, by node and then by rule; nothing for a healthy node.

    `missing`: Names of nodes that did not answer.
    `site`: Name of the site profile that they are compared with.
    """
    findings = [
        *(_make(name, FAIL, "answer", "the node did not answer") for name in missing),
        *(_make(node.name, problem.level, problem.rule, problem.found) for node in nodes for problem in node.problems),
        *(finding for node in nodes for finding in _judge_gpus(node)),
        *_compare(nodes),
    ]
    findings = _told_once(_without_repeats(findings), len(nodes) + len(missing), site)
    order = {name: number for number, name in enumerate([ALL, *missing, *(node.name for node in nodes)])}
    return sorted(findings, key=lambda finding: (order[finding.subject], finding.level != FAIL))


def _told_once(findings: Sequence[Finding], nodes: int, site: str) -> list[Finding]:
    """Return findings in which what all of several nodes have is told once: no other node would be better."""
    keys = [(finding.level, finding.rule, finding.found) for finding in findings]
    shared = dict.fromkeys(key for key, count in Counter(keys).items() if count == nodes > 1)
    cure = _CURE_OF_ALL.replace("{site}", site)
    together = [Finding(*key, cure, subject=ALL) for key in shared]
    return [*together, *(finding for key, finding in zip(keys, findings) if key not in shared)]


def levels_of(nodes: Iterable[NodeFacts], findings: Sequence[Finding]) -> dict[str, str]:
    """Return the level of each node: that of its worst finding."""
    return {node.name: worst_level(each for each in findings if each.subject in (node.name, ALL)) for node in nodes}


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


_ALIKE: tuple[tuple[str, str, Callable[[NodeFacts], Any], str], ...] = (
    ("cores", WARN, lambda node: node.threads.cpus, "{} CPUs, others have {}"),
    ("gpus", WARN, lambda node: len(node.gpus), "{} GPUs, others have {}"),
)
"""What equal nodes have in common: rule, level, value, and what to say of a node's own and of the usual one."""

_ENOUGH: tuple[tuple[str, Callable[[NodeFacts], float], float, str], ...] = (
    ("memory", lambda node: node.memory / (1 << 30), ALIKE, "{} GiB of memory, the others have {} GiB"),
    ("speed", lambda node: node.times.speed, SLOW, "computes at {} MB/s, the others at {}"),
    ("memory", lambda node: node.available / (1 << 30), SLOW, "{} GiB of memory available, the others have {} GiB"),
)
"""What a node should have at least: rule, value, share of the median of the others, and what to say."""


def _compare(nodes: Sequence[NodeFacts]) -> Iterator[Finding]:
    """Yield how nodes stand out from the others."""
    unlike_record = {node.name for node in nodes for problem in node.problems if problem.rule == "image"}
    others = [node for node in nodes if node.name not in unlike_record]
    image = "the image differs from that of other nodes: {:.12}..., not {:.12}..."
    yield from _differ(others, lambda node: node.image, FAIL, "image", image)
    for rule, level, value, text in _ALIKE:
        yield from _differ(nodes, value, level, rule, text)
    for name in sorted({name for node in nodes for name, version in node.drivers if version}):
        yield from _differ(nodes, partial(_driver, name), WARN, "driver", f"{name} {{}}, others have {{}}")
    yield from _compare_binds(nodes)
    yield from _compare_interfaces(nodes)
    yield from _compare_clocks(nodes)
    for rule, amount, share, text in _ENOUGH:
        yield from _compare_low({node.name: amount(node) for node in nodes}, rule, text, share)
    yield from _compare_shares(nodes)


def _driver(name: str, node: NodeFacts) -> str:
    return dict(node.drivers).get(name, "")


def _differ(
    nodes: Sequence[NodeFacts], value: Callable[[NodeFacts], Any], level: str, rule: str, text: str
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
            yield _make(name, level, rule, text.format(mine, usual))
        elif tied:
            yield _make(name, level, rule, text.format(mine, counts[1][0]))


def _compare_binds(nodes: Sequence[NodeFacts]) -> Iterator[Finding]:
    """Yield optional bind paths that most nodes have and a node lacks."""
    groups = [node.binds for node in nodes if node.binds]
    for number in range(min(map(len, groups), default=0)):
        there = Counter(binds[number] for binds in groups if binds[number])
        if sum(there.values()) * 2 <= len(groups):
            continue
        usual = there.most_common(1)[0][0]
        for node in nodes:
            is_known = any(problem.rule == "bind" and usual in problem.found for problem in node.problems)
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
            is_known = any(problem.rule == "interface" and f" {name} " in problem.found for problem in node.problems)
            if state in ("down", "missing") and not is_known:
                yield _make(
                    node.name, WARN, "interface", f"network interface {name} is {state}, on other nodes it is up"
                )


def _compare_clocks(nodes: Sequence[NodeFacts]) -> Iterator[Finding]:
    known = [node for node in nodes if node.times.skew]
    if not known:
        return
    middle = statistics.median(node.times.skew for node in known)
    for node in known:
        ahead = node.times.skew - middle
        if abs(ahead) >= SKEW_WARN:
            level = FAIL if abs(ahead) >= SKEW_FAIL else WARN
            yield _make(node.name, level, "clock", f"its clock is {ahead:+.0f} s off that of the other nodes")


def _compare_low(amounts: Mapping[str, float], rule: str, text: str, share: float) -> Iterator[Finding]:
    """Yield nodes that have less than a share of the median of the others."""
    for name, mine in amounts.items():
        others = [amount for other, amount in amounts.items() if other != name and amount]
        if others and mine and mine < share * statistics.median(others):
            yield _make(name, WARN, rule, text.format(round(mine), round(statistics.median(others))))


def _compare_shares(nodes: Sequence[NodeFacts]) -> Iterator[Finding]:
    """Yield nodes on which a process gets far less of a core than on every other one."""
    for node in nodes:
        least = min((other.times.share for other in nodes if other is not node and other.times.share), default=0.0)
        if 0 < node.times.share < SLOW * least:
            found = f"a process gets {node.times.share:.0%} of a core, on every other node at least {least:.0%}"
            yield _make(node.name, WARN, "speed", found)


def _without_repeats(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings without those that another one of the same node and rule makes superfluous."""
    failed = {(finding.subject, finding.rule) for finding in findings if finding.level == FAIL}
    return [each for each in findings if each.level == FAIL or (each.subject, each.rule) not in failed]
