"""Read headers, and views of the data between them, from a tar that arrives in blocks of any length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hpcmod.core.errors import VerificationError
from hpcmod.images.layers.tar_fields import REBUILD, Bytes, refuse

BLOCK = 512
"""Bytes of a header; data is padded to a multiple of it."""

_MOST = 1 << 62


class TarSource:
    """A tar with a reading position.

    Its pieces may have any length; the caller must not change them, because views of them are returned.
    """

    __slots__ = ("_at", "_block", "_blocks", "_length", "_padding", "left")

    def __init__(self, blocks: Iterable[Bytes]) -> None:
        self._blocks = iter(blocks)
        self._block = memoryview(b"")
        self._at = 0
        self._length = 0
        self._padding = 0
        self.left = 0
        """Bytes of the current member that have not been read yet."""

    def header(self) -> Bytes:
        """Return the 512 bytes after the current member; fewer only at the end of the tar."""
        if self.left or self._padding:
            self._skip(self.left + self._padding)
            self.left = self._padding = 0
        at = self._at
        if self._length - at >= BLOCK:
            self._at = at + BLOCK
            return self._block[at : at + BLOCK]
        return b"".join(self._some(BLOCK))

    def begin(self, size: int) -> None:
        """Set how many bytes of data follow a header."""
        if not 0 <= size < _MOST:
            refuse(f"a member of {size} bytes")
        self.left = size
        self._padding = -size % BLOCK

    def take(self, count: int) -> bytes:
        """Return the next bytes of the current member."""
        return b"".join(self.pieces(count))

    def pieces(self, count: int) -> Iterable[Bytes]:
        """Return the next bytes of the current member in pieces.

        Raises BadInputError if the member has fewer, and VerificationError if the tar is truncated.
        """
        if count > self.left:
            refuse("a member ends within its own content")
        at = self._at
        if self._length - at >= count:
            self.left -= count
            self._at = at + count
            return (self._block[at : at + count],)
        return self._across(count)

    def end(self, header: Bytes) -> None:
        """Read to the end, so that digests are verified; a tar ends with two blocks of zeros, one or none.

        `header` is the first of these blocks, or the bytes in its place.
        """
        rest = self.header() if len(header) == BLOCK else header
        while self._next():
            pass
        if any(rest) and len(rest) < BLOCK:
            raise _truncated()
        if any(rest):
            refuse("a block of zeros between its members")

    def _across(self, count: int) -> Iterator[Bytes]:
        for piece in self._some(count):
            count -= len(piece)
            self.left -= len(piece)
            yield piece
        if count:
            raise _truncated()

    def _some(self, count: int) -> Iterator[Bytes]:
        """Yield `count` bytes in pieces; fewer only at the end of the tar."""
        while count and (self._at < self._length or self._next()):
            piece = self._block[self._at : self._at + count]
            self._at += len(piece)
            count -= len(piece)
            yield piece

    def _skip(self, count: int) -> None:
        while count > self._length - self._at:
            count -= self._length - self._at
            if not self._next():
                raise _truncated()
        self._at += count

    def _next(self) -> bool:
        for block in self._blocks:
            if len(block):
                self._block = memoryview(block)
                self._at, self._length = 0, len(block)
                return True
        self._at = self._length = 0
        return False


def _truncated() -> VerificationError:
    return VerificationError("truncated: the tar of a layer ends within a member", REBUILD)
