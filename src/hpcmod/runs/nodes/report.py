"""Ask all nodes of a job what they have, and where the ranks of a step run: one step, whose tasks run one program."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpcmod.core.errors import LackingError
from hpcmod.core.process import follow
from hpcmod.core.values.finding import Finding
from hpcmod.jobs import list_hosts
from hpcmod.jobs.values.allocation import Allocation, environment_of_step
from hpcmod.jobs.values.slurm import step_on_nodes
from hpcmod.machine import node_program
from hpcmod.machine.values.facts import NodeFacts, parse_facts
from hpcmod.machine.values.site import NodeType
from hpcmod.modules import host_environment
from hpcmod.runs.values.nodes.affinity import RankPlace, judge_ranks, parse_rank
from hpcmod.runs.values.nodes.answers import AnswerLines, TaskAnswer
from hpcmod.runs.values.nodes.verdicts import judge_nodes

_MINUTES, _MINUTES_FOR_IMAGE = 2, 10  # until the step ends, whatever happens to a node
_HARMLESS = re.compile(r"cluster configuration lacks support for cpu binding$")
_SAID = 10  # lines of Slurm that an error shows


@dataclass(frozen=True)
class NodeReport:
    """Facts of all nodes of a job, and what is wrong with them."""

    nodes: tuple[NodeFacts, ...]
    """By name."""
    missing: tuple[str, ...]
    """Nodes that did not answer."""
    findings: tuple[Finding, ...]
    messages: tuple[str, ...]
    """What Slurm said."""


def check_nodes(
    allocation: Allocation, question: Mapping[str, Any], environ: Mapping[str, str], *, site: str = ""
) -> NodeReport:
    """Ask every node of the current allocation, with one step, and judge the answers.

    Raises LackingError if no node answers.
    """
    whole = bool((question.get("image") or {}).get("whole"))
    step = make_step_on_nodes(allocation, whole=whole)
    answers, said = _ask_tasks(step, question, environment_of_step(environ))
    facts = (parse_facts(answer.values, answer.arrived) for answer in answers)
    nodes = tuple(sorted(facts, key=lambda node: node.name))
    missing = _find_missing(allocation, nodes, environ) if len(nodes) < allocation.nodes else ()
    messages = tuple(line for line in said if not _HARMLESS.search(line))
    return NodeReport(nodes, missing, tuple(judge_nodes(nodes, missing=missing, site=site)), messages)


def make_step_on_nodes(allocation: Allocation, *, whole: bool) -> tuple[str, ...]:
    """Return the command that starts one task on each node; with `whole`, each has time to read a large image."""
    return step_on_nodes(allocation.nodes, minutes=_MINUTES_FOR_IMAGE if whole else _MINUTES)


def find_ranks(
    step: Sequence[str],
    *,
    node: NodeType,
    ranks: int,
    interfaces: Sequence[str],
    environ: Mapping[str, str],
) -> tuple[tuple[RankPlace, ...], list[Finding]]:
    """Start a step as a job would, and return where its ranks run and which pairings are wrong.

    Raises LackingError if no rank answers.
    """
    answers, _ = _ask_tasks(step, {"rank": True}, environ)
    places = tuple(parse_rank(answer.values, node=node, ranks=ranks, interfaces=interfaces) for answer in answers)
    return places, judge_ranks(places)


def _find_missing(allocation: Allocation, nodes: Sequence[NodeFacts], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of nodes that did not answer; if they cannot be found, one name per node."""
    known = {node.name for node in nodes}
    missing = [name for name in list_hosts(environ) if name not in known]
    absent = allocation.nodes - len(nodes)
    return tuple(missing) if len(missing) == absent else tuple(f"node {number}" for number in range(1, absent + 1))


def _ask_tasks(
    step: Sequence[str], question: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[tuple[TaskAnswer, ...], list[str]]:
    """Run the program of a node on all tasks of a step; return its answers by rank, and the other lines of the step.

    The program is an argument rather than a file, so that no task reads from a shared directory. The step gets SIGTERM
    when this process ends.

    Raises LackingError if no task answers, or the command that starts tasks is not on this machine.
    """
    lines = AnswerLines()
    argv = [*step, "python3", "-I", "-S", "-c", node_program(), json.dumps(question)]
    with follow(argv, env=host_environment(environ), tied=True) as program:  # python3 is not a module's wrapper
        for line in program.lines():
            lines.add(line, time.time())
    answers = tuple(lines.answers())
    if not answers:
        said = "\n".join(lines.messages[:_SAID]) or f"exit status {program.status}"
        raise LackingError(
            f"no task answered: {said}",
            "Check that a step starts here (srun hostname), and that the nodes have python3.",
        )
    return answers, lines.messages
