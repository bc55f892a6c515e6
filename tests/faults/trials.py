"""Try a verb with one fault after another: nothing may be lost or stuck, and no traceback shown."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpcmod.errors import HpcmodError
from tests.faults.compare import describe_state, signature
from tests.faults.inject import ERRORS, KILL, STUCK, Point, Ran, find_points, run_plainly, run_with_fault
from tests.faults.scenes import SCENES, Ground, Scene
from tests.stack import Stack

CODES = {0, *(kind.exit_code for kind in (HpcmodError, *HpcmodError.__subclasses__()))}
"""Exit codes that hpcmod documents."""


@dataclass
class Report:
    """What came of the trials of one verb."""

    verb: str
    points: int = 0
    """System calls that write, of the run without a fault."""
    trials: Counter[str] = field(default_factory=Counter)
    """By fault: how many were tried."""
    bad: list[str] = field(default_factory=list)
    """Each trial that ended badly, and how."""

    def row(self) -> str:
        """Render a line of the table."""
        errors = sum(count for fault, count in self.trials.items() if fault != KILL)
        return f"{self.verb:18} {self.points:6} {self.trials[KILL]:6} {errors:7} {len(self.bad):4}"


HEAD = f"{'verb':18} {'points':>6} {'kills':>6} {'errors':>7} {'bad':>4}"


@dataclass(frozen=True)
class Choice:
    """Which trials to make."""

    most: int
    """Trials at most, spread evenly over the run."""
    faults: tuple[str, ...] = ()
    """Faults to try at each point; empty: KILL, and one of ERRORS in turn."""
    every_error: bool = False
    """Whether each point is tried with all of ERRORS, if no faults are named."""


class Done:
    """The trials made so far, kept in a file so that a campaign can be continued."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path and path.exists() else []
        self.wrong: dict[tuple[str, ...], list[str]] = {tuple(key): wrong for key, wrong in map(json.loads, lines)}
        """What was wrong in each trial, by verb, system call, its number, and fault."""

    def add(self, key: tuple[str, ...], wrong: list[str]) -> None:
        """Record a trial."""
        self.wrong[key] = wrong
        if self.path:
            with self.path.open("a") as file:
                file.write(json.dumps([key, wrong]) + "\n")


def try_verb(
    verb: str, stack: Stack, directory: Path, choice: Choice, done: Done, *, tell: Callable[[str], None] = print
) -> Report:
    """Try one verb.

    Parameters
    ----------
    directory
        An empty directory.
    done
        Trials made before, which are counted but not repeated; new ones are added.
    tell
        Called with a line for each trial that ended badly.
    """
    scene, report = SCENES[verb], Report(verb)
    judged: dict[str, list[str]] = {}
    with contextlib.ExitStack() as services:
        ground = Ground(stack, directory / "ground", services)
        ground.top.mkdir()
        scene.prepare(ground)
        before = directory / "before"
        _copy(ground.top, before)
        argv = ground.argv(scene.words)
        how: dict[str, Any] = {"env": ground.environment(), "cwd": ground.top, "children": scene.children}
        points = find_points(argv, below=ground.top, log=directory / "log", **how)
        whole = signature(ground.top, contents=scene.same)
        report.points = len(points)
        for point, fault in _choose(points, choice):
            key = (verb, point.call, str(point.number), fault)
            if key not in done.wrong:
                _copy(before, ground.top)
                ran = run_with_fault(argv, point, fault, **how)
                done.add(key, list(_judge(ran, fault, scene, ground, whole, judged)))
            report.trials[fault] += 1
            for wrong in done.wrong[key]:
                report.bad.append(f"{verb}: {fault} at {point.call} number {point.number} ({point.what}): {wrong}")
                tell(report.bad[-1])
    return report


def _copy(source: Path, target: Path) -> None:
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(source, target, symlinks=True)


def _choose(points: Sequence[Point], choice: Choice) -> Iterator[tuple[Point, str]]:
    """Spread the trials over the points of a run."""
    errors = ERRORS if choice.every_error else ()
    every = [
        (point, fault)
        for number, point in enumerate(points)
        for fault in choice.faults or (KILL, *(errors or ERRORS[number % len(ERRORS) :][:1]))
    ]
    # an odd step, so that both kills and errors come up
    step = max(1, math.ceil(len(every) / choice.most)) | 1 if len(every) > choice.most else 1
    yield from every[::step]


def _judge(
    ran: Ran, fault: str, scene: Scene, ground: Ground, whole: dict[str, str], judged: dict[str, list[str]]
) -> Iterator[str]:
    """Yield everything that is wrong after a fault; run the command again where it was not finished.

    Parameters
    ----------
    judged
        What was wrong after running the command again, by the state that the fault left: many faults leave the same
        one. Added to.
    """
    if "Traceback (most recent call last)" in ran.output:
        yield f"traceback: {ran.output[-700:]}"
    if ran.status == STUCK:
        yield "stuck"
    elif ran.status >= 0 and ran.status not in CODES and not (fault == KILL and ran.status == 128 + 9):
        yield f"exit code {ran.status}: {ran.output[-300:]}"
    differences = _differences(ground.top, whole, contents=scene.same)
    if not differences:
        return
    if ran.status == 0 and not (scene.later and all(f" {scene.later}" in one for one in differences.split(", "))):
        yield f"lost, with exit code 0: {differences}"
    elif ran.status == 0 and scene.says not in ran.output:
        yield f"left without a word: {differences}"
    state = describe_state(ground.top)
    if state not in judged:
        judged[state] = list(_run_again(scene, ground, whole))
    yield from judged[state]


def _run_again(scene: Scene, ground: Ground, whole: dict[str, str]) -> Iterator[str]:
    argv, env = ground.argv(scene.words), ground.environment()
    again = run_plainly(argv, env=env, cwd=ground.top)
    if again.status and _differences(ground.top, whole, contents=scene.same):
        yield f"stuck: run again it ends with {again.status}: {again.output[-500:]}"
    elif different := _differences(ground.top, whole, contents=scene.same):
        yield f"run again, not as without a fault: {different}"
    for words in scene.checks:
        checked = run_plainly(ground.argv(words), env=env, cwd=ground.top)
        if checked.status:
            yield f"{' '.join(words)} ends with {checked.status}: {checked.output[-300:]}"


def _differences(top: Path, whole: dict[str, str], *, contents: bool) -> str:
    """Name the files that are missing, too many, or different; empty if there are none."""
    found = signature(top, contents=contents)
    names = (
        *(f"missing {name}" for name in whole.keys() - found.keys()),
        *(f"left over {name}" for name in found.keys() - whole.keys()),
        *(f"different {name}" for name in whole.keys() & found.keys() if whole[name] != found[name]),
    )
    return ", ".join(sorted(names)[:8])
