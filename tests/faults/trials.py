"""Run a command with one fault after another: it must not lose data, get stuck, or show a traceback."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hpcmod.core.errors import HpcmodError
from tests.faults.compare import describe_state, signature
from tests.faults.inject import STUCK, Point, Ran, find_points, run_with_fault
from tests.faults.kinds import ERRORS, KILL, PLACE_ERRORS
from tests.faults.places import Shim, make_shim
from tests.faults.scenes import SCENES, Ground, Scene
from tests.faults.snapshot import Snapshot, empty
from tests.faults.warm import Warm, warmed
from tests.stack import Stack

CODES = {0, *(kind.exit_code for kind in (HpcmodError, *HpcmodError.__subclasses__()))}
"""Exit codes that hpcmod documents."""


@dataclass
class Report:
    """Results of the trials of one command."""

    verb: str
    points: int = 0
    """Number of system calls that write, in the run without a fault."""
    places: int = 0
    """Number of places in the code that make them."""
    missed: int = 0
    """Number of trials in which the system call was not made."""
    trials: Counter[str] = field(default_factory=Counter)
    """Number of trials of each fault."""
    bad: list[str] = field(default_factory=list)
    """Each bad trial, and what was wrong."""

    def row(self) -> str:
        """Return a line of the table."""
        others = sum(count for fault, count in self.trials.items() if fault in PLACE_ERRORS)
        trials = (self.trials[KILL], self.trials["ENOSPC"], others)
        counts = (self.points, self.places, *trials, self.missed, len(self.bad))
        return f"{self.verb:27} {' '.join(f'{count:6}' for count in counts)}"


HEAD = f"{'verb':27} points places   KILL ENOSPC others missed    bad"


@dataclass(frozen=True)
class Choice:
    """Which trials to make."""

    most: int
    """Maximum number of trials, spread evenly over the run."""
    faults: tuple[str, ...] = ()
    """Faults to try at each point; empty: KILL, and one of ERRORS after another."""
    both: bool = False
    """Whether to try each place with PLACE_ERRORS, and each point with KILL and ENOSPC."""


class Done:
    """The trials made so far, kept in a file so that a campaign can be resumed."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path and path.exists() else []
        self.wrong: dict[tuple[str, ...], list[str]] = {tuple(key): wrong for key, wrong in map(json.loads, lines)}
        """What was wrong in each trial, by command, system call, its number, and fault."""

    def add(self, key: tuple[str, ...], wrong: list[str]) -> None:
        """Record a trial."""
        self.wrong[key] = wrong
        if self.path:
            with self.path.open("a") as file:
                file.write(json.dumps([key, wrong]) + "\n")


def try_verbs(
    verbs: Iterable[str],
    stack: Stack,
    directory: Path,
    choice: Choice,
    done: Done,
    *,
    tell: Callable[[str], None] = print,
) -> Iterator[Report]:
    """Try commands, and yield a report for each; those that start from the same state are tried together.

    `directory`: An empty directory.
    `done`: Earlier trials, which are counted but not repeated; new ones are added.
    `tell`: Called with a line for each bad trial.
    """
    groups: dict[Callable[[Ground], None], list[str]] = {}
    for verb in verbs:
        groups.setdefault(SCENES[verb].prepare, []).append(verb)
    for number, (prepare, group) in enumerate(groups.items()):
        work = directory / str(number)
        work.mkdir()
        with contextlib.ExitStack() as services:
            ground = Ground(stack, work / "ground", services)
            ground.top.mkdir()
            ground.temporary.mkdir()
            prepare(ground)
            before = Snapshot(ground.top, work / "before")
            for verb in group:
                _restore(ground, before)
                yield _try_verb(verb, ground, before, work, choice, done, tell)
        shutil.rmtree(work)


def _restore(ground: Ground, before: Snapshot) -> None:
    before.restore()
    empty(ground.temporary)


def _try_verb(
    verb: str, ground: Ground, before: Snapshot, work: Path, choice: Choice, done: Done, tell: Callable[[str], None]
) -> Report:
    scene, report = SCENES[verb], Report(verb)
    shim = make_shim(ground.top, work, children=scene.children)
    points = find_points(
        ground.argv(scene.words),
        env=ground.environment(),
        cwd=ground.top,
        below=ground.top,
        log=work / "log",
        children=scene.children,
        shim=shim,
    )
    report.points, report.places = len(points), len({point.lines for point in points})
    whole = signature(ground.top, contents=scene.same)
    library = shim.library if shim else None
    with warmed(ground.stack.python, ground.environment(), library, easybuild=scene.easybuild) as warm:
        trials = _Trials(scene, ground, shim, warm, whole)
        for point, fault in choose(points, choice):
            key = (verb, point.place or point.call, str(point.number), fault)
            if key not in done.wrong:
                _restore(ground, before)
                wrong = trials.make(point, fault)
                if wrong is None:
                    report.missed += 1
                    continue
                done.add(key, wrong)
            report.trials[fault] += 1
            for wrong in done.wrong[key]:
                at = f"{point.call} number {point.number} ({point.what}\n  {point.lines})"
                report.bad.append(f"{verb}: {fault} at {at}: {wrong}")
                tell(report.bad[-1])
    return report


def choose(points: Sequence[Point], choice: Choice) -> Iterator[tuple[Point, str]]:
    """Yield the trials, spread over the points of a run."""
    if choice.both:
        every = [*_by_place(points), *((point, fault) for point in points for fault in (KILL, "ENOSPC"))]
    else:
        every = [
            (point, fault)
            for number, point in enumerate(points)
            for fault in choice.faults or (KILL, ERRORS[number % len(ERRORS)])
        ]
    # an odd step selects both kills and errors
    step = max(1, math.ceil(len(every) / choice.most)) | 1 if len(every) > choice.most else 1
    yield from every[::step]


def _by_place(points: Sequence[Point]) -> Iterator[tuple[Point, str]]:
    """Choose for each place and error one of its calls: the first, middle or last, changing with each error."""
    places: dict[str, list[Point]] = {}
    for point in points:
        places.setdefault(point.lines, []).append(point)
    for calls in places.values():
        for number, fault in enumerate(PLACE_ERRORS):
            yield (calls[0], calls[len(calls) // 2], calls[-1])[number % 3], fault


@dataclass(frozen=True)
class _Trials:
    """What every trial of a command needs."""

    scene: Scene
    ground: Ground
    shim: Shim | None
    warm: Warm
    whole: dict[str, str]
    """The result of the run without a fault."""
    judged: dict[str, list[str]] = field(default_factory=dict)
    """What was wrong after running the command again, by the state that the fault left: many leave the same one."""
    checked: dict[str, list[str]] = field(default_factory=dict)
    """Results of the checks, by the final state."""

    def make(self, point: Point, fault: str) -> list[str] | None:
        """Return what is wrong after a fault; None if the call was not made."""
        argv, how = self.ground.argv(self.scene.words), {"cwd": self.ground.top}
        env = self.ground.environment()
        if self.shim and point.place:
            ran = self.warm.run(argv, env={**env, **self.shim.failing(point.place, point.number, fault)}, **how)
            if not self.shim.once.exists():
                return None
        else:
            ran = run_with_fault(argv, point, fault, env=env, children=self.scene.children, **how)
        return list(self._judge(ran, fault))

    def _judge(self, ran: Ran, fault: str) -> Iterator[str]:
        """Yield everything that is wrong after a fault; run the command again if it did not finish."""
        scene, ground, whole = self.scene, self.ground, self.whole
        if "Traceback (most recent call last)" in ran.output:
            yield f"traceback: {ran.output[-700:]}"
        if ran.status == STUCK:
            yield "stuck"
        elif ran.status >= 0 and ran.status not in CODES and not (fault == KILL and ran.status == 128 + 9):
            yield f"exit code {ran.status}: {ran.output[-300:]}"
        differences = _differences(ground.top, whole, scene)
        if not differences:
            return
        if ran.status == 0 and not (scene.later and all(f" {scene.later}" in one for one in differences.split(", "))):
            yield f"lost, with exit code 0: {differences}"
        elif ran.status == 0 and scene.says not in ran.output:
            yield f"left without a message: {differences}"
        state = describe_state(ground.top, ground.temporary)
        if state not in self.judged:
            self.judged[state] = list(self._run_again())
        yield from self.judged[state]

    def _run_again(self) -> Iterator[str]:
        scene, ground, whole = self.scene, self.ground, self.whole
        env = ground.environment()
        again = self.warm.run(ground.argv(scene.words), env=env, cwd=ground.top)
        if again.status and _differences(ground.top, whole, scene):
            yield f"stuck: a second run exits with {again.status}: {again.output[-500:]}"
        elif different := _differences(ground.top, whole, scene):
            yield f"after a second run, not as without a fault: {different}"
        state = describe_state(ground.top, ground.temporary)
        if state not in self.checked:
            self.checked[state] = list(self._check())
        yield from self.checked[state]

    def _check(self) -> Iterator[str]:
        for words in self.scene.checks:
            checked = self.warm.run(self.ground.argv(words), env=self.ground.environment(), cwd=self.ground.top)
            if checked.status:
                yield f"{' '.join(words)} exits with {checked.status}: {checked.output[-300:]}"


def _differences(top: Path, whole: dict[str, str], scene: Scene) -> str:
    """List the files that are missing, left over or different; empty if there are none."""
    found = signature(top, contents=scene.same)
    names = (
        *(f"missing {name}" for name in whole.keys() - found.keys()),
        *(f"left over {name}" for name in found.keys() - whole.keys()),
        *(f"different {name}" for name in whole.keys() & found.keys() if whole[name] != found[name]),
    )
    matter = sorted(name for name in names if not (scene.spare and f" {scene.spare}" in name))
    return ", ".join(matter[:8])
