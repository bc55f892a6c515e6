"""Download an image's blobs into the cache, several at once, and read each while it is still arriving."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import BinaryIO

from hpcmod.core.errors import FULL, VerificationError
from hpcmod.core.fs.checksums import BLOCK, hash_range
from hpcmod.core.fs.copying import write_all_at
from hpcmod.core.log import Logger
from hpcmod.core.progress import Tally
from hpcmod.images.blobs.arrival import Arrival, open_cached, open_growing
from hpcmod.images.blobs.blob import Ask, Pull, Stopped
from hpcmod.images.cache import Cache
from hpcmod.images.oci.image import verified
from hpcmod.images.values.oci import OciDescriptor

_LOG = Logger(__name__)

_AT_ONCE = 4  # connections: the usual limit of registries and browsers
_PATIENCE = 2.0  # seconds to wait for the threads to stop; the rest end with the process


class Downloads:
    """Downloads blobs into a cache ahead of their reader; a context manager that stops all threads on exit.

    An error in one stops all: an image is useless without all of its layers.
    """

    def __init__(
        self,
        cache: Cache,
        ask: Ask,
        *,
        blobs: Sequence[OciDescriptor],
        tally: Tally,
        tell: Callable[[str], None],
    ) -> None:
        self._cache = cache
        self._ask = ask
        self._tally = tally
        self._tell = tell
        self._arrivals = {blob.digest: Arrival(blob) for blob in blobs}
        self._waiting = deque(self._arrivals.values())
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._working = 0

    def __enter__(self) -> Downloads:
        return self

    def __exit__(self, *_: object) -> None:
        self._end(Stopped(self._tally.what))
        for arrival in self._arrivals.values():
            arrival.await_disk()
        until = time.monotonic() + _PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def open(self, blob: OciDescriptor) -> BinaryIO:
        """Open a blob for reading immediately; its end is returned only after the blob is verified.

        Raises HpcmodError as `Pull.run`, here or while reading.
        """
        arrival = self._arrivals[blob.digest]
        while True:
            self._start(arrival)
            with arrival.changed:
                arrival.changed.wait_for(lambda: arrival.settled() or arrival.file is not None)
                arrival.check()
                if arrival.file is not None:
                    return self._guard(blob, arrival.file, open_growing(arrival, os.dup(arrival.file)))
                try:
                    return open_cached(self._cache, blob)
                except FileNotFoundError:  # the cache was cleared meanwhile
                    arrival.whole = False
            with self._lock:
                self._waiting.append(arrival)

    def _guard(self, blob: OciDescriptor, file: int, stream: BinaryIO) -> BinaryIO:
        """Verify the blob again on reading if other users may write the file."""
        if not self._cache.others_may_change(file):
            return stream
        return verified(stream, digest=blob.digest, size=blob.size, what=blob.digest)

    def wait(self, blob: OciDescriptor) -> None:
        """Wait until a blob is in the cache, complete and verified.

        Raises HpcmodError as `Pull.run`.
        """
        arrival = self._arrivals[blob.digest]
        self._start(arrival)
        with arrival.changed:
            arrival.changed.wait_for(arrival.settled)
        arrival.await_disk()
        arrival.check()

    def _start(self, first: Arrival) -> None:
        """Start threads for the waiting blobs, beginning with the blob that is read now."""
        with self._lock:
            if first in self._waiting:
                self._waiting.remove(first)
                self._waiting.appendleft(first)
            wanted = min(_AT_ONCE - self._working, len(self._waiting))
            started = [threading.Thread(target=self._work, daemon=True) for _ in range(wanted)]
            self._working += wanted
            self._threads += started
        for thread in started:
            thread.start()

    def _work(self) -> None:
        """Fetch blobs until none is left."""
        while True:
            with self._lock:
                if self._stop.is_set() or not self._waiting:
                    self._working -= 1
                    return
                arrival = self._waiting.popleft()
            try:
                self._fetch(arrival)
            except BaseException as err:  # the reader raises it
                arrival.set(error=arrival.error or err, file=None)
                self._end(err)

    def _end(self, reason: BaseException) -> None:
        """Stop all threads; readers of incomplete blobs raise the first reason."""
        for arrival in self._arrivals.values():
            with arrival.changed:
                if not arrival.settled():
                    arrival.set(error=reason)
        self._stop.set()

    def _fetch(self, arrival: Arrival) -> None:
        blob = arrival.blob
        _LOG.debug("blob %s of %d bytes", blob.digest, blob.size)
        if not self._cache.find(blob.digest, blob.size):
            with self._cache.lock(blob.digest, tell=self._tell, on_wait=partial(self._watch, blob)):
                if not self._cache.find(blob.digest, blob.size):  # another process may have fetched it meanwhile
                    self._fill(arrival)
        self._tally.set(blob.digest, blob.size)
        arrival.set(whole=True, done=blob.size)

    def _watch(self, blob: OciDescriptor) -> None:
        """Show the progress of the other process that is fetching this blob."""
        if self._stop.is_set():
            raise Stopped(blob.digest)
        with contextlib.suppress(OSError):
            self._tally.set(blob.digest, self._cache.size_of_partial(blob.digest))

    def _fill(self, arrival: Arrival) -> None:
        """Download the missing bytes of a blob and give the file its final name."""
        digest = arrival.blob.digest
        file = self._cache.open_partial(digest)
        try:
            self._pull(arrival, file)
            os.fsync(file)
            self._cache.keep(digest, file)
        except VerificationError:
            self._cache.discard_partial(digest)
            raise
        except OSError as err:
            if err.errno in FULL:  # free the space rather than keep half a blob
                self._cache.discard_partial(digest)
            raise self._cache.fault(err) from err
        finally:
            with arrival.changed:
                arrival.set(file=None)
                os.close(file)

    def _pull(self, arrival: Arrival, file: int) -> None:
        have, sha256 = self._left_over(arrival, file)
        where = f"{self._tally.what}: {arrival.blob.digest}"
        sink = partial(self._take, arrival, file)
        pull = Pull(arrival.blob, ask=self._ask, where=where, sink=sink, stop=self._stop, tell=self._tell)
        pull.resume(have, sha256)
        _LOG.debug("fetching %s from byte %d", arrival.blob.digest, have)
        arrival.set(file=file, done=have)
        try:
            pull.run()
        except VerificationError:
            if not have:
                raise
            os.ftruncate(file, 0)  # the partial download may be the cause
            arrival.set(done=0, generation=arrival.generation + 1)
            self._pull(arrival, file)
            return
        arrival.set(whole=True)  # readers need not wait for fsync

    def _left_over(self, arrival: Arrival, file: int) -> tuple[int, hashlib._Hash]:
        """Return the number of bytes left by an earlier download, and their hash."""
        have, sha256 = os.fstat(file).st_size, hashlib.sha256()
        if have > arrival.blob.size:
            os.ftruncate(file, 0)
            have = 0
        hash_range(sha256, file, 0, have, bytearray(BLOCK))
        self._tally.set(arrival.blob.digest, have)
        return have, sha256

    def _take(self, arrival: Arrival, file: int, chunk: bytes) -> None:
        write_all_at(file, memoryview(chunk), arrival.done)
        arrival.set(done=arrival.done + len(chunk))
        self._tally.set(arrival.blob.digest, arrival.done)
