"""A file inside a squashfs, read from any place of it: only the blocks that hold what is asked for are unpacked."""

from __future__ import annotations

from itertools import accumulate

from hpcmod.image.squashfs.blocks import Blocks, Cursor, make_room
from hpcmod.image.squashfs.format import STORED_BLOCK, UINT32

_MOST_BLOCKS = 1 << 22  # 512 GiB in blocks of 128 KiB; a damaged size must not keep us busy for long
_KEPT = 8


class OpenedFile:
    """A file that was found; errors are those of `squashfs.Squashfs`.

    Parameters
    ----------
    blocks
        Of the squashfs; its file must stay open.
    start
        Place of the file's first block.
    size
        Bytes of the file.
    sizes
        Where the packed sizes of its blocks are listed.
    tail
        Fragment block that holds its end, the offset in it, and the bytes: 0 if there is none.
    """

    def __init__(self, blocks: Blocks, start: int, size: int, sizes: Cursor, tail: tuple[int, int, int]) -> None:
        self.size = size
        self._blocks, self._tail = blocks, tail
        self._block_size = blocks.superblock.block_size
        self._in_blocks = size - tail[2]
        self._places = list(self._find_places(start, sizes))
        self._kept: dict[int, bytes] = {}

    def read(self, offset: int, length: int) -> bytes:
        """Return the bytes at an offset: as many as asked for, fewer only at the end."""
        end = min(offset + length, self.size)
        found = bytearray()
        while offset < end:
            block, skip = divmod(offset, self._block_size)
            piece = self._block(block)[skip : skip + end - offset]
            found += piece
            offset += len(piece)
        return bytes(found)

    def _find_places(self, start: int, sizes: Cursor) -> zip[tuple[int, int]]:
        """Return place and size word of every block."""
        count = -(-self._in_blocks // self._block_size)
        if count > _MOST_BLOCKS:
            raise self._blocks.damaged(start, f"a file of {self.size} bytes")
        words = [word for (word,) in UINT32.iter_unpack(sizes.take(count * UINT32.size))]
        return zip(accumulate((word % STORED_BLOCK for word in words), initial=start), words)

    def _block(self, number: int) -> bytes:
        if number not in self._kept:
            make_room(self._kept, _KEPT)
            self._kept[number] = self._unpack(number)
        return self._kept[number]

    def _unpack(self, number: int) -> bytes:
        if number == len(self._places):
            return self._blocks.tail(*self._tail)
        at, word = self._places[number]
        return self._blocks.block(at, word, min(self._block_size, self._in_blocks - number * self._block_size))
