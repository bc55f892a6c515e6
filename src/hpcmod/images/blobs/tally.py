"""Add up the bytes of several concurrent downloads for one progress line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from hpcmod.images.integrity import Progress, Ticker


class Tally:
    """The progress of each blob, updated by the fetching threads and shown as one total."""

    def __init__(
        self,
        what: str,
        sizes: Mapping[str, int],
        *,
        progress: Progress | None = None,
        detail: Callable[[str], None] | None = None,
    ) -> None:
        self.what = what
        """The image's name, for messages."""
        self._sizes = dict(sizes)
        self._done = dict.fromkeys(sizes, 0)
        self._sum = 0
        self._progress = progress
        self._detail = detail
        self._ticker = Ticker(self._show, sum(sizes.values()))
        self._lock = threading.Lock()

    def set(self, digest: str, done: int) -> None:
        """Set the number of bytes of a blob that have arrived."""
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
        """Describe the progress of each blob, e.g. `2 of 6 complete; 3f1ac2 45 %, 09bb10 3 %`."""
        whole = sum(done == self._sizes[digest] for digest, done in self._done.items())
        moving = [
            f"{digest[7:13]} {100 * done // self._sizes[digest]} %"
            for digest, done in self._done.items()
            if 0 < done < self._sizes[digest]
        ]
        return f"{whole} of {len(self._sizes)} complete" + (f"; {', '.join(moving)}" if moving else "")
