"""One line of progress on a terminal, and a few plain lines where there is none."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO

_QUIET = 10.0  # seconds between two lines in a log; the first only after as long, so short work says nothing


class ProgressLine:
    """Shows bytes done, rate and time left of one long piece of work; call it with bytes done and bytes in all."""

    def __init__(self, label: str, stream: TextIO | None = None) -> None:
        self._label = label
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._began = self._shown = time.monotonic()
        self._drew = False

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drew and self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def __call__(self, done: int, total: int) -> None:
        """Show how far it is."""
        now = time.monotonic()
        if not self._terminal and now - self._shown < _QUIET:
            return
        self._shown = now
        self._drew = True
        text = f"{self._label}: {render_progress(done, total, now - self._began)}"
        self._stream.write(f"\r{text}\x1b[K" if self._terminal else f"{text}\n")
        self._stream.flush()


def render_progress(done: int, total: int, seconds: float) -> str:
    """Render bytes done of bytes in all after so many seconds, e.g. `1.2 of 20.1 GB, 6 %, 0.8 GB/s, 24 s left`."""
    rate = done / seconds if seconds > 0 else 0.0
    left = f", {(total - done) / rate:.0f} s left" if rate and total else ""
    share = f" of {total / 1e9:.1f} GB, {100 * done / total:.0f} %" if total else " GB"
    return f"{done / 1e9:.1f}{share}, {rate / 1e9:.1f} GB/s{left}"
