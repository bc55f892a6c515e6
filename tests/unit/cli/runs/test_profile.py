from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hpcmod.cli.main import main
from hpcmod.model.endings.stacks import MARK
from tests.unit.cli.runs.test_why import CONTROL, fake, here
from tests.unit.model.logs.test_speedscope import recording
from tests.unit.model.logs.test_traces import torch_trace

__all__ = ["here"]

STATES = {"running": ("RUNNING", "None"), "ended": ("COMPLETED", "None"), "waits": ("PENDING", "Resources")}


def profile(*words: str) -> Result:
    return CliRunner().invoke(main, ["profile", *words])


def job(here: Path, state: str) -> None:
    told, reason = STATES[state]
    fake(here, "scontrol", CONTROL.format(state=told, reason=reason, signal=0, directory=here))


def answer(here: Path, *ranks: dict[str, Any], profiler: str = "/opt/py-spy", host: str = "nid001") -> None:
    """Install a fake srun that prints the answers of two nodes: one with these ranks, one without ranks."""
    lines = []
    for name, own in ((host, ranks), ("nid002", ())):
        text = json.dumps({"host": name, "ranks": own, "profiler": profiler})
        pieces = [text[at : at + 700] for at in range(0, len(text), 700)]
        lines += [f"{MARK}{name} {number} {len(pieces)} {piece}" for number, piece in enumerate(pieces)]
    fake(here, "srun", "\n".join(["srun: noise", *lines, ""]))


def recorded(rank: int) -> dict[str, Any]:
    packed = gzip.compress(json.dumps(recording([[0, 1], [0, 2]])).encode())
    return {"rank": str(rank), "pid": 9, "recording": base64.b64encode(packed).decode(), "ended": 1.79e9}


def write(here: Path, *ranks: int) -> None:
    for rank in ranks:
        (here / f"hpcmod-profile-7-rank{rank}.json").write_text(json.dumps(torch_trace(rank, 5.0)))


def test_files_are_merged_into_one_trace(here: Path) -> None:
    write(here, 0, 8)
    done = profile("hpcmod-profile-7-rank0.json", "hpcmod-profile-7-rank8.json", "-o", "all.json")
    assert (done.exit_code, done.stdout) == (0, "all.json\n")
    assert done.stderr == "hpcmod: ranks 0 and 8: open all.json at https://ui.perfetto.dev or chrome://tracing\n"
    events = json.loads((here / "all.json").read_text())["traceEvents"]
    assert {one["pid"] for one in events} == {0, 8}


def test_a_job_that_has_ended_is_merged(here: Path) -> None:
    job(here, "ended")
    write(here, 1)
    (here / "hpcmod-profile-7-rank2.nsys-rep").touch()
    done = profile("7", "--json")
    found = json.loads(done.stdout)
    assert done.exit_code == 0 and found["file"] == "hpcmod-profile-7.json" and found["aligned"]
    assert [(one["rank"], one["host"], one["profiler"]) for one in found["ranks"]] == [(1, "nid002", "torch")]
    assert found["problems"] == [
        f"{here}/hpcmod-profile-7-rank2.nsys-rep stays as it is: only traces in JSON are merged"
    ]


def test_a_running_job_is_recorded(here: Path) -> None:
    job(here, "running")
    answer(here, recorded(3), {"rank": "4", "pid": 8, "problem": "Error: Operation not permitted"})
    done = profile("7", "--rank", "3,4", "--time", "5")
    assert (done.exit_code, done.stdout) == (0, "hpcmod-profile-7.json\n")
    assert "recording ranks 3-4 of job 7 for 5 s ...\n" in done.stderr
    assert "hpcmod: rank 4: Error: Operation not permitted\n" in done.stderr
    events = json.loads((here / "hpcmod-profile-7.json").read_text())["traceEvents"]
    assert [one["args"]["name"] for one in events if one["name"] == "process_name"] == ["rank 3 on nid001"]


@pytest.mark.parametrize(
    ("ranks", "profiler", "status", "said"),
    [
        ((), "", 7, "no node of job 7 has py-spy"),
        ((), "/opt/py-spy", 1, "nothing was recorded: rank 0 was not found on any node"),
        (({"rank": "0", "recording": "no base64", "ended": 1},), "x", 1, "nothing was recorded: rank 0"),
        (
            ({"rank": "0", "recording": base64.b64encode(gzip.compress(b"[]")).decode(), "ended": "x"},),
            "x",
            1,
            "rank 0",
        ),
        ((["odd"],), "x", 1, "nothing was recorded"),
    ],
)
def test_a_recording_that_fails_says_why(
    here: Path, ranks: tuple[Any, ...], profiler: str, status: int, said: str
) -> None:
    job(here, "running")
    answer(here, *ranks, profiler=profiler)
    done = profile("7")
    assert done.exit_code == status and said in done.stderr, done.stderr
    assert not (here / "hpcmod-profile-7.json").exists()


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--rank", "a", "7"), 2, "expected numbers"),
        (("--rank", ",".join(map(str, range(65))), "7"), 2, "at most 64"),
        (("--time", "61", "7"), 2, "1<=x<=60"),
        (("nowhere.json",), 3, "no such file"),
        (("7",), 3, "--env HPCMOD_PROFILE_RANK=0"),
    ],
)
def test_errors_say_what_to_do(here: Path, words: tuple[str, ...], status: int, said: str) -> None:
    done = profile(*words)
    assert done.exit_code == status and said in done.stderr, done.stderr


def test_a_job_that_waits_cannot_be_recorded(here: Path) -> None:
    job(here, "waits")
    done = profile("7")
    assert done.exit_code == 2 and "job 7 has not started" in done.stderr


def test_files_without_a_trace_are_named(here: Path) -> None:
    (here / "rank0.json").write_text("{}")
    done = profile("rank0.json")
    assert (
        done.exit_code == 1 and "rank0.json: not a trace" in done.stderr and "there is no trace to merge" in done.stderr
    )
