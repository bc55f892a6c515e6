from __future__ import annotations

import io

import pytest

from hpcmod.core import progress
from hpcmod.core.progress import ProgressLine, render_progress
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


def test_redraws_one_line_on_a_terminal_and_clears_it(clock: Clock) -> None:
    stream = Terminal()
    with ProgressLine("copying a.sif", stream) as line:
        clock.now += 1
        line(GB, 4 * GB)
        clock.now += 1
        line(2 * GB, 4 * GB)
    assert stream.getvalue().split("\r") == [
        "",
        "copying a.sif: 1.0 of 4.0 GB, 25 %, 1.0 GB/s, 3 s left\x1b[K",
        "copying a.sif: 2.0 of 4.0 GB, 50 %, 1.0 GB/s, 2 s left\x1b[K",
        "\x1b[K",
    ]


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()], ids=["terminal", "log"])
def test_prints_nothing_for_work_that_never_reported_progress(stream: io.StringIO) -> None:
    with ProgressLine("copying", stream):
        pass
    assert stream.getvalue() == ""


def test_a_log_gets_a_plain_line_every_ten_seconds_and_none_of_short_work(clock: Clock) -> None:
    stream = io.StringIO()
    with ProgressLine("copying", stream) as line:
        for second in range(1, 26):
            clock.now += 1
            line(second * GB, 25 * GB)
    assert stream.getvalue().splitlines() == [
        "copying: 10.0 of 25.0 GB, 40 %, 1.0 GB/s, 15 s left",
        "copying: 20.0 of 25.0 GB, 80 %, 1.0 GB/s, 5 s left",
    ]


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


def test_the_rate_ignores_bytes_that_existed_before(clock: Clock) -> None:
    stream = Terminal()
    with ProgressLine("fetching", stream) as line:
        line(10 * GB, 20 * GB)
        clock.now += 2
        line(11 * GB, 20 * GB)
    assert "11.0 of 20.0 GB, 55 %, 500.0 MB/s, 18 s left" in stream.getvalue()


def test_the_rate_in_a_log_ignores_the_first_bytes_of_later_work(clock: Clock) -> None:
    stream = io.StringIO()
    with ProgressLine("building", stream) as line:
        clock.now += 60
        line(1, 4 * GB)
        clock.now += 11
        line(GB, 4 * GB)
    assert stream.getvalue() == "building: 1.0 of 4.0 GB, 25 %, 90.9 MB/s, 33 s left\n"


def test_a_complete_line_is_cleared_for_the_next_message(clock: Clock) -> None:
    stream = Terminal()
    with ProgressLine("copying", stream) as line:
        clock.now += 1
        line(10, 10)
        assert stream.getvalue().endswith("\r\x1b[K")


def test_names_of_others_are_cleaned_of_control_characters(clock: Clock) -> None:
    stream = Terminal()
    with ProgressLine("a\x1b]0;x\x07\u202e\n", stream) as line:
        clock.now += 1
        line(1, 2)
    shown = stream.getvalue().replace("\x1b[K", "")
    assert "a?]0;x???: " in shown
    assert not set("\x1b\x07\n") & set(shown)
