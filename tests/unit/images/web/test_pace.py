from __future__ import annotations

import socket
import threading
import time

import pytest

from hpcmod.images.web.pace import Watchdog, call_within


def test_a_call_that_takes_too_long_is_left_running() -> None:
    ended = threading.Event()
    with pytest.raises(TimeoutError):
        call_within(0.01, ended.wait)
    ended.set()


def test_a_reader_of_a_dead_connection_is_released() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, Watchdog(ours.fileno(), 0.05) as watchdog:
        assert ours.recv(1) == b""
        assert watchdog.has_bitten


def test_a_connection_may_idle_while_no_one_reads() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, Watchdog(ours.fileno(), 60) as watchdog:
        watchdog.rest()
        watchdog.feed()
        time.sleep(0.01)
        theirs.send(b"x")
        assert (ours.recv(1), watchdog.has_bitten) == (b"x", False)
