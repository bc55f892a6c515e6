"""Count the bytes of several blobs that arrive at once, for one line of progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from hpcmod.image.integrity import Progress, Ticker


class Tally:
    """How far each blob is; told by the threads that fetch, shown as one."""

    def __init__(
        self,
        what: str,
        sizes: Mapping[str, int],
        *,
        progress: Progress | None = None,
        detail: Callable[[str], None] | None = None,
    ) -> None:
        self.what = what
        """What is fetched, for messages."""
        self._sizes = dict(sizes)
        self._done = dict.fromkeys(sizes, 0)
        self._sum = 0
        self._progress = progress
        self._detail = detail
        self._ticker = Ticker(self._show, sum(sizes.values()))
        self._lock = threading.Lock()

    def set(self, digest: str, done: int) -> None:
        """Tell how many bytes of a blob are there."""
        with self._lock:
            self._sum += done - self._done[digest]
            self._done[digest] = done
            self._ticker.tick(self._sum)

    def _show(self, done: int, total: int) -> None:
        if self._detail is not None:
            self._detail(self.describe())
        if self._progress is not None:
            self._progress(done, total)

    def describe(self) -> str:
        """Describe the blobs one by one, e.g. `2 of 6 whole; 3f1ac2 45 %, 09bb10 3 %`."""
        whole = sum(done == self._sizes[digest] for digest, done in self._done.items())
        moving = [
            f"{digest[7:13]} {100 * done // self._sizes[digest]} %"
            for digest, done in self._done.items()
            if 0 < done < self._sizes[digest]
        ]
        return f"{whole} of {len(self._sizes)} whole" + (f"; {', '.join(moving)}" if moving else "")
