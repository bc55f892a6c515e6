"""Copy sections from a local SIF in a thread, in pieces that a second thread writes to disk meanwhile.

The SIF may change while it is copied, so the caller compares the seals of the copies with those in the index.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import BinaryIO

from hpcmod.errors import BadInputError, VerificationError
from hpcmod.image.copy import copy_range
from hpcmod.image.integrity import BLOCK
from hpcmod.image.known_layers.sections import PackedSection, Section, unpack_section
from hpcmod.image.known_layers.store import KnownSif
from hpcmod.image.layers.merge import Hidden, Record
from hpcmod.image.sif.reader import open_sif
from hpcmod.image.squashfs.writer import SquashfsWriter

_LOG = logging.getLogger(__name__)

_PIECE = 64 << 20
"""Most bytes per task of the thread, which cannot be stopped within one."""


class SourceChangedError(VerificationError):
    """A local SIF is no longer the file that was indexed."""


class SectionSource:
    """An open local SIF, of which sections are copied in ascending order; close it with `close`.

    Parameters
    ----------
    target
        The file that sections are copied into.

    Raises
    ------
    NotFoundError, BadInputError
        If the SIF cannot be opened.
    """

    def __init__(self, known: KnownSif, target: BinaryIO) -> None:
        self._known = known
        self._file = open_sif(known.path)
        self._target = os.dup(target.fileno())  # the thread's own: it may outlive `target` after a second Ctrl-C
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="layers")
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="disk")
        self._copied: list[tuple[int, list[tuple[int, Future[None]]]]] = []
        """Stored size of each copied layer, and for each of its pieces: its end in the new file, and its task."""
        self._synced: list[Future[None]] = []
        self._buffer = bytearray(BLOCK)
        self._at = 0
        self.reused: list[str] = []
        """Layers that are copied."""

    def copy(
        self, layer: str, size: int, hidden: Hidden, writer: SquashfsWriter
    ) -> tuple[Sequence[Record], PackedSection] | None:
        """Begin to copy the section of a layer into a squashfs.

        Parameters
        ----------
        size
            Stored size of the layer in bytes.

        Returns
        -------
        tuple
            The layer's entries, whose contents are the copies, and its section in the local SIF; None if the SIF does
            not have the layer, or if its section does not fit under the layers above.
        """
        places = enumerate(self._known.layers)  # an image may have a layer twice
        number = next((each for each, one in places if one.layer == layer and one.start >= self._at), None)
        if number is None:
            return None
        begin, length = self._known.layers[number].start, self._known.layers[number].length
        if begin + length > self._known.size:
            return None
        start, place = writer.reserve_section(length)
        pieces = [  # copied while the entries are read, which nearly always fit
            (place + at + piece, self._pool.submit(self._copy, begin + at, place + at, piece))
            for at, piece in _cut(length)
        ]
        found = self._read(number, hidden)
        if found is None:
            wait([task for _, task in pieces if not task.cancel()])
            for synced in self._synced:  # a later sync does not return an error of these again
                synced.result()
            writer.release_section(start)
            return None
        section, one = found
        self._copied.append((size, pieces))
        self._at = begin + length
        section.move(start, writer.add_fragments((start + at, word) for at, word in section.fragments))
        self.reused.append(layer)
        return section.records, one

    def sync(self) -> None:
        """Sync the new file, of which the caller has written the rest, in a thread when all sections are copied."""
        self._synced.append(self._disk.submit(self._sync))

    def copied(self, on_copied: Callable[[int], None]) -> Iterator[int]:
        """Wait for all sections; yield ascending offsets up to which the new file has them.

        Parameters
        ----------
        on_copied
            Called with the stored size of each layer.

        Raises
        ------
        SourceChangedError
            If the SIF is shorter than it was.
        """
        for size, pieces in self._copied:
            for end, task in pieces:
                task.result()
                yield end
            on_copied(size)

    def finish(self) -> None:
        """Wait until the new file is on disk; OSError if it cannot be written."""
        for task in self._synced:
            task.result()

    def changed(self, layer: str) -> SourceChangedError:
        """Return the error for a copied layer whose seal differs from the one in the index."""
        return SourceChangedError(f"{self._known.path}: layer {layer} is no longer what was indexed")

    def close(self) -> None:
        """Stop the threads and close the file."""
        for pool in (self._pool, self._disk):
            pool.shutdown(wait=True, cancel_futures=True)
        os.close(self._target)
        self._file.close()

    def _read(self, number: int, hidden: Hidden) -> tuple[Section, PackedSection] | None:
        """Read a section, unpacked and packed; None if it is damaged or does not fit."""
        try:
            one = self._known.read(number)
            section = unpack_section(one)
        except (OSError, BadInputError) as err:
            _LOG.info("section of %s: %s", self._known.layers[number].layer, err)
            return None
        return (section, one) if section.fits(hidden) else None

    def _copy(self, start: int, place: int, length: int) -> None:
        if copy_range(self._file.fileno(), self._target, start, place, length, self._buffer) < length:
            raise SourceChangedError(f"{self._known.path}: truncated, expected {self._known.size} bytes")
        if not self._synced or self._synced[-1].done():
            self._synced.append(self._disk.submit(os.fdatasync, self._target))

    def _sync(self) -> None:
        for _, pieces in self._copied:
            for _, task in pieces:
                task.result()  # not `wait`, which never returns if a task is cancelled
        os.fsync(self._target)


def _cut(length: int) -> list[tuple[int, int]]:
    """Return offset and length of each piece of a range."""
    return [(at, min(_PIECE, length - at)) for at in range(0, length, _PIECE)]
