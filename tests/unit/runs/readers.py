"""Parsers of external input in runs/, for tests.fuzz."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hpcmod.machine.values.facts import parse_facts
from hpcmod.machine.values.tables import Network
from hpcmod.runs.bandwidth.history import MeasuredWith, read_earlier_points, remember_points
from hpcmod.runs.known_endings import shipped_endings
from hpcmod.runs.running.logs import read_dump
from hpcmod.runs.values.bandwidth.measurement import BandwidthPoint
from hpcmod.runs.values.bandwidth.nccl_tests import read_bandwidths
from hpcmod.runs.values.endings.diagnosis import diagnose
from hpcmod.runs.values.endings.ending import parse_endings
from hpcmod.runs.values.endings.events import Log, read_events
from hpcmod.runs.values.endings.flight import find_mismatch
from hpcmod.runs.values.endings.stacks import group_ranks, judge_hang, parse_answers, tell_group
from hpcmod.runs.values.logs.allreduce import MARK, Results, judge_results
from hpcmod.runs.values.logs.network import describe_network, judge_network
from hpcmod.runs.values.logs.reading import Reading, read_log
from hpcmod.runs.values.nodes.verdicts import judge_nodes
from tests.fuzz.mutations import flip, mutate
from tests.fuzz.reader import Reader, read_all, reader, text_of, texts
from tests.logs import ENDINGS, excerpts
from tests.unit.machine.values.test_facts import ANSWER as NODE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ENDINGS_TESTS = Path(__file__).parent / "values" / "endings"
BANDWIDTHS = "tests/unit/runs/values/bandwidth/corpus/*.txt"
texts("bandwidth table", lambda data: read_bandwidths(text_of(data)), read_all(BANDWIDTHS))


@reader("earlier bandwidths")
def _earlier_bandwidths(directory: Path) -> Iterator[Reader]:
    path, measured = directory / "h.jsonl", MeasuredWith("x", "PyTorch", "", "torch on CPUs")
    point = BandwidthPoint("all_reduce", 2, 8, 1024, 1, 1.0, 1.0, 1.75, 1.75, 1.75, 0)
    remember_points(path, measured, [point] * 20, date="2026-11-23", tell=lambda _: None)
    seed = path.read_bytes()

    def read(data: bytes) -> None:
        path.write_bytes(data)
        read_earlier_points(path, measured, tell=lambda _: None)

    yield Reader(read, lambda dice: mutate(dice, seed) if dice.random() < 0.5 else flip(dice, seed))


def _judge_node(data: bytes) -> None:
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(values, dict):
        facts = parse_facts(values, 0.0)
        judge_nodes([facts, replace(facts, name="other", image="x")])


texts("answer of a node", _judge_node, [json.dumps(NODE).encode()])


# Logs of communication libraries, and the reports of the ranks of `hpcmod check --network`


def _read_log(data: bytes) -> None:
    reading = read_log(text_of(data), Reading(ENDINGS), file="x.log")
    for expected in (Network(), Network(("hsn0",), fabric="cxi"), Network(fabric="ib")):
        list(judge_network(reading, expected))
    describe_network(reading)


def _read_results(data: bytes) -> None:
    results = Results()
    for line in text_of(data).split("\n"):
        results.add(line)
    list(judge_results(results, ranks=2, interfaces=("hsn0",)))


LOGS = {name: [one.text.encode() for one in excerpts() if one.file == name] for name in ("nccl", "mpi", "torch")}
REPORT = {"rank": 1, "host": "n", "library": "gloo", "size": 2, "error": "", "seconds": 0.1, "missing": ["A=b"]}
texts("log of NCCL", _read_log, LOGS["nccl"])
texts("log of libfabric and MPI", _read_log, LOGS["mpi"])
texts("log of PyTorch", _read_log, LOGS["torch"])
texts("report of a rank", _read_results, [f"{MARK}{json.dumps(REPORT)}".encode()])


# Input of `hpcmod why`: logs, flight recorder dumps, answers of nodes and of the scheduler


def _read_output(data: bytes) -> None:
    events = read_events(Log("job.out", text_of(data)), ENDINGS)
    diagnose(events, world=4)


def _read_answers(data: bytes) -> None:
    groups = group_ranks(rank for answer in parse_answers(text_of(data)) for rank in answer.ranks)
    list(map(tell_group, groups))
    judge_hang(groups, 4)


def _read_dump(data: bytes) -> None:
    find_mismatch([read_dump(data, Path("trace_0")), read_dump(DUMPS[0], Path("trace_1"))])


EXCERPTS = [one["text"].encode() for one in tomllib.loads((ENDINGS_TESTS / "corpus.toml").read_text())["excerpt"]]
DUMPS = [path.read_bytes() for path in sorted((ENDINGS_TESTS / "flight").iterdir())]
STACK = {"thread_name": "MainThread", "frames": [{"name": "all_reduce", "filename": "a.py", "line": 1}]}
ANSWERED = {"rank": "0", "pid": 7, "state": "S", "cpu": 0.5, "wchan": "x", "stacks": [STACK], "problem": "p"}
texts(
    "known endings", lambda data: parse_endings(text_of(data), "x.toml"), [*map(str.encode, shipped_endings().values())]
)
texts("output of a run", _read_output, EXCERPTS)
texts("dump of the flight recorder", _read_dump, DUMPS)
texts("answer about ranks", _read_answers, [f"hpcmod n 1/1 {json.dumps({'host': 'n', 'ranks': [ANSWERED]})}|".encode()])
