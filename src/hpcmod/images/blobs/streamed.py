"""Stream a blob directly from a registry without using the disk; a thread fetches slightly ahead of the reader."""

from __future__ import annotations

import io
import queue
import threading
from collections.abc import Callable
from typing import BinaryIO

from hpcmod.core.fs.checksums import BLOCK
from hpcmod.images.blobs.blob import Ask, Pull, Stopped
from hpcmod.images.values.oci import OciDescriptor

_AHEAD = 128  # chunks, 16 MiB
_POLL = 0.1  # seconds between checks that the stream is still open


def open_stream(
    blob: OciDescriptor, *, ask: Ask, what: str, tell: Callable[[str], None], count: Callable[[int], None]
) -> BinaryIO:
    """Open a blob for reading; resumes after a broken connection, and returns the end only once verified.

    `what` is the image's name in messages; `count` is called with the number of bytes received.

    Raises HpcmodError as `Pull.run`, while it is read.
    """
    return io.BufferedReader(_Streamed(blob, ask=ask, what=what, tell=tell, count=count), BLOCK)


class _Streamed(io.RawIOBase):
    """A queue of chunks between the fetching thread and the reader."""

    def __init__(
        self, blob: OciDescriptor, *, ask: Ask, what: str, tell: Callable[[str], None], count: Callable[[int], None]
    ) -> None:
        super().__init__()
        self._chunks: queue.Queue[bytes | BaseException | None] = queue.Queue(_AHEAD)
        self._stop = threading.Event()
        self._here = memoryview(b"")
        self._taken = 0
        self._ended = False
        self._count = count
        where = f"{what}: {blob.digest}"
        self._blob = blob
        self._pull = Pull(blob, ask=ask, where=where, sink=self._put, stop=self._stop, tell=tell)
        threading.Thread(target=self._work, daemon=True).start()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # typeshed's WriteableBuffer
        while not self._here and not self._ended:
            self._next()
        count = min(len(buffer), len(self._here))
        memoryview(buffer)[:count] = self._here[:count]
        self._here = self._here[count:]
        return count

    def close(self) -> None:
        self._stop.set()
        super().close()

    def _next(self) -> None:
        """Get the next chunk; the last chunk is returned only after the blob is verified."""
        chunk = self._take()
        self._here = memoryview(chunk)
        self._taken += len(chunk)
        if chunk and self._taken >= self._blob.size:
            self._take()

    def _take(self) -> bytes:
        found = self._chunks.get()
        if isinstance(found, BaseException):
            self._chunks.put(found)  # for later reads
            raise found
        self._ended = found is None
        return found or b""

    def _work(self) -> None:
        last: BaseException | None = None
        try:
            self._pull.run()
        except BaseException as err:  # the reader raises it
            last = err
        while not self._stop.is_set():
            try:
                self._chunks.put(last, timeout=_POLL)
            except queue.Full:
                continue
            return

    def _put(self, chunk: bytes) -> None:
        while not self._stop.is_set():
            try:
                self._chunks.put(chunk, timeout=_POLL)
            except queue.Full:
                continue
            self._count(self._pull.done + len(chunk))
            return
        raise Stopped(self._blob.digest)
