"""Add up the bytes of several concurrent downloads for one progress line."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from hpcmod.images.integrity import Progress, Ticker


class Tally:
    """The bytes of each blob, updated by the fetching threads and shown as one total."""

    def __init__(self, what: str, sizes: Mapping[str, int], progress: Progress | None = None) -> None:
        self.what = what
        """The image's name, for messages."""
        self._done = dict.fromkeys(sizes, 0)
        self._sum = 0
        self._ticker = Ticker(progress, sum(sizes.values()))
        self._lock = threading.Lock()

    def set(self, digest: str, done: int) -> None:
        """Set the number of bytes of a blob that have arrived."""
        with self._lock:
            self._sum += done - self._done[digest]
            self._done[digest] = done
            self._ticker.tick(self._sum)
