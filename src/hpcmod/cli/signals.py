"""The end that a batch system or a closed terminal asks for: as after Ctrl-C, nothing is left running or half-made."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def terminate_cleanly() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as an exception does; the exit status is 128 and the signal's number.

    One that is ignored, as by `nohup`, stays so. After the first no other is heard: tidying up comes to its end.
    """
    heard = [one for one in _ENDING if signal.getsignal(one) is signal.SIG_DFL]

    def end(number: int, _: FrameType | None) -> NoReturn:
        for one in heard:
            signal.signal(one, lambda *_: None)  # not SIG_IGN, which programs that tidy up would inherit
        raise SystemExit(128 + number)

    for one in heard:
        signal.signal(one, end)
    try:
        yield
    finally:
        for one in heard:
            signal.signal(one, signal.SIG_DFL)
