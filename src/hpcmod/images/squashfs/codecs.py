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

_GZIP_DEFAULT, _ZSTD_DEFAULT = 9, 15  # levels that squashfs assumes without options


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
    """Return the compressor of this name: zstd (level 1-22, default 3), gzip (1-9, 6) or none.

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
    try:
        compress: Callable[[Bytes, int], bytes] = importlib.import_module("deflate").zlib_compress
    except ImportError:  # slower, and with different output
        compress = zlib.compress
    options = b"" if level == _GZIP_DEFAULT else struct.pack("<IHH", level, 15, 0)
    return Codec("gzip", level, NUMBERS["gzip"], options, lambda blocks: [compress(block, level) for block in blocks])


def _none(level: int) -> Codec:
    number = NUMBERS["gzip"]  # the superblock needs one; all support gzip
    return Codec("none", level, number, b"", lambda blocks: blocks)


_CODECS: dict[str, tuple[Callable[[int], Codec], range, int]] = {
    "zstd": (_zstd, range(1, 23), 3),
    "gzip": (_gzip, range(1, 10), 6),
    "none": (_none, range(1), 0),
}
