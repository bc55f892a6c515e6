"""A file inside a squashfs with random access: only the requested blocks are decompressed."""

from __future__ import annotations

from itertools import accumulate

from hpcmod.images.squashfs.blocks import Blocks, Cursor, make_room
from hpcmod.images.squashfs.format import STORED_BLOCK, UINT32

_MOST_BLOCKS = 1 << 22  # 512 GiB in blocks of 128 KiB; limits the time spent on a damaged size
_KEPT = 8


class OpenedFile:
    """An open file in a squashfs; errors are those of `squashfs.Squashfs`.

    Parameters
    ----------
    blocks
        Blocks of the squashfs; its file must stay open.
    start
        Offset of the file's first block.
    size
        Size of the file in bytes.
    sizes
        Cursor at the list of the compressed sizes of its blocks.
    tail
        Number of the fragment block with the file's end, offset in it, and bytes: 0 if there is none.
    """

    def __init__(self, blocks: Blocks, start: int, size: int, sizes: Cursor, tail: tuple[int, int, int]) -> None:
        self.size = size
        self._blocks, self._tail = blocks, tail
        self._block_size = blocks.superblock.block_size
        self._in_blocks = size - tail[2]
        self._places = list(self._find_places(start, sizes))
        self._kept: dict[int, bytes] = {}

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes at an offset, fewer only at the end."""
        end = min(offset + length, self.size)
        found = bytearray()
        while offset < end:
            block, skip = divmod(offset, self._block_size)
            piece = self._block(block)[skip : skip + end - offset]
            found += piece
            offset += len(piece)
        return bytes(found)

    def _find_places(self, start: int, sizes: Cursor) -> zip[tuple[int, int]]:
        """Return offset and size field of every block."""
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
