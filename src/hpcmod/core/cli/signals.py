"""Clean up when a batch system or a closed terminal ends the program, as after Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def terminate_cleanly() -> Iterator[None]:
    """Make SIGTERM and SIGHUP end the block with SystemExit; the exit status is 128 plus the signal number.

    Signals that are ignored, as under `nohup`, stay ignored. After the first signal, further ones are ignored until the
    cleanup is done.
    """
    caught = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]

    def end(received: int, _: FrameType | None) -> NoReturn:
        for number in caught:
            signal.signal(number, lambda *_: None)  # not SIG_IGN, which child processes would inherit
        raise SystemExit(128 + received)

    for number in caught:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)
