"""A blob that is being written to the cache, shared by its single writer and its readers."""

from __future__ import annotations

import io
import os
import threading
from typing import BinaryIO, cast

from hpcmod.core.errors import VerificationError
from hpcmod.core.fs.checksums import BLOCK
from hpcmod.images.cache import Cache
from hpcmod.images.oci.image import VerifiedStream
from hpcmod.images.values.oci import OciDescriptor


class Arrival:
    """A blob that is being written to the cache, shared by its single writer and its readers."""

    def __init__(self, blob: OciDescriptor) -> None:
        self.blob = blob
        self.changed = threading.Condition()
        self.file: int | None = None
        """Descriptor of the growing file while it is being written."""
        self.done = 0
        self.generation = 0
        """Incremented when the bytes so far were wrong and the blob is rewritten from the start."""
        self.whole = False
        """Whether the blob is complete and verified."""
        self.error: BaseException | None = None

    def set(self, **values: object) -> None:
        """Set attributes and wake the waiting readers."""
        with self.changed:
            vars(self).update(values)
            self.changed.notify_all()

    def settled(self) -> bool:
        """Return whether the blob is complete or has failed."""
        return self.whole or self.error is not None

    def await_disk(self) -> None:
        """Wait until a complete blob that is still being saved has its final name in the cache."""
        with self.changed:
            self.changed.wait_for(lambda: not self.whole or self.file is None)

    def check(self) -> None:
        """Raise the writer's error, if any."""
        if self.error is not None:
            raise self.error


def open_growing(arrival: Arrival, file: int) -> BinaryIO:
    """Open a blob that is still being written, from an open file that is closed with the stream.

    The last byte is returned only after the writer has verified the blob; the writer's error is raised here.
    """
    return io.BufferedReader(_Growing(arrival, file), BLOCK)


def open_cached(cache: Cache, blob: OciDescriptor) -> BinaryIO:
    """Open a cached blob and verify it while it is read; a damaged blob is removed.

    Raises FileNotFoundError if it is no longer in the cache; VerificationError before the last byte is returned, if it
    is damaged; LackingError if it cannot be read.
    """
    return cast(BinaryIO, io.BufferedReader(_Cached(cache, blob), BLOCK))


class _Growing(io.RawIOBase):
    """Reads a blob that is still being written; the last byte is returned after the writer has verified the blob."""

    def __init__(self, arrival: Arrival, file: int) -> None:
        self._arrival = arrival
        self._file = file
        self._place = 0
        self._generation = arrival.generation

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # typeshed's WriteableBuffer
        wanted = memoryview(buffer)[: self._wait() - self._place]
        count = os.preadv(self._file, [wanted], self._place)
        if wanted and not count:  # truncated meanwhile; returning 0 would mean end of file
            raise self._damaged()
        self._place += count
        return count

    def _wait(self) -> int:
        """Wait for more bytes, or for verification at the end; return the offset up to which it can be read."""
        arrival, size = self._arrival, self._arrival.blob.size
        with arrival.changed:
            arrival.changed.wait_for(lambda: arrival.settled() or self._place < min(arrival.done, size - 1))
            if arrival.generation != self._generation and self._place:
                raise self._damaged()
            self._generation = arrival.generation
            arrival.check()
            return size if arrival.whole else min(arrival.done, size - 1)

    def _damaged(self) -> VerificationError:
        digest = self._arrival.blob.digest
        return VerificationError(
            f"{digest}: the partial download was damaged", "Run this again: the damaged file was removed."
        )

    def close(self) -> None:
        if not self.closed:
            os.close(self._file)
        super().close()


class _Cached(VerifiedStream):
    """Reads and verifies a cached blob; a damaged blob is removed."""

    def __init__(self, cache: Cache, blob: OciDescriptor) -> None:
        super().__init__(cache.open(blob.digest), digest=blob.digest, size=blob.size, what=blob.digest)
        self._cache = cache

    def read(self, size: int = -1) -> bytes:
        try:
            return super().read(size)
        except OSError as err:
            raise self._cache.fault(err) from err
        except VerificationError as err:
            self._cache.discard(self._digest)
            raise VerificationError(
                f"{self._cache.directory}: {self._digest} is damaged and was removed",
                "Run this again to download it again.",
            ) from err
