from __future__ import annotations

from typing import Any

import pytest

from hpcmod.errors import BadInputError
from hpcmod.model.logs.speedscope import is_speedscope, read_speedscope


def recording(samples: list[list[int]], **changed: Any) -> dict[str, Any]:
    """Return a recording as py-spy 0.4.3 writes it: outermost frame first, equal weights."""
    frames = [("main", "train.py", 9), ("step", "train.py", 41), ("step", "train.py", 42), ("read", "loader.py", 7)]
    profile = {
        "type": "sampled",
        "name": 'Thread 7 "MainThread"',
        "unit": "seconds",
        "startValue": 0.0,
        "endValue": 0.01 * len(samples),
        "samples": samples,
        "weights": [0.01] * len(samples),
        **changed,
    }
    shared = {"frames": [{"name": name, "file": file, "line": line, "col": None} for name, file, line in frames]}
    return {"profiles": [profile], "shared": shared, "exporter": "py-spy@0.4.3", "name": "py-spy profile"}


def test_consecutive_samples_become_calls() -> None:
    named, *calls = read_speedscope(recording([[0, 1], [0, 2], [0, 3], [0, 2], []]), "x")
    assert (named["name"], named["args"]) == ("thread_name", {"name": 'Thread 7 "MainThread"'})
    assert [(one["name"], one["ts"], one["dur"], one["args"]["line"]) for one in calls] == [
        ("step", 0, 20_000, 41),
        ("read", 20_000, 10_000, 7),
        ("step", 30_000, 10_000, 42),
        ("main", 0, 40_000, 9),
    ]


@pytest.mark.parametrize(
    "values",
    [
        recording([[9]]),
        recording([["x"]]),  # type: ignore[list-item]
        recording([[0]], weights=[-1]),
        recording([[0]], unit="years"),
        recording([[0]], type="evented"),
        {"profiles": [None], "shared": {"frames": []}},
        {"profiles": [], "shared": {"frames": [None]}},
    ],
)
def test_invalid_recordings_are_refused(values: dict[str, Any]) -> None:
    assert is_speedscope(values)
    with pytest.raises(BadInputError, match="x: "):
        read_speedscope(values, "x")


def test_other_json_is_not_speedscope() -> None:
    assert not any(is_speedscope(one) for one in ([], {}, {"traceEvents": []}, {"profiles": {}, "shared": {}}))
