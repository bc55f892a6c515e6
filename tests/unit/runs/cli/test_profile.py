from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.calls import hpcmod
from tests.unit.runs.cli.test_why import CONTROL, fake, here
from tests.unit.runs.values.logs.test_traces import torch_trace

__all__ = ["here"]


def write(here: Path, *ranks: int) -> None:
    for rank in ranks:
        (here / f"hpcmod-profile-7-rank{rank}.json").write_text(json.dumps(torch_trace(rank, 5.0)))


def test_files_are_merged_into_one_trace(here: Path) -> None:
    write(here, 0, 8)
    done = hpcmod("profile", "hpcmod-profile-7-rank0.json", "hpcmod-profile-7-rank8.json", "-o", "all.json")
    assert (done.exit_code, done.stdout) == (0, "all.json\n")
    assert done.stderr == "hpcmod: ranks 0 and 8: open all.json at https://ui.perfetto.dev or chrome://tracing\n"
    events = json.loads((here / "all.json").read_text())["traceEvents"]
    assert {one["pid"] for one in events} == {0, 8}


def test_a_job_that_has_ended_is_merged(here: Path) -> None:
    fake(here, "scontrol", CONTROL.format(state="COMPLETED", reason="None", signal=0, directory=here))
    write(here, 1)
    (here / "hpcmod-profile-7-rank2.nsys-rep").touch()
    done = hpcmod("profile", "7", "--json")
    found = json.loads(done.stdout)
    assert done.exit_code == 0 and found["file"] == "hpcmod-profile-7.json" and found["aligned"]
    assert [(one["rank"], one["host"], one["profiler"]) for one in found["ranks"]] == [(1, "nid002", "torch")]
    assert found["problems"] == [
        f"{here}/hpcmod-profile-7-rank2.nsys-rep stays as it is: only traces in JSON are merged"
    ]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("nowhere.json",), 3, "no such file"),
        (("7",), 3, "--env HPCMOD_PROFILE_RANK=0"),
    ],
)
def test_errors_say_what_to_do(here: Path, words: tuple[str, ...], status: int, said: str) -> None:
    done = hpcmod("profile", *words)
    assert done.exit_code == status and said in done.stderr, done.stderr


def test_files_without_a_trace_are_named(here: Path) -> None:
    (here / "rank0.json").write_text("{}")
    done = hpcmod("profile", "rank0.json")
    assert (
        done.exit_code == 1 and "rank0.json: not a trace" in done.stderr and "there is no trace to merge" in done.stderr
    )
