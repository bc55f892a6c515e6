"""Abort requests to servers that answer too slowly."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Generic, TypeVar

_Result = TypeVar("_Result")


class _Call(threading.Thread, Generic[_Result]):
    """A function call in a daemon thread."""

    def __init__(self, function: Callable[[], _Result]) -> None:
        super().__init__(name="request", daemon=True)
        self._function = function
        self.result: list[_Result] = []
        self.fault: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.result.append(self._function())
        except BaseException as err:
            self.fault = err


def call_within(seconds: float, function: Callable[[], _Result]) -> _Result:
    """Call a function and return its result, or raise its exception.

    Raises TimeoutError if it takes longer than `seconds`; it keeps running in its thread.
    """
    call = _Call(function)
    call.join(seconds)
    if call.fault is not None:
        raise call.fault
    if not call.result:
        raise TimeoutError(f"no result within {seconds:.0f} s")
    return call.result[0]


class Watchdog:
    """Shuts down a connection that has received nothing for a while, so that its reader stops waiting.

    Parameters
    ----------
    descriptor
        File descriptor of the socket; the owner closes it.
    seconds
        Longest time between calls of `feed`.
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

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
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
