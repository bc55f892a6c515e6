"""Recordings of py-spy in the speedscope format: samples of stacks, converted to events of a trace.

Format: https://www.speedscope.app/file-format-schema.json
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hpcmod.errors import BadInputError

_UNITS = {"seconds": 1e6, "milliseconds": 1e3, "microseconds": 1.0, "nanoseconds": 1e-3}
"""Microseconds in each unit."""
_DEEPEST = 2000  # frames of a stack

Call = tuple[str, str]
"""Function and file."""


def is_speedscope(values: Any) -> bool:
    """Return whether JSON looks like the speedscope format."""
    return (
        isinstance(values, dict) and isinstance(values.get("profiles"), list) and isinstance(values.get("shared"), dict)
    )


def read_speedscope(values: Any, source: str) -> list[dict[str, Any]]:
    """Return the calls of each thread as complete events that begin at time 0.

    Consecutive samples in the same function are one call: samples do not tell whether it returned in between.

    Raises
    ------
    BadInputError
        If the values are not as the format says.
    """
    try:
        frames = [_read_frame(one) for one in values["shared"]["frames"]]
        found: list[dict[str, Any]] = []
        for number, profile in enumerate(values["profiles"]):
            if profile["type"] != "sampled":
                raise BadInputError(f"{source}: profiles of type {profile['type']!r:.40} are not supported")
            scale = _UNITS[profile["unit"]]
            thread = {"pid": 0, "tid": number}
            named = {"name": str(profile.get("name") or f"thread {number}")[:200]}
            found.append({"ph": "M", "name": "thread_name", **thread, "args": named})
            weights = [float(weight) * scale for weight in profile["weights"]]
            found += [{**thread, **call} for call in _read_calls(profile["samples"], weights, frames)]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as err:
        raise BadInputError(f"{source}: not valid speedscope JSON: {type(err).__name__} {err}") from err
    return found


def _read_frame(frame: Any) -> tuple[Call, int]:
    line = frame.get("line")
    return (str(frame["name"])[:500], str(frame.get("file") or "")[:500]), line if isinstance(line, int) else 0


def _read_calls(
    samples: Sequence[Sequence[int]], weights: Sequence[float], frames: Sequence[tuple[Call, int]]
) -> Iterator[dict[str, Any]]:
    """Yield a call when it ends: at the first sample without it."""
    opened: list[tuple[Call, int, float]] = []
    now = 0.0
    for sample, weight in zip(samples, weights):
        if weight < 0:
            raise ValueError("a negative weight")
        stack = [frames[index] for index in sample[:_DEEPEST] if index >= 0]
        same = 0
        while same < min(len(stack), len(opened)) and stack[same][0] == opened[same][0]:
            same += 1
        while len(opened) > same:
            yield _make_event(*opened.pop(), now)
        opened += [(call, line, now) for call, line in stack[same:]]
        now += weight
    while opened:
        yield _make_event(*opened.pop(), now)


def _make_event(call: Call, line: int, began: float, ended: float) -> dict[str, Any]:
    name, file = call
    times = {"ts": round(began, 3), "dur": round(ended - began, 3)}
    return {"ph": "X", "cat": "python", "name": name, **times, "args": {"file": file, "line": line}}
