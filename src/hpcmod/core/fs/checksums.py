"""Compute and check sha256 sums of streams and files."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from hpcmod.core.errors import BadInputError, VerificationError
from hpcmod.core.fs.reading import open_input, read_start
from hpcmod.core.progress import Progress, Ticker
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.facts import PROVENANCE

BLOCK = 1 << 20
"""Bytes per read: large enough that hashing mostly runs without the GIL, small enough for a CPU's cache."""

_SHA256 = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})")


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


def check_sha256(subject: object, *, expected: str | None, found: str, cure: str = "") -> None:
    """Check a sha256 against the expected one; None accepts any.

    `subject` is the file or address of the bytes, for the message; `cure` what helps, if that is known better here.

    Raises VerificationError if they differ.
    """
    if expected is None or parse_sha256(expected) == found:
        return
    kept = f"{subject}{PROVENANCE}"
    by_fetch = parse_sha256(expected) in read_start(kept, BLOCK)
    update = f"e.g. signed, remove the record of its fetch: rm {sh_word(kept)}" if by_fetch else "update `checksums`."
    raise VerificationError(
        f"{subject}: sha256 is {found}, expected {parse_sha256(expected)}{f' as in {kept}' if by_fetch else ''}",
        cure or f"The file is damaged or a different one. Download it again; if it has changed on purpose, {update}",
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
    with open_input(Path(path)) as file:
        ticker = Ticker(progress, os.fstat(file.fileno()).st_size)
        sha256 = hashlib.sha256()
        buffer = bytearray(BLOCK)
        done = 0
        while count := hash_range(sha256, file.fileno(), done, BLOCK, buffer):
            done += count
            ticker.tick(done)
    return sha256.hexdigest()
