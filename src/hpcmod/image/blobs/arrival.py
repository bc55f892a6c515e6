"""A blob on its way into the cache, as its one writer and its readers share it, and how it is read."""

from __future__ import annotations

import io
import os
import threading
from typing import BinaryIO

from hpcmod.errors import VerificationError
from hpcmod.image.cache import Cache
from hpcmod.image.integrity import BLOCK
from hpcmod.image.oci_image import verified
from hpcmod.model.oci import OciDescriptor


class Arrival:
    """A blob on its way into the cache, as its one writer and its readers share it."""

    def __init__(self, blob: OciDescriptor) -> None:
        self.blob = blob
        self.changed = threading.Condition()
        self.file: int | None = None
        """Descriptor of the growing file, while it is written."""
        self.done = 0
        self.generation = 0
        """Goes up when what was there proved wrong, and is written anew."""
        self.whole = False
        """Whether all of it is there and verified."""
        self.error: BaseException | None = None

    def set(self, **values: object) -> None:
        """Change what the readers wait for."""
        with self.changed:
            vars(self).update(values)
            self.changed.notify_all()

    def settled(self) -> bool:
        """Return whether nothing more will change."""
        return self.whole or self.error is not None

    def await_disk(self) -> None:
        """Wait until a blob that is whole has its name in the cache, if it is on its way there."""
        with self.changed:
            self.changed.wait_for(lambda: not self.whole or self.file is None)

    def check(self) -> None:
        """Raise what went wrong."""
        if self.error is not None:
            raise self.error


def open_growing(arrival: Arrival, file: int) -> BinaryIO:
    """Read a blob that is still being written, from an open file that is closed with the stream.

    Its last byte is handed out when its writer has verified all; what went wrong there is raised here.
    """
    return io.BufferedReader(_Growing(arrival, file), BLOCK)


def open_cached(cache: Cache, blob: OciDescriptor) -> BinaryIO:
    """Read a blob of the cache and verify it; one that proves damaged is removed.

    Raises
    ------
    FileNotFoundError
        If it is not there any more.
    VerificationError
        Before its last byte is handed out, if it is damaged.
    LackingError
        If it cannot be read.
    """
    return io.BufferedReader(_Cached(cache, blob), BLOCK)


class _Growing(io.RawIOBase):
    """Reads a blob that is still being written; its last byte is handed out when its writer has verified all."""

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
        if wanted and not count:  # it was cut meanwhile: no end, which is what 0 would mean
            raise self._damaged()
        self._place += count
        return count

    def _wait(self) -> int:
        """Wait until there is more to read, and give up to where; at the end, until it is verified."""
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
            f"{digest}: what an earlier fetch had left of it was damaged", "Run this again: it is removed."
        )

    def close(self) -> None:
        if not self.closed:
            os.close(self._file)
        super().close()


class _Cached(io.RawIOBase):
    """Reads a blob of the cache, and verifies it; one that proves damaged is removed."""

    def __init__(self, cache: Cache, blob: OciDescriptor) -> None:
        self._cache = cache
        self._blob = blob
        self._stream = verified(cache.open(blob.digest), digest=blob.digest, size=blob.size, what=blob.digest)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # typeshed's WriteableBuffer
        try:
            data = self._stream.read(len(buffer))
        except OSError as err:
            raise self._cache.fault(err) from err
        except VerificationError as err:
            self._cache.discard(self._blob.digest)
            raise VerificationError(
                f"{self._cache.directory}: {self._blob.digest} is damaged, and is removed",
                "Run this again: it is fetched anew.",
            ) from err
        memoryview(buffer)[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()
