"""Copy sections from a local SIF, reading and hashing each of its bytes exactly once."""

from __future__ import annotations

import hashlib
import logging
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from hpcmod.errors import BadInputError, VerificationError
from hpcmod.image.known_layers.sections import PackedSection, Section, unpack_section
from hpcmod.image.known_layers.store import KnownSif
from hpcmod.image.layers.merge import Hidden, Record
from hpcmod.image.sif.reader import open_sif
from hpcmod.image.squashfs.writer import SquashfsWriter

_LOG = logging.getLogger(__name__)

_PIECE = 1 << 20
_AHEAD = 8


class SourceChangedError(VerificationError):
    """A local SIF is no longer the file that was indexed."""


class SectionSource:
    """An open local SIF, read once from start to end; close it with `finish` or `close`.

    Raises
    ------
    NotFoundError, BadInputError
        If it cannot be opened.
    """

    def __init__(self, known: KnownSif) -> None:
        self._known = known
        self._file = open_sif(known.path)
        self._sha256 = hashlib.sha256()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="sha256")
        self._pending: deque[Future[None]] = deque()
        self._at = 0
        self.reused: list[str] = []
        """Layers that have been copied."""

    def find(self, layer: str, hidden: Hidden) -> tuple[Section, PackedSection] | None:
        """Return the section of a layer, unpacked and packed, if the SIF has it and it fits under the layers above."""
        places = enumerate(self._known.layers)  # an image may have a layer twice
        number = next((each for each, one in places if one[0] == layer and one[2] >= self._at), None)
        if number is None:
            return None
        try:
            packed = self._known.read(number)
            section = unpack_section(packed)
        except (OSError, BadInputError) as err:
            _LOG.info("section of %s: %s", layer, err)
            return None
        if section.start + section.length > self._known.size or not section.fits(hidden):
            return None
        return section, packed

    def copy(self, section: Section, writer: SquashfsWriter) -> Sequence[Record]:
        """Copy a section into a squashfs; return the layer's entries, whose contents are the copies.

        Raises
        ------
        SourceChangedError
            If the SIF is shorter than it was.
        """
        for _ in self._read_to(section.start):
            pass
        start, first = writer.copy_section(self._read_to(section.start + section.length), section.fragments)
        moved = set()
        for _, found in section.records:
            data = found.data if not isinstance(found, bytes) and found is not None else None
            if data is not None and data not in moved:
                moved.add(data)
                data.start += start if data.start >= 0 else 0
                data.fragment += first if data.is_in_fragment else 0
        self.reused.append(section.layer)
        return section.records

    def finish(self) -> None:
        """Hash the rest of the SIF, and check that it is the file whose index was used.

        Raises
        ------
        SourceChangedError
            If its sha256 has changed.
        """
        for _ in self._read_to(self._known.size):
            pass
        while self._pending:
            self._pending.popleft().result()
        found = self._sha256.hexdigest()
        if found != self._known.sha256:
            raise SourceChangedError(f"{self._known.path}: sha256 is {found}, expected {self._known.sha256}")

    def close(self) -> None:
        """Close the file."""
        self._pool.shutdown(wait=True)
        self._file.close()

    def _read_to(self, end: int) -> Iterator[bytes]:
        """Read up to an offset, and hash what is read."""
        while self._at < end:
            piece = os.pread(self._file.fileno(), min(_PIECE, end - self._at), self._at)
            if not piece:
                raise SourceChangedError(f"{self._known.path}: has only {self._at} bytes, expected {self._known.size}")
            self._at += len(piece)
            self._pending.append(self._pool.submit(self._sha256.update, piece))
            if len(self._pending) > _AHEAD:
                self._pending.popleft().result()
            yield piece
