"""An event queue, and servers that divide their capacity among their customers.

Processes are generators that yield the events they wait for. simpy has such processes too, but no server with this kind
of sharing, and it would be one more dependency of the tests.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Generator
from itertools import count

Process = Generator["Event", None, None]


class Event:
    """Something that happens once, and that processes can wait for."""

    def __init__(self) -> None:
        self.happened = False
        self.then: list[Callable[[], None]] = []

    def happen(self) -> None:
        """Resume all processes that wait for this."""
        self.happened = True
        for continue_process in self.then:
            continue_process()
        self.then.clear()


class Clock:
    """Runs processes in the order of their events; times are in seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()

    def at(self, time: float, do: Callable[[], None]) -> None:
        """Call a function at the given time, or now if that has passed."""
        heapq.heappush(self._due, (max(time, self.now), next(self._number), do))

    def after(self, seconds: float) -> Event:
        """Return an event that happens after some time."""
        event = Event()
        self.at(self.now + seconds, event.happen)
        return event

    def start(self, process: Process) -> Event:
        """Start a process now; return the event of its end."""
        end = Event()

        def advance() -> None:
            for event in process:
                if not event.happened:
                    event.then.append(advance)
                    return
            end.happen()

        self.at(self.now, advance)
        return end

    def run(self) -> float:
        """Run until no events are left; return the time of the last event."""
        while self._due:
            self.now, _, do = heapq.heappop(self._due)
            do()
        return self.now


class Server:
    """Divides its capacity equally among its customers, up to a limit for each: cores, a disk, a network link."""

    def __init__(self, clock: Clock, capacity: float, limit: float = float("inf")) -> None:
        """Create a server.

        Parameters
        ----------
        capacity, limit
            Units per second.
        """
        self._clock, self._capacity, self._limit = clock, capacity, limit
        self._served = 0.0
        """Units that a customer present from the beginning would have received."""
        self._since = 0.0
        self._customers: list[tuple[float, int, Event, int]] = []
        self._waiting = 0
        self._number = count()
        self._next = 0.0
        """Time at which the next customer leaves, if no other arrives."""

    def use(self, units: float, customers: int = 1) -> Event:
        """Return the event of having received some units each, for customers that arrive together."""
        event = Event()
        if units <= 0 or math.isinf(min(self._limit, self._capacity)):
            event.happen()
            return event
        self._advance()
        heapq.heappush(self._customers, (self._served + units, next(self._number), event, customers))
        self._waiting += customers
        self._plan()
        return event

    def _share(self) -> float:
        return min(self._limit, self._capacity / self._waiting)

    def _advance(self) -> None:
        if self._customers:
            self._served += (self._clock.now - self._since) * self._share()
        self._since = self._clock.now

    def _plan(self) -> None:
        self._next = self._clock.now + max(self._customers[0][0] - self._served, 0.0) / self._share()
        self._clock.at(self._next, self._leave)

    def _leave(self) -> None:
        if self._clock.now != self._next or not self._customers:  # planned before another customer arrived
            return
        self._advance()
        self._served = max(self._served, self._customers[0][0])  # despite rounding
        left = []
        while self._customers and self._customers[0][0] <= self._served * (1 + 1e-12):
            _, _, event, customers = heapq.heappop(self._customers)
            self._waiting -= customers
            left.append(event)
        if self._customers:
            self._plan()
        for event in left:
            event.happen()
