"""Compress the blocks of a squashfs on all cores, and write them in their original order.

Blocks are compressed in batches, so that the GIL is taken once per batch rather than per block. The number of pending
batches is limited; beyond that, the oldest is awaited and written.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, BinaryIO

from hpcmod.images.squashfs.codecs import Bytes, Codec
from hpcmod.images.squashfs.format import STORED_BLOCK
from hpcmod.images.squashfs.tree import FileData

_BATCH = 1 << 20
_MOST_THREADS = 16  # one reader cannot feed more, and login nodes are shared
_COMPARED = 1 << 20
_MOST_ALIKE = 4  # most files compared with a new one, to bound the cost of many similar files
_SAMPLED = 64
_END = -1


class BlockStream:
    """Write blocks one after another; call `close`, also after an error.

    The file is open for reading and writing, at the position of the first block, which is `at` in the squashfs. There
    is one compression thread per available core, at most 16, unless `threads` says another number.
    """

    def __init__(self, file: BinaryIO, at: int, codec: Codec, *, threads: int | None = None) -> None:
        self.at = at
        """Offset of the next block."""
        self._file, self._base, self._codec = file, file.tell() - at, codec
        count = threads or min(len(os.sched_getaffinity(0)), _MOST_THREADS)
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="squashfs")
        self._most_pending = 2 * count + 2
        self._pending: deque[tuple[Future[Sequence[Any]], _Batch]] = deque()
        self._batch = _Batch()
        self._sample = 0  # hash of the last bytes of each compressed block of the current file
        self._written: dict[tuple[int, int, int], list[FileData]] = {}

    def add(self, block: Bytes, owner: FileData, index: int) -> None:
        """Add a block; when it is written, its size field is stored at this index of its owner's `sizes`."""
        self._batch.blocks.append(block)
        self._batch.owners.append((owner, index))
        self._batch.size += len(block)
        if self._batch.size >= _BATCH:
            self._submit()

    def end(self, owner: FileData) -> None:
        """Finish a file; if an identical file has been written, its blocks are discarded."""
        self._batch.owners.append((owner, _END))

    def copy(self, pieces: Iterable[Bytes]) -> int:
        """Write blocks that are already compressed, after all pending ones; return the offset of the first."""
        self.drain()
        start = self.at
        for piece in pieces:
            self._file.write(piece)
            self.at += len(piece)
        return start

    def drain(self) -> None:
        """Write all pending blocks."""
        self._submit()
        while self._pending:
            self._write_oldest()

    def close(self) -> None:
        """Stop the compression threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _submit(self) -> None:
        batch, self._batch = self._batch, _Batch()
        if not batch.owners:
            return
        self._pending.append((self._pool.submit(self._codec.pack, batch.blocks), batch))
        while len(self._pending) > self._most_pending:
            self._write_oldest()

    def _write_oldest(self) -> None:
        future, batch = self._pending.popleft()
        pairs = iter(zip(future.result(), batch.blocks))
        for owner, index in batch.owners:
            if index == _END:
                self._end(owner)
                continue
            packed, block = next(pairs)
            if len(packed) < len(block):
                self._write(packed, len(packed), owner, index)
            else:
                self._write(block, len(block) | STORED_BLOCK, owner, index)

    def _write(self, data: Bytes, word: int, owner: FileData, index: int) -> None:
        if owner.start < 0:
            owner.start, self._sample = self.at, 0
        self._sample = hash((self._sample, bytes(memoryview(data)[-_SAMPLED:])))
        owner.sizes[index] = word
        self._file.write(data)
        self.at += word % STORED_BLOCK

    def _end(self, owner: FileData) -> None:
        """Discard a file's blocks if identical ones exist: found by sizes and sample, then compared byte by byte."""
        if owner.start < 0:
            return
        alike = self._written.setdefault((owner.size, hash(tuple(owner.sizes)), self._sample), [])
        same = next((other for other in alike if other.sizes == owner.sizes and self._is_same(other, owner)), None)
        if same is None:
            alike[_MOST_ALIKE - 1 :] = [owner]
            return
        self.at, owner.start, owner.sizes = owner.start, same.start, same.sizes
        self._file.seek(self._base + self.at)

    def _is_same(self, first: FileData, second: FileData) -> bool:
        length = self.at - second.start
        pieces = range(0, length, _COMPARED)
        found = all(
            self._read(first.start + at, min(_COMPARED, length - at))
            == self._read(second.start + at, min(_COMPARED, length - at))
            for at in pieces
        )
        self._file.seek(self._base + self.at)
        return found

    def _read(self, at: int, length: int) -> bytes:
        self._file.seek(self._base + at)
        return self._file.read(length)


class _Batch:
    """Blocks that are compressed together, with their owners."""

    __slots__ = ("blocks", "owners", "size")

    def __init__(self) -> None:
        self.blocks: list[Bytes] = []
        self.owners: list[tuple[FileData, int]] = []
        self.size = 0
