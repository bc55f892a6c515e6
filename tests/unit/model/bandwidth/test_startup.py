"""How long ranks take to start and to read."""

from __future__ import annotations

import pytest

from hpcmod.model.bandwidth.startup import IMPORT, READ, TASK, TimedStart, summarize_starts


def test_runs_are_joined_by_what_they_start_and_their_ranks() -> None:
    starts = [
        TimedStart(what, 1, ranks, seconds, "")
        for what, ranks, seconds in ((IMPORT, 1, 3.0), (TASK, 1, 1.0), (IMPORT, 8, 9.0), (IMPORT, 1, 5.0))
    ]
    found = [(one.what, one.ranks, one.runs, one.seconds, one.low, one.high) for one in summarize_starts(starts)]
    assert found == [(IMPORT, 1, 2, 4.0, 3.0, 5.0), (TASK, 1, 1, 1.0, 1.0, 1.0), (IMPORT, 8, 1, 9.0, 9.0, 9.0)]


@pytest.mark.parametrize(
    ("output", "rate"),
    [
        ("read 1000000000 bytes in 0.5 s\n0: read 1000000000 bytes in 2.0 s\n", 0.5),
        ("read 0 bytes in 0.0 s\n", 0.0),
        ("read x bytes in y s\nnothing", 0.0),
    ],
)
def test_the_slowest_rank_has_the_speed_of_reading(output: str, rate: float) -> None:
    (one,) = summarize_starts([TimedStart(READ, 1, 2, 3.0, output)])
    assert one.rate == rate
