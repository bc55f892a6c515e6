"""A fault in any system call that writes loses no data; a sample of what `python -m tests.faults` tries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.inject import find_points, run_plainly, run_with_fault
from tests.faults.kinds import KILL
from tests.faults.places import make_shim
from tests.faults.trials import Choice, Done, try_verbs
from tests.stack import Stack

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("verb", ["fetch", "catalogue promote --alias"])
def test_a_fault_loses_nothing_and_the_next_run_finishes(verb: str, stack: Stack, tmp_path: Path) -> None:
    (report,) = try_verbs([verb], stack, tmp_path, Choice(most=6), Done())
    assert report.missed == 0
    assert report.points >= 3
    assert report.bad == []


WRITER = """
import os, sys

def write(name):
    with open(name, "w") as file:
        file.write(name)
        file.flush()

for name in ("one", "two"):
    try:
        write(os.path.join(sys.argv[1], name))
    except OSError as err:
        print(name, err.strerror)
"""


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """An empty directory, next to a program that writes two files into it."""
    (tmp_path / "x.py").write_text(WRITER)
    (tmp_path / "top").mkdir()
    return tmp_path / "top"


@pytest.mark.parametrize("children", [True, False])
def test_strace_kills_a_program_before_a_call(stack: Stack, tmp_path: Path, top: Path, children: bool) -> None:
    argv = [str(stack.python), str(tmp_path / "x.py"), str(top)]
    points = find_points(argv, env={}, cwd=tmp_path, below=top, log=tmp_path / "log", children=children)
    point = [point for point in points if point.call == "openat"][1]
    for path in top.iterdir():
        path.unlink()
    ran = run_with_fault(argv, point, KILL, env={}, cwd=tmp_path, children=children)
    assert ran.status in {-9, 128 + 9}
    assert [path.name for path in top.iterdir()] == ["one"]


def test_one_call_at_a_place_fails(stack: Stack, tmp_path: Path, top: Path) -> None:
    shim = make_shim(top, tmp_path, children=True)
    assert shim is not None
    argv, env = [str(stack.python), str(tmp_path / "x.py"), str(top)], {"PATH": "/usr/bin:/bin"}
    points = find_points(argv, env=env, cwd=tmp_path, below=top, log=tmp_path / "log", shim=shim)
    assert [(point.call, point.number) for point in points] == [
        ("openat", 1),
        ("write", 1),
        ("openat", 2),
        ("write", 2),
    ]
    assert len({point.place for point in points}) == 2
    at = points[3]
    assert at.lines == f"write < {tmp_path}/x.py:7 < {tmp_path}/x.py:11"
    ran = run_plainly(argv, env={**env, **shim.failing(at.place, at.number, "ESTALE")}, cwd=tmp_path)
    assert (ran.status, ran.output.splitlines()[:1]) == (0, ["two Stale file handle"])
    assert shim.once.exists()
