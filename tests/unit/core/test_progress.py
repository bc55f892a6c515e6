from __future__ import annotations

import io

import pytest

from hpcmod.core import progress
from hpcmod.core.progress import ProgressLine, Tally, Ticker, render_progress
from tests.calls import Terminal

GB = 1_000_000_000


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


@pytest.mark.parametrize(
    ("done", "total", "seconds", "text"),
    [
        pytest.param(1.2 * GB, 20.1 * GB, 1.5, "1.2 of 20.1 GB, 6 %, 800.0 MB/s, 24 s left", id="on its way"),
        pytest.param(0, 20 * GB, 0.0, "0.0 of 20.0 GB, 0 %, 0.0 kB/s", id="first moment"),
        pytest.param(20 * GB, 20 * GB, 10.0, "20.0 of 20.0 GB, 100 %, 2.0 GB/s", id="done"),
        pytest.param(3 * GB, 0, 2.0, "3.0 GB, 1.5 GB/s", id="size unknown"),
        pytest.param(0, 0, 0.0, "0.0 kB, 0.0 kB/s", id="nothing known"),
        pytest.param(500, 2000, 1.0, "0.5 of 2.0 kB, 25 %, 0.5 kB/s, 3 s left", id="a small unit"),
    ],
)
def test_says_how_far_how_fast_and_how_long(done: int, total: int, seconds: float, text: str) -> None:
    assert render_progress(done, total, seconds) == text


@pytest.mark.parametrize(
    ("stream", "label", "steps", "shown"),
    [
        pytest.param(Terminal(), "copying", [], "", id="nothing on a terminal for work that reported nothing"),
        pytest.param(io.StringIO(), "copying", [], "", id="nor in a log"),
        pytest.param(
            Terminal(),
            "copying a.sif",
            [(1, GB, 4 * GB), (1, 2 * GB, 4 * GB)],
            "\rcopying a.sif: 1.0 of 4.0 GB, 25 %, 1.0 GB/s, 3 s left\x1b[K"
            "\rcopying a.sif: 2.0 of 4.0 GB, 50 %, 1.0 GB/s, 2 s left\x1b[K\r\x1b[K",
            id="one line on a terminal, drawn again and cleared",
        ),
        pytest.param(
            io.StringIO(),
            "copying",
            [(1, second * GB, 25 * GB) for second in range(1, 26)],
            "copying: 10.0 of 25.0 GB, 40 %, 1.0 GB/s, 15 s left\ncopying: 20.0 of 25.0 GB, 80 %, 1.0 GB/s, 5 s left\n",
            id="a plain line every ten seconds in a log",
        ),
        pytest.param(
            Terminal(),
            "fetching",
            [(0, 10 * GB, 20 * GB), (2, 11 * GB, 20 * GB)],
            "\rfetching: 10.0 of 20.0 GB, 50 %, 0.0 kB/s\x1b[K"
            "\rfetching: 11.0 of 20.0 GB, 55 %, 500.0 MB/s, 18 s left\x1b[K\r\x1b[K",
            id="the rate ignores bytes that existed before",
        ),
        pytest.param(
            io.StringIO(),
            "building",
            [(60, 1, 4 * GB), (11, GB, 4 * GB)],
            "building: 1.0 of 4.0 GB, 25 %, 90.9 MB/s, 33 s left\n",
            id="and in a log the first bytes of later work",
        ),
        pytest.param(
            Terminal(),
            "a\x1b]0;x\x07\u202e\n",
            [(1, 1, 2000)],
            "\ra?]0;x???: 0.0 of 2.0 kB, 0 %, 0.0 kB/s, 1999 s left\x1b[K\r\x1b[K",
            id="names of others are cleaned of control characters",
        ),
    ],
)
def test_shows_progress(
    clock: Clock, stream: io.StringIO, label: str, steps: list[tuple[int, int, int]], shown: str
) -> None:
    with ProgressLine(label, stream) as line:
        for seconds, done, total in steps:
            clock.now += seconds
            line(done, total)
    assert stream.getvalue() == shown


def test_a_complete_line_is_cleared_for_the_next_message(clock: Clock) -> None:
    stream = Terminal()
    with ProgressLine("copying", stream) as line:
        clock.now += 1
        line(10, 10)
        assert stream.getvalue().endswith("\r\x1b[K")


def test_an_error_also_clears_the_line_and_is_raised() -> None:
    stream = Terminal()
    with pytest.raises(ValueError, match="bad"), ProgressLine("copying", stream) as line:
        line(1, 2)
        raise ValueError("bad")
    assert stream.getvalue().endswith("\r\x1b[K")


def test_talk_goes_to_stderr_so_that_stdout_stays_data(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    with ProgressLine("copying") as line:
        line(0, 2 * GB)
        clock.now += 11
        line(GB, 2 * GB)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("copying: 1.0 of 2.0 GB")


def test_progress_comes_seldom_but_always_at_the_end() -> None:
    told: list[tuple[int, int]] = []
    ticker = Ticker(lambda done, total: told.append((done, total)), 1000)
    for done in range(1, 1001):
        ticker.tick(done)
    assert told[0] == (1, 1000)
    assert told[-1] == (1000, 1000)
    assert len(told) < 10


def test_bytes_of_all_blobs_are_added_up_and_one_that_is_fetched_again_counts_from_its_start() -> None:
    told: list[tuple[int, int]] = []
    tally = Tally("an image", {"a": 100, "b": 200, "c": 0}, progress=lambda *both: told.append(both))
    tally.set("a", 45)
    assert told == [(45, 300)]
    for digest, done in (("b", 200), ("a", 0), ("a", 100)):
        tally.set(digest, done)
    assert told[-1] == (300, 300)
