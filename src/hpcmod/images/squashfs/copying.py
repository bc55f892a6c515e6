"""Copy the compressed blocks of existing squashfs images into a new one, without decompressing them.

`nodes.read_tree` reads the tree of an image, which can then be changed; `copy_contents` writes the contents of files
still in it: blocks are copied as they are if compressor and block size are the same, else compressed again.
Only blocks of remaining files are copied, so that removed files leave nothing behind; a fragment block is copied as a
whole, with the ends of all files that share it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from hpcmod.core.values.compression import NUMBERS
from hpcmod.images.squashfs.blocks import Blocks
from hpcmod.images.squashfs.codecs import Bytes, Codec, codec
from hpcmod.images.squashfs.format import NO_FRAGMENT, OPTIONS_FLAG, STORED_BLOCK, STORED_METADATA, SUPERBLOCK, UINT16
from hpcmod.images.squashfs.nodes import SourceTree
from hpcmod.images.squashfs.tree import FileData, Node, files_in
from hpcmod.images.squashfs.writer import SquashfsWriter

_PIECE = 1 << 20
_LONGEST_OPTIONS = 64
_NAMES = {number: name for name, number in NUMBERS.items()}

_Run = tuple[int, int]
"""Start and end of a run of bytes in a squashfs."""


def same_codec(blocks: Blocks) -> Codec:
    """Return the compressor of an existing squashfs, to write a new one into which its blocks can be copied.

    Tables and added files are stored uncompressed if this compressor can only be read (xz, lz4).
    """
    number = blocks.superblock.codec
    options = b""
    if blocks.superblock.flags & OPTIONS_FLAG:
        (word,) = UINT16.unpack(blocks.read(SUPERBLOCK.size, UINT16.size))
        length = word % STORED_METADATA
        if length > _LONGEST_OPTIONS:
            raise blocks.damaged(SUPERBLOCK.size, f"compressor options of {length} bytes")
        options = blocks.read(SUPERBLOCK.size + UINT16.size, length)
    found = codec(_NAMES.get(number, "none"))
    return replace(found, number=number, options=options, name=_NAMES.get(number, "other"))


def copy_contents(
    root: Node, source: SourceTree, writer: SquashfsWriter, *, on_bytes: Callable[[int], None] = lambda count: None
) -> None:
    """Copy the contents of all files in a tree that come from a source, and point the files to the copies.

    Nodes of other sources in the tree are not touched; `on_bytes` is called with the stored bytes of each piece.

    Raises VerificationError if the source is damaged.
    """
    used = [data for data in _data_in(root) if data in source.data]
    shape = source.blocks.superblock
    if (shape.codec, shape.block_size) == (writer.codec.number, writer.block_size):
        _copy_blocks(used, source.blocks, writer, on_bytes)
    else:
        _compress_again(root, source, writer, on_bytes)


def read_content(blocks: Blocks, data: FileData) -> Iterator[bytes]:
    """Yield the content of a file of a source, a block at a time."""
    block_size = blocks.superblock.block_size
    at, left = max(data.start, 0), data.size
    for word in data.sizes:
        yield blocks.block(at, word, min(left, block_size))
        at += word % STORED_BLOCK
        left -= min(left, block_size)
    if data.fragment != NO_FRAGMENT:
        yield blocks.tail(data.fragment, data.offset, left)


def _data_in(root: Node) -> Iterator[FileData]:
    """Yield the data of all files in a tree, each once."""
    found: set[FileData] = set()
    for node in files_in(root):
        if node.data is not None and node.data not in found:
            found.add(node.data)
            yield node.data


def _copy_blocks(used: list[FileData], blocks: Blocks, writer: SquashfsWriter, on_bytes: Callable[[int], None]) -> None:
    places = {data.fragment: blocks.fragment_place(data.fragment) for data in used if data.fragment != NO_FRAGMENT}
    runs = _merge([*_block_runs(used), *((at, at + word % STORED_BLOCK) for at, word in places.values())])
    if runs and runs[-1][1] > blocks.superblock.size:
        raise blocks.damaged(runs[-1][1], f"a block ends there, beyond {blocks.superblock.size} bytes")
    starts = [start for start, _ in runs]
    moved = [writer.copy_blocks(_pieces(blocks, run, on_bytes)) - run[0] for run in runs]

    def new_place(at: int) -> int:
        return at + moved[bisect_right(starts, at) - 1]

    numbers = {old: writer.add_fragment(new_place(at), word) for old, (at, word) in sorted(places.items())}
    for data in used:
        if data.start >= 0:
            data.start = new_place(data.start)
        if data.fragment != NO_FRAGMENT:
            data.fragment = numbers[data.fragment]


def _block_runs(used: Iterable[FileData]) -> Iterator[_Run]:
    for data in used:
        length = sum(word % STORED_BLOCK for word in data.sizes)
        if length:
            yield data.start, data.start + length


def _merge(runs: list[_Run]) -> list[_Run]:
    """Merge runs that touch or overlap, so that no byte is copied twice."""
    merged: list[_Run] = []
    for start, end in sorted(runs):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _pieces(blocks: Blocks, run: _Run, on_bytes: Callable[[int], None]) -> Iterator[Bytes]:
    at, end = run
    while at < end:
        piece = blocks.read(at, min(_PIECE, end - at))
        yield piece
        at += len(piece)
        on_bytes(len(piece))


def _compress_again(root: Node, source: SourceTree, writer: SquashfsWriter, on_bytes: Callable[[int], None]) -> None:
    written: dict[FileData, FileData] = {}
    for node in files_in(root):
        data = node.data
        if data is None or data not in source.data:
            continue
        if data not in written:
            written[data] = writer.add_file(data.size, read_content(source.blocks, data))
            on_bytes(sum(word % STORED_BLOCK for word in data.sizes))
        node.data = written[data]
