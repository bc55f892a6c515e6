"""Compute and check sha256 sums of streams and files, and limit how often progress is reported."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from hpcmod.core.errors import BadInputError, VerificationError
from hpcmod.core.progress import Progress
from hpcmod.images.sif.reader import open_sif

BLOCK = 1 << 20
"""Bytes per read: large enough that hashing mostly runs without the GIL, small enough for a CPU's cache."""

_TICK = 0.1
_SHA256 = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})")


class Ticker:
    """Report progress at most ten times a second, and always at the end."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._due = 0.0

    def tick(self, done: int) -> None:
        """Report `done` as the number of finished bytes, unless the last report was too recent."""
        if self._progress is None:
            return
        now = time.monotonic()
        if now >= self._due or done == self._total:
            self._due = now + _TICK
            self._progress(done, self._total)


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


def parse_sha256(text: str) -> str:
    """Normalize a sha256, with or without the prefix `sha256:`, to 64 lower-case hexadecimal digits.

    Raises BadInputError if it is not a valid sha256.
    """
    match = _SHA256.fullmatch(text.strip())
    if match is None:
        raise BadInputError(
            f"checksum {text!r}: not a sha256, expected 64 hexadecimal digits, found {len(text.strip())} characters",
            "Use the output of `sha256sum FILE`.",
        )
    return match.group(1).lower()


def check_sha256(subject: object, *, expected: str | None, found: str) -> None:
    """Check a sha256 against the expected one; None accepts any.

    `subject` is the file or address of the bytes, for the message.

    Raises VerificationError if they differ.
    """
    if expected is None or parse_sha256(expected) == found:
        return
    raise VerificationError(
        f"{subject}: sha256 is {found}, expected {parse_sha256(expected)}",
        "The file is damaged or a different one. Download it again; if it has changed on purpose, update `checksums`.",
    )


def hash_range(hasher: hashlib._Hash, fd: int, start: int, length: int, buffer: bytearray) -> int:
    """Feed a range of an open file to a hash, through one reused buffer.

    Returns
    -------
    int
        Bytes hashed: fewer than `length` if the file is shorter.
    """
    view = memoryview(buffer)
    done = 0
    while done < length:
        count = os.preadv(fd, [view[: length - done]], start + done)
        if count == 0:
            break
        hasher.update(view[:count])
        done += count
    return done


def file_sha256(path: Path | str, progress: Progress | None = None) -> str:
    """Return the sha256 of a file.

    Raises NotFoundError if there is no such file.
    """
    with open_sif(Path(path)) as file:
        size = os.fstat(file.fileno()).st_size
        ticker = Ticker(progress, size)
        sha256 = hashlib.sha256()
        buffer = bytearray(BLOCK)
        done = 0
        while count := hash_range(sha256, file.fileno(), done, BLOCK, buffer):
            done += count
            ticker.tick(done)
    return sha256.hexdigest()
