"""Ask the nodes of a running job what its ranks do: one step, one answer for each node."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hpcmod.errors import BadInputError, LackingError
from hpcmod.install.queue import ask_nodes
from hpcmod.model.endings.stacks import NodeAnswer, join_answers, parse_answers
from hpcmod.model.jobs.facts import JobFacts
from hpcmod.model.logs.traces import RankTrace, parse_trace
from hpcmod.model.strict_json import load_json
from hpcmod.resources import rank_program
from hpcmod.which import which

_PATIENCE = 90.0  # seconds; the program on the nodes ends within 30
_PROGRAM = ("python3", "-I", "-S", "-c")
_LARGEST = 1 << 28  # bytes of an unpacked recording


@dataclass(frozen=True)
class Asked:
    """Answers of the nodes."""

    answers: tuple[NodeAnswer, ...]
    problem: str
    """Why there are none, or what the step said beside them; empty if nothing."""


def ask_ranks(job: JobFacts, environ: Mapping[str, str]) -> Asked:
    """Ask all nodes of a running job; nothing is written anywhere, and the ranks go on."""
    profiler = _find_py_spy(environ)
    command = [*_PROGRAM, rank_program(), job.number, *([profiler] if profiler else [])]
    try:
        output, errors = ask_nodes(job, command, environ, patience=_PATIENCE)
    except LackingError as err:
        return Asked((), err.message)
    answers = parse_answers(output)
    said = " ".join(errors.split())[:300]
    return Asked(answers, said if len(answers) < job.node_count else "")


@dataclass(frozen=True)
class Recorded:
    """What py-spy recorded of the ranks of a running job."""

    traces: tuple[RankTrace, ...]
    problems: tuple[str, ...]
    """What could not be recorded, and why, as sentences."""
    profiler: bool
    """Whether a node has py-spy."""


def record_ranks(job: JobFacts, ranks: Sequence[int], environ: Mapping[str, str], *, seconds: int) -> Recorded:
    """Record some ranks of a running job for some seconds; the ranks go on, and the nodes keep no file."""
    asked = json.dumps({"ranks": list(ranks), "seconds": seconds})
    command = [*_PROGRAM, rank_program(), job.number, _find_py_spy(environ), asked]
    try:
        output, errors = ask_nodes(job, command, environ, patience=_PATIENCE + seconds)
    except LackingError as err:
        return Recorded((), (err.message,), True)
    traces: list[RankTrace] = []
    problems: list[str] = []
    profiler = False
    answers = [one for one in join_answers(output) if isinstance(one, dict)]
    for answer in answers:
        profiler = profiler or bool(answer.get("profiler"))
        listed = answer.get("ranks")
        for one in listed if isinstance(listed, list) else ():
            try:
                traces.append(_read_recording(one, str(answer.get("host"))[:255], job))
            except (KeyError, TypeError, ValueError, OSError, EOFError, zlib.error) as err:
                told = one.get("problem") if isinstance(one, dict) else None
                problems.append(f"rank {one.get('rank') if isinstance(one, dict) else '?'}: {told or err}"[:400])
            except BadInputError as err:
                problems.append(err.message)
    found = {one.rank for one in traces}
    if len(answers) < job.node_count:
        said = " ".join(errors.split())[:300]
        silent = f"{job.node_count - len(answers)} of {job.node_count} nodes gave no answer"
        problems.append(f"{silent} ({said})" if said else silent)
    elif profiler and not problems:
        problems += [f"rank {rank} was not found on any node" for rank in ranks if rank not in found]
    return Recorded(tuple(sorted(traces, key=lambda one: one.rank)), tuple(problems), profiler or not answers)


def _read_recording(one: Mapping[str, Any], host: str, job: JobFacts) -> RankTrace:
    packed = base64.b64decode(one["recording"], validate=True)
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
        values = load_json(file.read(_LARGEST + 1), f"rank {one['rank']}", limit=_LARGEST)
    source = f"job {job.number}, rank {one['rank']}"
    return replace(parse_trace(values, source, rank=int(one["rank"]), ended=float(one["ended"])), host=host)


def _find_py_spy(environ: Mapping[str, str]) -> str:
    """Return the path of py-spy here; empty if there is none."""
    found = which("py-spy", environ)
    return os.path.realpath(found) if found else ""
