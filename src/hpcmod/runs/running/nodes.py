"""Ask the nodes of a running job what its ranks do: one step, one answer for each node."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hpcmod.core.errors import LackingError
from hpcmod.core.which import which
from hpcmod.jobs import ask_nodes
from hpcmod.jobs.values.facts import JobFacts
from hpcmod.modules import host_environment
from hpcmod.runs.values.endings.stacks import NodeAnswer, parse_answers

_PATIENCE = 90.0  # seconds; the program on the nodes ends within 30


@dataclass(frozen=True)
class Asked:
    """Answers of the nodes."""

    answers: tuple[NodeAnswer, ...]
    problem: str
    """Why there are none, or what the step said beside them; empty if nothing."""


def rank_program() -> str:
    """Return the program that looks at the ranks of a job on one of its nodes; it runs under the host's Python."""
    return (Path(__file__).parents[1] / "endings" / "list-ranks").read_text(encoding="utf-8")


def ask_ranks(job: JobFacts, environ: Mapping[str, str]) -> Asked:
    """Ask all nodes of a running job; nothing is written anywhere, and the ranks go on."""
    host = host_environment(environ)  # a module's python3, in a container, sees no processes of the ranks
    profilers = filter(None, [which("py-spy", host)])
    command = ["python3", "-I", "-S", "-c", rank_program(), job.number, *map(os.path.realpath, profilers)]
    try:
        output, errors = ask_nodes(job, command, host, patience=_PATIENCE)
    except LackingError as err:
        return Asked((), err.message)
    answers = parse_answers(output)
    return Asked(answers, " ".join(errors.split())[:300] if len(answers) < job.node_count else "")
