"""Ask this machine about itself: its scheduler, this node, nodes of partitions, module tool and container runtime."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpcmod.core.errors import HpcmodError, LackingError
from hpcmod.core.fs.reading import read_start
from hpcmod.core.process import run
from hpcmod.core.values.text import away_from_here
from hpcmod.core.which import which
from hpcmod.doctor.values.draft import MachineEvidence
from hpcmod.doctor.values.survey import NodeSurvey, parse_survey
from hpcmod.jobs import find_mpi_types, list_machine
from hpcmod.jobs.values.allocation import NODE_VARIABLE
from hpcmod.jobs.values.cluster import Cluster
from hpcmod.jobs.values.slurm import spell_options
from hpcmod.machine import LMOD, find_init, find_module_tool, find_runtime, node_program, read_version
from hpcmod.machine.values.facts import parse_facts
from hpcmod.modules import find_check_step

_PATIENCE = 60.0  # seconds for a program of this node
_LONG = 600.0  # seconds until a node of a partition is free, and has answered
_LARGEST = 1 << 20  # bytes that are read of a file
_NET, _CARDS, _CXI = Path("/sys/class/net"), Path("/sys/class/infiniband"), Path("/sys/class/cxi")
_OURS = away_from_here(
    "import json, os; from hpcmod.doctor.survey import survey_here; print(json.dumps(survey_here(os.environ)))"
)


def find_evidence(environ: Mapping[str, str], partitions: Sequence[str], options: Mapping[str, str]) -> MachineEvidence:
    """Find out what this machine says about itself.

    `partitions`: A node of each is asked too, by a step of a job.
    `options`: Further options of these steps, by long name: account, time, ...

    Raises LackingError if a node of a partition does not answer.
    """
    cluster, silent = list_machine(environ)
    here = survey_here(environ)
    host = environ.get(NODE_VARIABLE) or here["facts"].get("host", "")
    is_compute = cluster is None or cluster.node(host) is not None
    found = [_parse(here)] if is_compute else []
    found += [_parse(_ask_partition(name, options, environ)) for name in partitions]
    init, _ = find_init(environ)
    return MachineEvidence(
        host=socket.gethostname(),
        home=environ.get("HOME", ""),
        cluster=cluster,
        surveys=tuple({survey.facts.name: survey for survey in found}.values()),
        mpi=find_mpi_types(environ) if cluster else None,
        module_tool=_describe_module_tool(environ),
        module_init=(init, "LMOD_PKG, MODULESHOME or BASH_ENV of the shell that asked") if init else ("", ""),
        runtime=_describe_runtime(environ),
        silent=silent,
    )


def name_machine(cluster: Cluster | None) -> str:
    """Return the name of this machine: that of the cluster, else that of the host."""
    return (cluster.name if cluster else "") or socket.gethostname().partition(".")[0]


def survey_here(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return what this node says: facts of the node program, and texts of files and programs, by name."""
    question = json.dumps({"tools": True})
    done = run([sys.executable, "-I", "-S", "-c", node_program(), question], env=environ, stdin="", timeout=_PATIENCE)
    pieces = [line.split(" ", 3)[3].rstrip("|") for line in done.stdout.splitlines() if line.startswith("hpcmod ")]
    facts = json.loads("".join(pieces)) if pieces else {"host": socket.gethostname().partition(".")[0]}
    return {"facts": facts, "texts": dict(_find_texts(environ))}


def _find_texts(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield "machine", os.uname().machine
    yield "os-release", _read(Path("/etc/os-release"))
    yield "mounts", _read(Path("/proc/mounts"))
    yield "lscpu", _output(["lscpu", "--parse=CPU,CORE,SOCKET"], environ)
    links = [path for path in sorted(Path("/").iterdir()) if path.is_symlink()]
    yield "links", "\n".join(f"{path.name} -> {os.path.realpath(path)}" for path in links)
    yield "cxi", "\n".join(_names(_CXI))
    cards = (f"{name} {_driver(_CARDS / name)} {_link_layer(_CARDS / name)}" for name in _names(_CARDS))
    yield "infiniband", "\n".join(cards)
    names = (name for name in _names(_NET) if name != "lo")
    yield (
        "interfaces",
        "\n".join(f"{name} {_read(_NET / name / 'type')} {_read(_NET / name / 'speed')}" for name in names),
    )


def _parse(found: Mapping[str, Any]) -> NodeSurvey:
    return parse_survey(found["texts"], parse_facts(found["facts"], 0.0))


def _ask_partition(partition: str, options: Mapping[str, str], environ: Mapping[str, str]) -> Mapping[str, Any]:
    """Ask one node of a partition, with this hpcmod, which must be on a file system that the node has."""
    start = find_check_step(environ)
    if not start:
        raise LackingError("no scheduler answers here", "Leave out --partition, or ask on a login node.")
    words = spell_options({**options, "partition": partition})
    done = run([*start, *words, sys.executable, "-c", _OURS], env=environ, stdin="", timeout=_LONG, tied=True)
    line = next((line for line in done.stdout.splitlines() if line.startswith("{")), "")
    try:
        return dict(json.loads(line))
    except ValueError as err:
        said = " ".join((done.stderr or done.stdout).split())[:400]
        raise LackingError(
            f"no node of the partition {partition} answered: {said or f'exit status {done.status}'}",
            "Give the options that a job needs there, e.g. --account, or leave out this partition.",
        ) from err


def _describe_module_tool(environ: Mapping[str, str]) -> str:
    tool = find_module_tool(environ)
    version = environ.get("LMOD_VERSION", "") if tool == LMOD else ""
    return " ".join(filter(None, (tool, version)))


def _describe_runtime(environ: Mapping[str, str]) -> str:
    return read_version(environ) or find_runtime(environ) or ""


def _output(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the output of a program; empty if it is missing or fails."""
    if "/" not in command[0] and which(command[0], environ) is None:
        return ""
    try:
        done = run(command, env=environ, stdin="", timeout=_PATIENCE)
    except HpcmodError:
        return ""
    return "" if done.status else done.stdout


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*"))


def _driver(card: Path) -> str:
    path = card / "device" / "driver"
    return path.resolve().name if path.exists() else "-"


def _link_layer(card: Path) -> str:
    """Return what the first port of a card is linked to; `-` if unknown."""
    ports = _names(card / "ports")
    return (_read(card / "ports" / ports[0] / "link_layer") if ports else "") or "-"


def _read(path: Path) -> str:
    return read_start(path, _LARGEST).strip()
