"""Decompress a layer (gzip, zstd or none) into its tar, in a separate thread that runs ahead of the reader."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import queue
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Protocol, Union

from hpcmod.core.errors import BadInputError, VerificationError
from hpcmod.core.log import Logger
from hpcmod.images.layers.tar import TarEntry
from hpcmod.images.oci.image import Layer

_LOG = Logger(__name__)

_PACKED = 1 << 18  # bytes read at a time
_PLAIN = 1 << 20  # bytes per block: large enough for little locking, small enough for a CPU's cache
_AHEAD = 6  # blocks
_PATIENCE = 2.0  # seconds to wait for the thread to stop; else it ends with the process
_GZIP, _ZSTD, _ZSTD_SKIPPABLE = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x2a\x4d\x18"
_LARGEST_WINDOW = 1 << 27  # zstd window in bytes: the one of `zstd --long`; held in memory
_AGAIN = "The image is damaged: fetch it again."
_OTHERS = {b"BZh": "bzip2", b"\xfd7zXZ": "xz"}

_DIRECTORY_MEMORY, _ENTRY_MEMORY, _XATTR_MEMORY = 1000, 560, 200
"""Memory in bytes of a directory, any other entry, and an attribute, without names (measured, rounded up)."""
_BYTES_PER_WORD = 3 << 10  # file bytes per byte of memory: 40 bytes for each block of 128 KiB

FREE_BYTES = 16 << 30
"""Bytes that any image may unpack to: even a small image may contain a large file of zeros."""
MOST_RATIO = 200
"""Most bytes unpacked per byte stored, beyond `FREE_BYTES`."""
MOST_BYTES = 2 << 40
"""Most bytes that all layers may unpack to."""

_Item = Union[bytes, BaseException, None]


class Allowance:
    """Limits on what an image may unpack to, against decompression bombs.

    `size` is the stored size of all layers in bytes; `most_memory` the most bytes of memory for its entries, including
    names, link targets and extended attributes (estimated).
    """

    def __init__(self, size: int, most_memory: int) -> None:
        self._bytes = self._most_bytes = min(MOST_BYTES, max(FREE_BYTES, size * MOST_RATIO))
        self._memory = self._most_memory = most_memory
        self._entries = 0

    def take_bytes(self, count: int) -> None:
        """Count unpacked bytes.

        Raises BadInputError if there are too many.
        """
        self._bytes -= count
        if self._bytes < 0:
            raise BadInputError(
                f"the image unpacks to too many bytes: more than {self._most_bytes}",
                "If the image is really so large: apptainer build NEW.sif REFERENCE",
            )

    def counted(self, entries: Iterator[TarEntry]) -> Iterator[TarEntry]:
        """Count the memory of entries, and the bytes of holes in files.

        Raises BadInputError if there are too many, or their names are too long.
        """
        for entry in entries:
            self._entries += 1
            memory = len(entry.path) + len(entry.target) + entry.size // _BYTES_PER_WORD
            memory += _DIRECTORY_MEMORY if entry.kind == "dir" else _ENTRY_MEMORY
            if entry.xattrs:
                memory += sum(_XATTR_MEMORY + len(name) + len(value) for name, value in entry.xattrs)
            self._take_memory(memory)
            if entry.extents is not None:
                self.take_bytes(entry.size)
            yield entry

    def take_directory(self) -> None:
        """Count the memory of a directory that exists only in the paths of other entries.

        Raises BadInputError if there are too many.
        """
        self._take_memory(_DIRECTORY_MEMORY)

    def _take_memory(self, count: int) -> None:
        self._memory -= count
        if self._memory < 0:
            raise BadInputError(
                f"the first {self._entries} files and directories of the image need more than "
                f"{self._most_memory // 10**6} MB of memory",
                "If you trust the image, allow more: HPCMOD_MAX_MEMORY=2000 (MB).",
            )


@contextmanager
def open_tar(layer: Layer, allowance: Allowance, *, on_read: Callable[[int], None]) -> Iterator[Iterator[bytes]]:
    """Open the tar of a layer as an iterator of blocks; reading it to the end verifies it.

    `on_read` is called from another thread with the number of bytes after each read of the layer.

    While it is read, raises VerificationError if the layer is truncated or damaged, or does not match its digest, and
    BadInputError if it unpacks to more than allowed, or has an unsupported compression.
    """
    stream = layer.open()
    blocks = _Ahead(_checked(_plain(_CountingStream(stream, on_read), layer), layer, allowance), stream)
    try:
        yield iter(blocks)
    finally:
        blocks.stop()


class _Ahead:
    """Runs an iterator in a thread, some blocks ahead of the reader; the thread closes the underlying stream."""

    def __init__(self, source: Iterator[bytes], stream: BinaryIO) -> None:
        self._source, self._stream = source, stream
        self._queue: queue.Queue[_Item] = queue.Queue(_AHEAD)
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="decompress", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self._stream:
                for block in self._source:
                    self._queue.put(block)
                    if self._stopped:
                        return
            self._queue.put(None)
        except BaseException as err:
            self._queue.put(err)

    def __iter__(self) -> Iterator[bytes]:
        while (item := self._queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def stop(self) -> None:
        """Stop the thread and drop its blocks; a thread that waits for a server stops after the answer."""
        self._stopped = True
        until = time.monotonic() + _PATIENCE
        while self._thread.is_alive() and time.monotonic() < until:
            with contextlib.suppress(queue.Empty):
                self._queue.get(timeout=0.01)


def _checked(blocks: Iterator[bytes], layer: Layer, allowance: Allowance) -> Iterator[bytes]:
    """Count the unpacked bytes, and check their hash if the layer has no digest of its stored bytes."""
    wanted = "" if layer.digest else layer.diff_id
    sha256 = hashlib.sha256()
    for block in blocks:
        allowance.take_bytes(len(block))
        if wanted:
            sha256.update(block)
        yield block
    if wanted and wanted != f"sha256:{sha256.hexdigest()}":
        raise VerificationError(f"a layer unpacks to sha256:{sha256.hexdigest()}, expected {wanted}", _AGAIN)


def _plain(stream: _Readable, layer: Layer) -> Iterator[bytes]:
    """Decompress by the first bytes, not by the media type, as all tools do: media types are often wrong."""
    first = _read(stream, _PACKED)
    if first[:2] == _GZIP:
        yield from _gunzip(stream, first, layer)
    elif first[:4] == _ZSTD or first[1:4] == _ZSTD_SKIPPABLE:
        yield from _unzstd(stream, first, layer)
    else:
        for magic, name in _OTHERS.items():
            if first.startswith(magic):
                raise BadInputError(
                    f"{_name(layer)} is compressed with {name}; OCI supports gzip and zstd", "Rebuild the image."
                )
        yield first
        while block := stream.read(_PLAIN):
            yield block


def _gunzip(stream: _Readable, data: bytes, layer: Layer) -> Iterator[bytes]:
    """Decompress gzip with one or more members; ignore padding after the last member."""
    make_member, gzip_error = _gzip_reader()
    while data[:2] == _GZIP:
        member = make_member()
        try:
            while not member.eof:
                block = member.decompress(data, _PLAIN)
                data = stream.read(_PACKED) if member.needs_input else b""
                yield block
                if not block and not data and not member.eof:
                    raise VerificationError(f"{_name(layer)} is truncated: its gzip ends early", _AGAIN)
        except gzip_error as err:
            raise VerificationError(f"{_name(layer)} is damaged: {err}", _AGAIN) from err
        data = member.unused_data + data
        if len(data) < len(_GZIP):
            data += _read(stream, _PACKED)
    while stream.read(_PLAIN):  # reading to the last byte verifies the digest
        pass


class _GzipMember(Protocol):
    eof: bool
    needs_input: bool
    unused_data: bytes

    def decompress(self, data: bytes, most: int, /) -> bytes: ...


def _gzip_reader() -> tuple[Callable[[], _GzipMember], type[Exception]]:
    """Return a decompressor of gzip members and its exception: isal if installed, else Python's slower zlib."""
    try:
        igzip = importlib.import_module("isal.igzip_lib")
    except ImportError:
        _LOG.info("isal is not installed: unpacking gzip with zlib, which is slower")
        return _ZlibMember, zlib.error
    return lambda: igzip.IgzipDecompressor(igzip.DECOMP_GZIP), igzip.error


class _ZlibMember:
    """A decompressor of one gzip member with zlib, with the interface of isal's class."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)  # 16: a gzip header, not zlib's own
        self.eof = False
        self.needs_input = True
        self.unused_data = b""

    def decompress(self, data: bytes, most: int) -> bytes:
        """Return at most `most` decompressed bytes of the data so far."""
        block = self._member.decompress(self._member.unconsumed_tail + data, most)
        self.eof, self.unused_data = self._member.eof, self._member.unused_data
        self.needs_input = not self.eof and not self._member.unconsumed_tail and len(block) < most
        return block


def _unzstd(stream: _Readable, first: bytes, layer: Layer) -> Iterator[bytes]:
    """Decompress zstd with one or more frames, as pzstd and zstd:chunked write it."""
    zstandard = importlib.import_module("zstandard")
    unpacker = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
    reader = unpacker.stream_reader(_PrefixedStream(first, stream), read_size=_PACKED, read_across_frames=True)
    try:
        while block := reader.read(_PLAIN):
            yield block
    except zstandard.ZstdError as err:
        raise VerificationError(f"{_name(layer)} is damaged: {err}", _AGAIN) from err


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _CountingStream:
    """A stream that reports the bytes read from it."""

    def __init__(self, stream: _Readable, on_read: Callable[[int], None]) -> None:
        self._stream, self._on_read = stream, on_read

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes."""
        found = self._stream.read(size)
        self._on_read(len(found))
        return found


class _PrefixedStream:
    """A stream preceded by bytes that were already read from it."""

    def __init__(self, first: bytes, stream: _Readable) -> None:
        self._first, self._stream = first, stream

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes."""
        if self._first:
            found, self._first = self._first[:size], self._first[size:]
            return found
        return self._stream.read(size)


def _read(stream: _Readable, size: int) -> bytes:
    """Read `size` bytes, fewer only at the end."""
    found = stream.read(size)
    while len(found) < size and (more := stream.read(size - len(found))):
        found += more
    return found


def _name(layer: Layer) -> str:
    return f"layer {layer.digest or layer.diff_id or 'of an archive'}"
