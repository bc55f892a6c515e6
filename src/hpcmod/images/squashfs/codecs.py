"""Compressors for writing squashfs: C libraries that release the GIL while they work."""

from __future__ import annotations

import importlib
import struct
import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Union

from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.core.values.compression import NUMBERS

Bytes = Union[bytes, bytearray, memoryview]

_Pack = Callable[[Sequence[Bytes]], Sequence[Any]]

_ZLIB_HIGHEST = 9
_GZIP_DEFAULT, _ZSTD_DEFAULT = 9, 15  # levels that squashfs assumes without options
_LZ4_VERSION = 1
_LZ4_HIGH = 1  # flag: compressed with LZ4 HC


@dataclass(frozen=True)
class Codec:
    """A compressor at one level.

    The same input gives the same output with the same version of the same library, in any thread and in any batch.
    """

    name: str
    level: int
    number: int
    """Number in the superblock."""
    options: bytes
    """Compressor options after the superblock; empty if none."""
    pack: _Pack
    """Compresses each block of a batch separately; the output may be longer than the block. Thread-safe."""

    def compress(self, block: Bytes) -> bytes:
        """Compress one block."""
        return bytes(self.pack([block])[0])


def codec(name: str, level: int | None = None) -> Codec:
    """Return the compressor of this name: zstd (level 1-22, default 3), gzip (1-12, 6), lz4 (0 fast, 1-12; 0) or none.

    Raises BadInputError if the compressor or level is unknown, and LackingError if its Python package is not installed.
    """
    if name not in _CODECS:
        raise BadInputError(f"unknown compressor {name!r}", f"Choose one of {', '.join(_CODECS)}.")
    make, levels, default = _CODECS[name]
    chosen = default if level is None else level
    if chosen not in levels:
        raise BadInputError(f"{name} has no level {chosen}", f"Choose one from {levels[0]} to {levels[-1]}.")
    try:
        return make(chosen)
    except ImportError as err:
        package = err.name.split(".")[0] if err.name else name
        raise LackingError(
            f"writing {name} needs the Python package {package}", f"python3 -m pip install {package}"
        ) from err


def _zstd(level: int) -> Codec:
    library = importlib.import_module("zstandard")
    own = threading.local()  # a compressor serves one thread at a time

    def pack(blocks: Sequence[Bytes]) -> Sequence[Any]:
        if not hasattr(own, "compressor"):
            own.compressor = library.ZstdCompressor(level=level)
        if blocks and hasattr(own.compressor, "multi_compress_to_buffer"):  # it raises an error on an empty batch
            return own.compressor.multi_compress_to_buffer(list(blocks))  # type: ignore[no-any-return]
        return [own.compressor.compress(block) for block in blocks]

    options = b"" if level == _ZSTD_DEFAULT else struct.pack("<I", level)
    return Codec("zstd", level, NUMBERS["zstd"], options, pack)


def _gzip(level: int) -> Codec:
    compress = _gzip_compressor(level)
    said = min(level, _ZLIB_HIGHEST)  # unsquashfs accepts no higher level; decompression does not need it
    options = b"" if said == _GZIP_DEFAULT else struct.pack("<IHH", said, 15, 0)
    return Codec("gzip", level, NUMBERS["gzip"], options, lambda blocks: [compress(block, level) for block in blocks])


def _gzip_compressor(level: int) -> Callable[[Bytes, int], bytes]:
    """Return libdeflate's compressor, or Python's slower zlib, with different output, if it is not installed."""
    try:
        compress: Callable[[Bytes, int], bytes] = importlib.import_module("deflate").zlib_compress
    except ImportError as err:
        if level > _ZLIB_HIGHEST:
            raise LackingError(
                f"writing gzip at level {level} needs the Python package deflate",
                f"Choose a level up to {_ZLIB_HIGHEST}, or: python3 -m pip install deflate",
            ) from err
        return zlib.compress
    return compress


def _lz4(level: int) -> Codec:
    compress = importlib.import_module("lz4.block").compress
    how: dict[str, Any] = {"mode": "high_compression", "compression": level} if level else {"mode": "default"}
    options = struct.pack("<II", _LZ4_VERSION, _LZ4_HIGH if level else 0)  # the kernel refuses lz4 without them
    return Codec(
        "lz4",
        level,
        NUMBERS["lz4"],
        options,
        lambda blocks: [compress(block, store_size=False, **how) for block in blocks],
    )


def _none(level: int) -> Codec:
    return Codec(
        "none", level, NUMBERS["gzip"], b"", lambda blocks: blocks
    )  # the superblock needs one; all support gzip


_CODECS: dict[str, tuple[Callable[[int], Codec], range, int]] = {
    "zstd": (_zstd, range(1, 23), 3),
    "gzip": (_gzip, range(1, 13), 6),
    "lz4": (_lz4, range(13), 0),
    "none": (_none, range(1), 0),
}
