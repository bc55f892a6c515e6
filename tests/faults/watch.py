"""Describe the files before each call of a run that writes, to find calls before which nothing has changed.

A process that is killed before such a call leaves what it leaves if it is killed before its previous call.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

Call = tuple[str, int]
"""A place, and the number of the call at this place."""


@dataclass(frozen=True)
class Visit:
    """A call, just before it is made."""

    process: int
    call: Call
    state: str


@contextlib.contextmanager
def watching(describe: Callable[[], str]) -> Iterator[tuple[str, list[Visit]]]:
    """Let programs with the preloaded library pause before each call.

    Yields
    ------
    name
        Value of `FAULT_WATCH` for the programs.
    visits
        Their calls in order, with what `describe` returned before each; complete when the programs have ended.
    """
    name, visits = f"hpcmod-fault-{os.getpid()}-{next(_numbers)}", list[Visit]()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0{name}")
        listener.listen(64)
        thread = threading.Thread(target=_answer, args=(listener, describe, visits), daemon=True)
        thread.start()
        try:
            yield name, visits
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


_numbers = itertools.count()


def _answer(listener: socket.socket, describe: Callable[[], str], visits: list[Visit]) -> None:
    """Describe the files whenever a program is about to make a call, and let it continue."""
    while True:
        try:
            calling, _ = listener.accept()
        except OSError:  # shut down
            return
        with calling:
            place, _, number = calling.recv(64).decode().partition(" ")
            process = struct.unpack("3i", calling.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            try:
                state = describe()
            except OSError:  # another process is changing them
                state = f"unknown {len(visits)}"
            visits.append(Visit(process, (place, int(number)), state))
            calling.send(b".")


def find_alike(visits: Iterable[Visit]) -> dict[Call, Call]:
    """Return for each call before which nothing had changed since its process's previous call, the first such call.

    A call counts only if no other process has made one in between.
    """
    alike: dict[Call, Call] = {}
    known: set[Call] = set()
    for before, visit in itertools.pairwise((Visit(0, ("", 0), ""), *visits)):
        same = (before.process, before.state) == (visit.process, visit.state)
        if same and visit.call not in known and before.call != visit.call:
            alike[visit.call] = alike.get(before.call, before.call)
        known.add(visit.call)
    return alike
