"""Decompressing layers in every format; damage, wrong sizes and digests, and bombs are detected on the way."""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

import pytest
import zstandard

from hpcmod.core.errors import BadInputError, VerificationError
from hpcmod.images.layers import decompress
from hpcmod.images.layers.decompress import Allowance, open_tar
from hpcmod.images.oci.image import Layer, verified

pytestmark = pytest.mark.slow

PLAIN = b"".join(hashlib.sha256(b"%d" % n).digest() * 40 for n in range(3000))  # 3.8 MB, which compress to about 3 %
PACKED = {
    "gzip": gzip.compress(PLAIN),
    "gzip of many members": b"".join(gzip.compress(PLAIN[at : at + 99_999]) for at in range(0, len(PLAIN), 99_999)),
    "gzip with zeros behind it": gzip.compress(PLAIN) + bytes(1000),
    "gzip with rubbish behind it": gzip.compress(PLAIN) + b"rubbish" * 100,
    "zstd": zstandard.compress(PLAIN),
    "zstd of many frames": b"".join(zstandard.compress(PLAIN[at : at + 99_999]) for at in range(0, len(PLAIN), 99_999)),
    "zstd with a skippable frame first": b"\x50\x2a\x4d\x18\x04\0\0\0skip" + zstandard.compress(PLAIN),
    "nothing": PLAIN,
}


@pytest.fixture(autouse=True, params=["isal", "zlib"])
def gzip_library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decompress gzip with isal, and without it, as if it were not installed."""
    if request.param == "zlib":
        monkeypatch.setitem(sys.modules, "isal.igzip_lib", None)


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def make_layer(data: bytes, *, stored: bytes | None = None, digest: str | None = None, diff_id: str = "") -> Layer:
    """Create a layer with the size and digest of `data` and the contents `stored`."""
    promised = digest_of(data) if digest is None else digest
    read = data if stored is None else stored

    def open_layer() -> BinaryIO:
        return verified(io.BytesIO(read), digest=promised, size=len(data) if promised else -1, what="the layer")

    return Layer(promised, len(data), "application/vnd.oci.image.layer.v1.tar", diff_id, open_layer)


def allow() -> Allowance:
    return Allowance(1 << 40, 1 << 20)


def unpack(
    layer: Layer, allowance: Allowance | None = None, on_read: Callable[[int], None] = lambda count: None
) -> bytes:
    with open_tar(layer, allowance or allow(), on_read=on_read) as blocks:
        return b"".join(blocks)


@pytest.mark.parametrize("data", PACKED.values(), ids=PACKED)
def test_a_layer_unpacks_with_any_media_type(data: bytes) -> None:
    assert unpack(make_layer(data)) == PLAIN


@pytest.mark.parametrize("data", [b"", b"\x1f", b"ab"])
def test_a_layer_of_next_to_nothing_is_handed_on_as_it_is(data: bytes) -> None:
    assert unpack(make_layer(data)) == data


@pytest.mark.parametrize("name", ["gzip", "zstd", "nothing"])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_a_truncated_layer_is_detected(name: str, share: float) -> None:
    data = PACKED[name]
    with pytest.raises(VerificationError):
        unpack(make_layer(data, stored=data[: int(len(data) * share)]))


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_a_truncated_layer_without_a_digest_is_detected_by_its_diff_id(name: str) -> None:
    data = PACKED[name][:-50]
    with pytest.raises(VerificationError):
        unpack(make_layer(data, digest="", diff_id=digest_of(PLAIN)))


def test_gzip_that_ends_early_is_detected_even_if_nothing_is_promised() -> None:
    with pytest.raises(VerificationError, match="truncated"):
        unpack(make_layer(PACKED["gzip"][:-9], digest=""))


@pytest.mark.parametrize("name", ["gzip", "zstd", "nothing"])
def test_a_changed_byte_is_detected(name: str) -> None:
    data = bytearray(PACKED[name])
    data[len(data) // 2] ^= 1
    with pytest.raises(VerificationError):
        unpack(make_layer(PACKED[name], stored=bytes(data)))


def test_bytes_after_the_tar_are_read_for_the_digest() -> None:
    data = PACKED["gzip"] + b"rubbish"
    with pytest.raises(VerificationError):
        unpack(make_layer(data, stored=data[:-1] + b"!"))


def test_a_diff_id_is_checked_if_there_is_no_digest() -> None:
    assert unpack(make_layer(PLAIN, digest="", diff_id=digest_of(PLAIN))) == PLAIN
    with pytest.raises(VerificationError, match="expected"):
        unpack(make_layer(PLAIN, digest="", diff_id=digest_of(b"other")))


@pytest.mark.parametrize(("magic", "name"), [(b"BZh9", "bzip2"), (b"\xfd7zXZ\0", "xz")])
def test_other_packers_are_refused_by_name(magic: bytes, name: str) -> None:
    with pytest.raises(BadInputError, match=name):
        unpack(make_layer(magic + bytes(600)))


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_a_decompression_bomb_is_refused_in_little_memory(
    pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decompress, "MOST_BYTES", 1 << 24)
    bomb = pack(bytes(1 << 26))
    with open_tar(make_layer(bomb), allow(), on_read=lambda count: None) as blocks:
        taken = itertools.accumulate(len(block) for block in _at_most(blocks, 1 << 21))
        with pytest.raises(BadInputError, match="too many bytes"):
            for total in taken:
                assert total <= 1 << 24


def _at_most(blocks: Iterator[bytes], size: int) -> Iterator[bytes]:
    for block in blocks:
        assert len(block) <= size
        yield block


def test_an_image_may_unpack_to_some_times_its_size_but_any_to_a_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompress, "FREE_BYTES", 5000)
    monkeypatch.setattr(decompress, "MOST_BYTES", 1_000_000)
    for size, most in ((10, 5000), (1000, 200_000), (10_000, 1_000_000)):
        Allowance(size, 1).take_bytes(most)
        with pytest.raises(BadInputError):
            Allowance(size, 1).take_bytes(most + 1)


def test_zstd_that_wants_more_memory_than_we_give_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=28, compression_level=1)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    with pytest.raises(VerificationError, match="memory"):
        unpack(make_layer(packer.compress(PLAIN) + packer.flush()))


def test_all_that_is_read_is_reported() -> None:
    seen: list[int] = []
    unpack(make_layer(PACKED["gzip"]), on_read=seen.append)
    assert sum(seen) == len(PACKED["gzip"])


@contextmanager
def threads_end() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def test_stopping_early_leaves_no_thread_behind() -> None:
    with threads_end(), open_tar(make_layer(PLAIN * 20), allow(), on_read=lambda count: None) as blocks:
        next(blocks)


def test_an_error_of_the_reader_leaves_no_thread_behind() -> None:
    layer = make_layer(PLAIN * 20)
    with threads_end(), pytest.raises(ZeroDivisionError), open_tar(layer, allow(), on_read=lambda count: None):
        raise ZeroDivisionError


class Stalled(io.BytesIO):
    """A stream that stalls after the first megabyte, until `go` is set."""

    def __init__(self) -> None:
        super().__init__(PLAIN)
        self.go = threading.Event()

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() > 1_000_000:
            self.go.wait()
        return super().read(size)


def test_no_one_waits_for_a_stalled_server_and_its_stream_is_closed_if_it_resumes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decompress, "_PATIENCE", 0.05)
    stream = Stalled()

    def read_a_little() -> None:
        layer = Layer("", len(PLAIN), "", "", lambda: stream)
        with open_tar(layer, allow(), on_read=lambda count: None) as blocks:
            next(blocks)

    reader = threading.Thread(target=read_a_little, daemon=True)
    reader.start()
    reader.join(30)
    assert not reader.is_alive()
    behind = [thread for thread in threading.enumerate() if thread.name == "decompress"]
    stream.go.set()
    for thread in behind:
        thread.join(30)
    assert stream.closed
