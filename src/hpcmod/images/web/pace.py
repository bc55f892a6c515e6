"""Abort requests to servers that answer too slowly."""

from __future__ import annotations

import contextlib
import math
import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


def call_within(seconds: float, function: Callable[[], _Result]) -> _Result:
    """Call a function and return its result, or raise its exception.

    Raises TimeoutError if it takes longer than `seconds`; it keeps running in its thread.
    """
    ended: queue.Queue[tuple[list[_Result], BaseException | None]] = queue.Queue()

    def run() -> None:
        try:
            ended.put(([function()], None))
        except BaseException as err:  # the caller raises it
            ended.put(([], err))

    threading.Thread(target=run, name="request", daemon=True).start()
    try:
        result, fault = ended.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no result within {seconds:.0f} s") from None
    if fault is not None:
        raise fault
    return result[0]


class Watchdog:
    """Shuts down a connection that has received nothing for a while, so that its reader stops waiting.

    `seconds` is the longest time between calls of `feed`; the owner of the socket `descriptor` closes it.
    """

    def __init__(self, descriptor: int, seconds: float) -> None:
        self._socket = socket.socket(fileno=os.dup(descriptor))
        self._seconds = seconds
        self._fed = time.monotonic()
        self._ended = threading.Event()
        self.has_bitten = False
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._socket.close()

    def rest(self) -> None:
        """Pause until the next `feed`."""
        self._fed = math.inf

    def feed(self) -> None:
        """Restart the timer because bytes have arrived."""
        self._fed = time.monotonic()

    def _watch(self) -> None:
        while not self._ended.wait(min(self._seconds, max(0.01, self._fed + self._seconds - time.monotonic()))):
            if time.monotonic() - self._fed >= self._seconds:
                self.has_bitten = True
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
                return
