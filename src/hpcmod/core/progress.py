"""One line of progress on a terminal, a few plain lines elsewhere; and what limits how often progress is reported."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TextIO

from hpcmod.core.log import QUIET
from hpcmod.core.values.text import terminal_line

Progress = Callable[[int, int], None]
"""Called with the bytes done and the total (0 if unknown)."""

_UNITS = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6))
_TICK = 0.1  # seconds
_SELDOM = 10.0  # seconds between two lines in a log; also before the first, so short work prints nothing


class ProgressLine:
    """Shows bytes done, rate and time left of one long task; call it with bytes done and total bytes."""

    def __init__(self, label: str, stream: TextIO | None = None) -> None:
        self._label = label
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._began = self._shown = time.monotonic()
        self._drew = False
        self._before = -1

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drew and self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def __call__(self, done: int, total: int) -> None:
        """Show the progress; the rate counts from the first call, because some bytes may have been there before."""
        now, began, before = time.monotonic(), self._began, self._before
        if before < 0:
            self._began, self._before = now, done
            if now - began >= _SELDOM:  # other work came first, and this task has only begun
                self._shown = now
        if QUIET in os.environ or (not self._terminal and now - self._shown < _SELDOM):
            return
        self._shown = now
        self._drew = True
        text = f"{terminal_line(self._label)}: {render_progress(done, total, now - began, before=max(0, before))}"
        width = shutil.get_terminal_size().columns - 1
        ended = self._terminal and 0 < total <= done  # the next message begins on a clean line
        self._stream.write(f"\r{text[:width]}\x1b[K" if self._terminal else f"{text}\n")
        self._stream.write("\r\x1b[K" if ended else "")
        self._drew = not ended
        self._stream.flush()


class Ticker:
    """Report progress at most ten times a second, and always at the end."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._due = 0.0

    def tick(self, done: int) -> None:
        """Report `done` as the number of finished bytes, unless the last report was too recent."""
        if self._progress is None:
            return
        now = time.monotonic()
        if now >= self._due or done == self._total:
            self._due = now + _TICK
            self._progress(done, self._total)


class Tally:
    """The bytes of each blob, updated by the fetching threads and shown as one total."""

    def __init__(self, what: str, sizes: Mapping[str, int], progress: Progress | None = None) -> None:
        self.what = what
        """The image's name, for messages."""
        self._done = dict.fromkeys(sizes, 0)
        self._sum = 0
        self._ticker = Ticker(progress, sum(sizes.values()))
        self._lock = threading.Lock()

    def set(self, digest: str, done: int) -> None:
        """Set the number of bytes of a blob that have arrived."""
        with self._lock:
            self._sum += done - self._done[digest]
            self._done[digest] = done
            self._ticker.tick(self._sum)


def render_progress(done: int, total: int, seconds: float, *, before: int = 0) -> str:
    """Return the progress after some seconds, e.g. `1.2 of 20.1 GB, 6 %, 812.0 MB/s, 24 s left`.

    `before` is the number of bytes done before those seconds began.
    """
    rate = max(0, done - before) / seconds if seconds > 0 else 0.0
    left = f", {(total - done) / rate:.0f} s left" if rate and total > done else ""
    unit, factor = _unit(total or done)
    share = f" of {total / factor:.1f} {unit}, {100 * done / total:.0f} %" if total else f" {unit}"
    speed_unit, speed_factor = _unit(rate)
    return f"{done / factor:.1f}{share}, {rate / speed_factor:.1f} {speed_unit}/s{left}"


def _unit(size: float) -> tuple[str, int]:
    """Return the unit that suits a number of bytes, and its size in bytes."""
    return next(((unit, factor) for unit, factor in _UNITS if size >= factor), ("kB", 1000))
