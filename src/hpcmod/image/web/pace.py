"""End requests to servers that answer too slowly to ever finish."""

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
    """A function on its way, in a thread that does not keep the process from ending."""

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
    """Return what a function returns, or raise what it raises.

    Raises
    ------
    TimeoutError
        If it takes longer; it is left running.
    """
    call = _Call(function)
    call.join(seconds)
    if call.fault is not None:
        raise call.fault
    if not call.result:
        raise TimeoutError(f"no result within {seconds:.0f} s")
    return call.result[0]


class Watchdog:
    """Shuts down a connection that was not fed for a while, so that whoever reads from it stops waiting.

    Parameters
    ----------
    descriptor
        Of the socket; it stays its owner's to close.
    seconds
        How long it may go unfed.
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
        """Wait for nothing until the next `feed`."""
        self._fed = math.inf

    def feed(self) -> None:
        """Note that something has arrived."""
        self._fed = time.monotonic()

    def _watch(self) -> None:
        while not self._ended.wait(min(self._seconds, max(0.01, self._fed + self._seconds - time.monotonic()))):
            if time.monotonic() - self._fed >= self._seconds:
                self.has_bitten = True
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
                return
