"""A conversion always produces the same SIF, leaves nothing behind if it fails, and says what went wrong."""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest

from hpcmod.core.errors import BadInputError, HpcmodError, NoSpaceError, VerificationError
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.values.reference import ImageReference
from hpcmod.images import convert as converting
from hpcmod.images.convert import ConvertedImage, ConvertOptions, convert_image
from hpcmod.images.layers import decompress
from hpcmod.images.layers.decompress import Allowance
from hpcmod.images.layers.tar import TarEntry
from hpcmod.images.oci.image import verified
from hpcmod.images.oci.layout import read_layout
from hpcmod.images.sif.reader import check_sif, read_sif
from hpcmod.images.squashfs.reader import Squashfs
from tests.oci_corpus import CASES, Member, d, f, gone, hard, link, tar_bytes, write_case, write_layout

LAYERS = [
    [d("etc"), f("etc/motd", "hello"), f("a", "q" * 300_000), f("b", "low")],
    [hard("c", "etc/motd"), gone("etc/motd"), f("b", "high")],
]


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    return write_layout(tmp_path / "layout", [tar_bytes(layer) for layer in LAYERS])


def made(layout: Path, out: Path, **options: object) -> ConvertedImage:
    with read_layout(ImageReference.parse(f"oci:{layout}"), architecture="amd64") as image:
        return convert_image(image, out, options=ConvertOptions(**options))  # type: ignore[arg-type]


def read(sif: Path, *paths: str) -> list[bytes]:
    partition = next(one for one in read_sif(sif).descriptors if one.primary)
    with sif.open("rb") as file:
        tree = Squashfs(file, partition.offset, partition.size)
        return [tree.read_bytes(path, 1 << 20) for path in paths]


def test_a_converted_image_contains_the_files_of_its_layers(layout: Path, tmp_path: Path) -> None:
    result = made(layout, tmp_path / "out.sif")
    assert read(tmp_path / "out.sif", "/c", "/b", "/a") == [b"hello", b"high", b"q" * 300_000]
    check_sif(read_sif(tmp_path / "out.sif"), architecture="amd64")
    assert result.size == (tmp_path / "out.sif").stat().st_size
    assert result.sha256 == file_sha256(tmp_path / "out.sif")


@pytest.mark.parametrize("compression", ["gzip", "zstd", "none"])
def test_every_compression_holds_the_same(layout: Path, tmp_path: Path, compression: str) -> None:
    made(layout, tmp_path / "out.sif", compression=compression)
    assert read(tmp_path / "out.sif", "/c", "/a") == [b"hello", b"q" * 300_000]


@pytest.mark.parametrize("packed", ["gzip", "zstd", "none"])
def test_every_packing_of_layers_is_read(tmp_path: Path, packed: str) -> None:
    write_layout(tmp_path / "layout", [tar_bytes(layer) for layer in LAYERS], compression=packed)
    made(tmp_path / "layout", tmp_path / "out.sif")
    assert read(tmp_path / "out.sif", "/b") == [b"high"]


def test_the_result_depends_on_neither_path_nor_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sums = set()
    for cores in (1, 2, 7):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, cores=cores: range(cores))
        place = tmp_path / str(cores)
        place.mkdir()
        layout = write_layout(place / "layout", [tar_bytes(layer) for layer in LAYERS])
        sums.add(made(layout, place / f"out{cores}.sif").sha256)
    assert len(sums) == 1


def test_the_unpacker_of_gzip_layers_makes_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = write_layout(tmp_path / "layout", [tar_bytes(layer) for layer in LAYERS])
    with_isal = made(layout, tmp_path / "isal.sif", compression="zstd")
    monkeypatch.setitem(sys.modules, "isal.igzip_lib", None)
    monkeypatch.setitem(sys.modules, "deflate", None)
    assert made(layout, tmp_path / "zlib.sif", compression="zstd").sha256 == with_isal.sha256
    assert read(tmp_path / "zlib.sif", "/b") == [b"high"]
    made(layout, tmp_path / "gzip.sif", compression="gzip")
    assert read(tmp_path / "gzip.sif", "/c", "/b", "/a") == [b"hello", b"high", b"q" * 300_000]


def test_other_options_give_another_identity(layout: Path, tmp_path: Path) -> None:
    made(layout, tmp_path / "a.sif")
    made(layout, tmp_path / "b.sif", level=1)
    first, second = ((tmp_path / name).read_bytes()[48:64] for name in ("a.sif", "b.sif"))  # the UUIDs
    assert first != second


def test_replaces_an_existing_program_and_makes_it_executable_for_all(layout: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.sif"
    out.write_text("old")
    before = os.umask(0o077)
    try:
        made(layout, out)
    finally:
        os.umask(before)
    assert out.stat().st_mode & 0o777 == 0o755
    assert read_sif(out).architecture == "amd64"


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.accepted])
def test_a_refused_image_leaves_nothing_behind(tmp_path: Path, name: str) -> None:
    write_case(tmp_path / "layout", CASES[name])
    with pytest.raises(BadInputError) as caught:
        made(tmp_path / "layout", tmp_path / "out.sif")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["layout"]
    assert caught.value.cure
    assert len(caught.value.message) < 1000


def damage(layout: Path, *, largest: bool = True) -> None:
    """Change a byte in the middle of the largest blob, which is a layer."""
    blob = max((layout / "blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(blob.read_bytes())
    data[len(data) // 2] ^= 0xFF
    blob.write_bytes(data)


def test_a_damaged_layer_is_detected(layout: Path, tmp_path: Path) -> None:
    damage(layout)
    with pytest.raises(VerificationError):
        made(layout, tmp_path / "out.sif")
    assert [each.name for each in tmp_path.iterdir()] == ["layout"]
    assert gc.isenabled()


def test_an_image_beyond_a_limit_is_refused(layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInputError, match=r"first . files .* memory"):
        made(layout, tmp_path / "out.sif", most_memory=4000)
    monkeypatch.setattr(decompress, "MOST_BYTES", 100_000)
    with pytest.raises(BadInputError, match="bytes"):
        made(layout, tmp_path / "out.sif")


@pytest.mark.parametrize(
    ("member", "limit"),
    [
        pytest.param(link("a", "t" * 4000), 4000, id="target of a link"),
        pytest.param(f("a", pax=((b"SCHILY.xattr.user.a", b"v" * 4000),)), 4000, id="attribute"),
        pytest.param(f("a/" * 1000 + "b"), 500_000, id="directories that only paths name"),
    ],
)
def test_all_that_a_layer_names_counts_as_memory(tmp_path: Path, member: Member, limit: int) -> None:
    layout = write_layout(tmp_path / "layout", [tar_bytes([member])])
    with pytest.raises(BadInputError, match="memory"):
        made(layout, tmp_path / "out.sif", most_memory=limit)
    made(layout, tmp_path / "out.sif")


@pytest.mark.slow
def test_a_hostile_image_of_long_named_directories_is_refused_and_the_variable_named() -> None:
    entries = (named_directory(number) for number in range(1_990_000))
    allowance = Allowance(11_000_000, ConvertOptions().most_memory)
    count = 0
    with pytest.raises(BadInputError, match="750 MB of memory") as fault:
        for _ in allowance.counted(entries):
            count += 1
    assert count < 620_000  # 460 bytes each (measured): less than 500 MB in total
    assert "HPCMOD_MAX_MEMORY=" in fault.value.cure


@pytest.mark.slow
def test_the_largest_conda_images_need_no_setting() -> None:
    allowance = Allowance(1 << 32, ConvertOptions().most_memory)
    package = b"opt/conda/lib/python3.11/site-packages/package_%05d/sub/module_number_%07d.py"
    for number in range(1_000_000):
        entry = TarEntry()
        entry.path, entry.kind, entry.target, entry.xattrs = package % (number // 100, number), "file", b"", ()
        entry.size, entry.extents = 20_000, None
        list(allowance.counted(iter([entry])))


def named_directory(number: int) -> TarEntry:
    entry = TarEntry()
    entry.path, entry.kind, entry.target, entry.xattrs = b"%0240d" % number, "dir", b"", ()
    entry.size, entry.extents = 0, None
    return entry


@pytest.mark.slow
def test_a_layer_that_changed_when_opened_again_is_detected(tmp_path: Path) -> None:
    low = [f("a", "GOOD"), hard("b", "a"), f("pad", "p" * 12_000_000)]
    good, other = (
        tar_bytes(low),
        tar_bytes([f("a", "EVIL"), hard("b", "a"), f("c", "more"), f("pad", "p" * 11_998_976)]),
    )
    assert len(good) == len(other)
    write_layout(tmp_path / "two", [good, tar_bytes([f("a", "new")])], compression="none")
    with read_layout(ImageReference.parse(f"oci:{tmp_path / 'two'}"), architecture="amd64") as image:
        contents = iter([good, other])

        def opened() -> BinaryIO:
            return verified(io.BytesIO(next(contents)), digest=low_layer.digest, size=len(good), what="the layer")

        low_layer = image.layers[0]
        twofold = replace(image, layers=(replace(low_layer, open=opened), *image.layers[1:]))
        with pytest.raises(VerificationError):
            convert_image(twofold, tmp_path / "out.sif")
    assert not (tmp_path / "out.sif").exists()


def test_holes_count_with_their_unpacked_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sparse = f("a", pax=((b"GNU.sparse.size", b"5000000"), (b"GNU.sparse.map", b"4999999,1")))
    layout = write_layout(tmp_path / "layout", [tar_bytes([sparse])])
    with monkeypatch.context() as patched:
        patched.setattr(decompress, "MOST_BYTES", 1_000_000)
        with pytest.raises(BadInputError, match="bytes"):
            made(layout, tmp_path / "out.sif")
    made(layout, tmp_path / "out.sif")
    assert read(tmp_path / "out.sif", "/a")[0][-1:] == b"\0"


def test_a_full_disk_is_reported_and_leaves_nothing(
    layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: BinaryIO) -> str:
        raise OSError(errno.ENOSPC, "No space left on device", "out.sif")

    monkeypatch.setattr(converting, "sync_and_hash", full)
    with pytest.raises(NoSpaceError):
        made(layout, tmp_path / "out.sif")
    assert [each.name for each in tmp_path.iterdir()] == ["layout"]


def test_a_missing_directory_is_reported(layout: Path, tmp_path: Path) -> None:
    with pytest.raises(HpcmodError, match="nowhere"):
        made(layout, tmp_path / "nowhere" / "out.sif")


def test_progress_counts_the_bytes_of_the_layers(layout: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with read_layout(ImageReference.parse(f"oci:{layout}"), architecture="amd64") as image:
        total = sum(layer.size for layer in image.layers)
        convert_image(image, tmp_path / "out.sif", progress=lambda done, whole: seen.append((done, whole)))
    assert seen[0][1] == total
    assert (total, total) in seen


def test_the_top_layer_is_opened_first(layout: Path, tmp_path: Path) -> None:
    opened: list[str] = []

    def noted(layers: Iterable[object]) -> tuple[object, ...]:
        return tuple(replace(one, open=lambda one=one: opened.append(one.digest) or one.open()) for one in layers)  # type: ignore

    with read_layout(ImageReference.parse(f"oci:{layout}"), architecture="amd64") as image:
        convert_image(replace(image, layers=noted(image.layers)), tmp_path / "out.sif")  # type: ignore[arg-type]
        assert opened[:2] == [one.digest for one in reversed(image.layers)]
