"""Converting with a local SIF that has some layers gives the same bytes as without it, and reads only the others."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NoReturn

import pytest

from hpcmod.errors import HpcmodError, NoSpaceError
from hpcmod.image import convert as converting
from hpcmod.image import sif_writer
from hpcmod.image.convert import ConvertedImage, ConvertOptions, convert, form_of, layer_key
from hpcmod.image.copy import copy_range
from hpcmod.image.known_layers import source as copying
from hpcmod.image.known_layers.sections import PackedSection, Section, unpack_section
from hpcmod.image.known_layers.store import KnownSif, find_known, save_known
from hpcmod.image.oci.image import OciImage
from hpcmod.image.oci.layout import read_layout
from hpcmod.model.images.reference import ImageReference
from tests.corpus import flip_byte
from tests.oci_corpus import CASES, Member, d, f, gone, hard, link, opaque, tar_bytes, write_layout
from tests.squashfs_trees import noise, text

pytestmark = pytest.mark.slow

BASE = [
    [d("etc"), f("etc/motd", "hello"), *(f(f"short{n}", text(900 + n)) for n in range(300)), f("same", noise(300_000))],
    [f("large", noise(700_000, 5)), f("copy", noise(700_000, 5)), hard("etc/again", "etc/motd"), link("to", "large")],
    [],
]
ONE, TWO = [f("app", "one"), f("short7", "changed")], [f("app", "two" * 70_000), f("short7", "otherwise")]


def image_of(place: Path, layers: Sequence[Sequence[Member]], opened: list[int]) -> OciImage:
    """Write an image whose layers append their numbers to `opened` when they are opened."""
    layout = write_layout(place, [tar_bytes(layer) for layer in layers])
    with read_layout(ImageReference.parse(f"oci:{layout}"), architecture="amd64") as image:

        def opener(number: int):  # type: ignore[no-untyped-def]
            def open_layer() -> BinaryIO:
                opened.append(number)
                return image.layers[number].open()

            return open_layer

        layers_ = (replace(layer, open=opener(number)) for number, layer in enumerate(image.layers))
        return replace(image, layers=tuple(layers_))


def known_of(
    place: Path, layers: Sequence[Sequence[Member]], environ: Mapping[str, str], **options: object
) -> tuple[Path, str]:
    """Convert an image and save the index of its SIF."""
    chosen, sif = ConvertOptions(**options), place.with_suffix(".sif")  # type: ignore[arg-type]
    made = convert(image_of(place, layers, []), sif, options=chosen, index=True)
    save_known(sif, made.sha256, made.size, form=form_of(chosen), sections=made.sections, environ=environ)
    return sif, form_of(chosen)


def both_ways(
    tmp_path: Path, layers: Sequence[Sequence[Member]], environ: Mapping[str, str], form: str, **options: object
) -> tuple[ConvertedImage, list[int]]:
    """Convert an image with and without the local SIF; return the former, and the layers that it opened."""
    chosen = ConvertOptions(**options)  # type: ignore[arg-type]
    opened: list[int] = []
    image = image_of(tmp_path / "new", layers, opened)
    known = find_known([layer_key(layer) for layer in image.layers], form=form, environ=environ)
    found = convert(image, tmp_path / "reused.sif", options=chosen, known=known, index=True)
    read = list(opened)
    whole = convert(image, tmp_path / "whole.sif", options=chosen, index=True)
    assert (tmp_path / "reused.sif").read_bytes() == (tmp_path / "whole.sif").read_bytes()
    assert [(one.start, one.length) for one in found.sections] == [(one.start, one.length) for one in whole.sections]
    return found, read


@pytest.fixture
def environ(tmp_path: Path) -> Mapping[str, str]:
    return {"HOME": str(tmp_path / "home")}


@pytest.mark.parametrize("compression", ["zstd", "gzip", "lz4", "none"])
def test_layers_of_local_sifs_are_neither_read_nor_compressed_again(
    tmp_path: Path, environ: Mapping[str, str], compression: str
) -> None:
    _, form = known_of(tmp_path / "old", [*BASE, ONE], environ, compression=compression)
    found, read = both_ways(tmp_path, [*BASE, TWO], environ, form, compression=compression)
    assert read == [3]
    assert len(found.reused) == 3


def test_an_index_made_by_copying_is_used_for_the_next_image(tmp_path: Path, environ: Mapping[str, str]) -> None:
    old, form = known_of(tmp_path / "old", [*BASE, ONE], environ)
    found, _ = both_ways(tmp_path, [*BASE, TWO], environ, form)
    old.unlink()
    save_known(tmp_path / "reused.sif", found.sha256, found.size, form=form, sections=found.sections, environ=environ)
    (tmp_path / "third").mkdir()
    _, read = both_ways(tmp_path / "third", [*BASE, ONE], environ, form)
    assert read == [3]


@pytest.mark.parametrize(
    "top",
    [
        pytest.param([f("short7", "x"), f("short8", "x")], id="hides more"),
        pytest.param([f("app", "x")], id="hides less"),
        pytest.param([gone("large"), f("short7", "x")], id="whiteout"),
        pytest.param([d("etc"), opaque("etc"), f("short7", "x")], id="opaque directory"),
        pytest.param([hard("again", "short7"), f("short7", "x")], id="hard link to a hidden file"),
        pytest.param([f("same", noise(300_000)), f("short7", text(907))], id="same content as a lower file"),
    ],
)
def test_a_layer_under_other_upper_layers_is_the_same_or_read_again(
    tmp_path: Path, environ: Mapping[str, str], top: Sequence[Member]
) -> None:
    _, form = known_of(tmp_path / "old", [*BASE, ONE], environ)
    both_ways(tmp_path, [*BASE, top], environ, form)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.accepted])
@pytest.mark.parametrize("squash", [True, False])
def test_every_odd_image_is_the_same_with_another_layer_on_top(
    tmp_path: Path, environ: Mapping[str, str], name: str, squash: bool
) -> None:
    layers = CASES[name].layers
    _, form = known_of(tmp_path / "old", [*layers, ONE], environ, squash_owners=squash)
    both_ways(tmp_path, [*layers, TWO], environ, form, squash_owners=squash)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("number", [2, 3], ids=["upper", "lower"])
def test_a_section_that_was_changed_is_not_used(
    tmp_path: Path, environ: Mapping[str, str], number: int, share: float
) -> None:
    old, form = known_of(tmp_path / "old", [*BASE, ONE], environ)
    known = find(tmp_path, environ, form)
    assert known is not None
    flip_byte(old, at=known.layers[number].start + int((known.layers[number].length - 1) * share))
    found, read = both_ways(tmp_path, [*BASE, TWO], environ, form)
    assert found.reused == ()
    assert sorted(set(read)) == [0, 1, 2, 3]


@pytest.mark.parametrize("at", [100, -5000])
def test_a_change_where_nothing_is_copied_is_not_seen(tmp_path: Path, environ: Mapping[str, str], at: int) -> None:
    old, form = known_of(tmp_path / "old", [*BASE, ONE], environ)
    flip_byte(old, at=at % old.stat().st_size)
    found, _ = both_ways(tmp_path, [*BASE, TWO], environ, form)
    assert len(found.reused) == 3


def test_a_sif_that_is_cut_or_gone_is_not_used(tmp_path: Path, environ: Mapping[str, str]) -> None:
    old, form = known_of(tmp_path / "old", [*BASE, ONE], environ)
    image = image_of(tmp_path / "new", [*BASE, TWO], [])
    known = find_known([layer_key(layer) for layer in image.layers], form=form, environ=environ)
    assert known is not None
    size = old.stat().st_size
    os.truncate(old, size - 1)
    assert find(tmp_path, environ, form) is None
    for left in (known.layers[-1].start + known.layers[-1].length - 1, 0):
        os.truncate(old, left)
        assert find(tmp_path, environ, form) is None
        assert convert(image, tmp_path / "cut.sif", known=known).reused == ()
    old.unlink()
    assert convert(image, tmp_path / "gone.sif", known=known).reused == ()


def test_what_is_verified_is_the_copy(
    tmp_path: Path, environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, form = known_of(tmp_path / "old", [*BASE, ONE], environ)

    def changing(source: int, target: int, start: int, to: int, length: int, buffer: bytearray) -> int:
        done = copy_range(source, target, start, to, length, buffer)
        os.pwrite(target, bytes([os.pread(target, 1, to)[0] ^ 1]), to)  # as if the SIF changed at this very moment
        return done

    monkeypatch.setattr(copying, "copy_range", changing)
    found, _ = both_ways(tmp_path, [*BASE, TWO], environ, form)
    assert found.reused == ()


@pytest.mark.parametrize("piece", [77, 4096])
def test_sections_are_copied_in_pieces(
    tmp_path: Path, environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    layers = [[f("a", noise(3000)), f("b", text(900))], [], [d("c"), f("c/d", noise(5000, 2))]]
    _, form = known_of(tmp_path / "old", [*layers, ONE], environ, block_size=4096)
    monkeypatch.setattr(copying, "_PIECE", piece)
    found, _ = both_ways(tmp_path, [*layers, TWO], environ, form, block_size=4096)
    assert len(found.reused) == 3


def held() -> tuple[int, int, float]:
    """Return what a conversion may change only while it runs: threads, open files, and how Python switches threads."""
    return threading.active_count(), sum(1 for _ in Path("/proc/self/fd").iterdir()), sys.getswitchinterval()


def fail(error: BaseException) -> Callable[..., NoReturn]:
    def failing(*arguments: object, **options: object) -> NoReturn:
        raise error

    return failing


@pytest.mark.parametrize(
    ("where", "name", "error", "expected"),
    [
        pytest.param(copying, "copy_range", OSError(errno.ENOSPC, "full"), NoSpaceError, id="disk full while copying"),
        pytest.param(copying, "copy_range", OSError(errno.EIO, "broken"), HpcmodError, id="disk broken while copying"),
        pytest.param(sif_writer, "hash_range", OSError(errno.EIO, "broken"), HpcmodError, id="disk fails at hash"),
        pytest.param(converting, "merge_layers", KeyboardInterrupt(), KeyboardInterrupt, id="Ctrl-C while copying"),
        pytest.param(
            os, "fdatasync fsync", OSError(errno.EDQUOT, "quota"), NoSpaceError, id="quota found while syncing"
        ),
        pytest.param(os, "fsync", OSError(errno.EIO, "broken"), HpcmodError, id="disk broken while syncing"),
        pytest.param(converting, "hash_file", KeyboardInterrupt(), KeyboardInterrupt, id="Ctrl-C while hashing"),
    ],
)
def test_a_fault_leaves_no_file_and_no_thread(
    tmp_path: Path,
    environ: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
    where: object,
    name: str,
    error: BaseException,
    expected: type[BaseException],
) -> None:
    _, form = known_of(tmp_path / "old", [*BASE, ONE], environ)
    image = image_of(tmp_path / "new", [*BASE, TWO], [])
    known = find_known([layer_key(layer) for layer in image.layers], form=form, environ=environ)
    before = held()
    for one in name.split():
        monkeypatch.setattr(where, one, fail(error))
    with pytest.raises(expected):
        convert(image, tmp_path / "out.sif", known=known)
    assert not (tmp_path / "out.sif").exists()
    assert held() == before


def test_ctrl_c_ends_a_conversion_that_still_has_much_to_copy(
    tmp_path: Path, environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(*arguments: int | bytearray) -> int:
        time.sleep(0.05)
        return copy_range(*arguments)  # type: ignore[arg-type]

    _, form = known_of(tmp_path / "old", [*BASE, ONE], environ)
    image = image_of(tmp_path / "new", [*BASE, TWO], [])
    known = find_known([layer_key(layer) for layer in image.layers], form=form, environ=environ)
    before = held()
    monkeypatch.setattr(copying, "_PIECE", 16 << 10)
    monkeypatch.setattr(copying, "copy_range", slowly)
    monkeypatch.setattr(converting, "hash_file", fail(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        convert(image, tmp_path / "out.sif", known=known)
    assert held() == before


def test_a_disk_error_in_a_copy_that_is_given_up_is_an_error(
    tmp_path: Path, environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux reports an error of writing to disk once, so the last sync would not see it."""
    _, form = known_of(tmp_path / "old", [[f("large", noise(700_000, 5)), f("hidden", "now")], ONE], environ)
    image = image_of(tmp_path / "new", [[f("large", noise(700_000, 5)), f("hidden", "now")], [f("hidden", "x")]], [])
    known = find_known([layer_key(layer) for layer in image.layers], form=form, environ=environ)
    copied = threading.Event()

    def read(one: PackedSection) -> Section:
        assert copied.wait(30)
        return unpack_section(one)

    def sync(file: int) -> NoReturn:
        copied.set()
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(copying, "unpack_section", read)
    monkeypatch.setattr(os, "fdatasync", sync)
    with pytest.raises(HpcmodError, match="broken"):
        convert(image, tmp_path / "out.sif", known=known)


def test_progress_ends_with_all_layers(tmp_path: Path, environ: Mapping[str, str]) -> None:
    _, form = known_of(tmp_path / "old", [*BASE, ONE], environ)
    image = image_of(tmp_path / "new", [*BASE, TWO], [])
    known = find_known([layer_key(layer) for layer in image.layers], form=form, environ=environ)
    total, seen = sum(layer.size for layer in image.layers), []
    convert(image, tmp_path / "out.sif", known=known, progress=lambda done, whole: seen.append((done, whole)))
    assert seen[-1] == (total, total)


def find(tmp_path: Path, environ: Mapping[str, str], form: str) -> KnownSif | None:
    image = image_of(Path(tempfile.mkdtemp(dir=tmp_path)) / "new", [*BASE, TWO], [])
    return find_known([layer_key(layer) for layer in image.layers], form=form, environ=environ)


def test_an_index_of_another_form_or_that_others_may_read_or_write_is_not_used(
    tmp_path: Path, environ: Mapping[str, str]
) -> None:
    _, form = known_of(tmp_path / "old", [*BASE, ONE], environ)
    assert find(tmp_path, environ, form) is not None
    assert find(tmp_path, environ, form_of(ConvertOptions(level=5))) is None
    (index,) = (tmp_path / "home/.local/state/hpcmod/layers").iterdir()
    assert index.stat().st_mode & 0o777 == 0o600
    for mode in (0o660, 0o640, 0o604):
        index.chmod(mode)
        assert find(tmp_path, environ, form) is None


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_a_damaged_index_is_not_used(tmp_path: Path, environ: Mapping[str, str], share: float) -> None:
    _, form = known_of(tmp_path / "old", [*BASE, ONE], environ)
    (index,) = (tmp_path / "home/.local/state/hpcmod/layers").iterdir()
    data = index.read_bytes()
    index.write_bytes(data[: int(len(data) * share)])
    assert find(tmp_path, environ, form) is None
    at = int(len(data) * share)
    index.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    assert find(tmp_path, environ, form) is None


def test_indexes_of_sifs_that_are_gone_are_removed(tmp_path: Path, environ: Mapping[str, str]) -> None:
    old, _ = known_of(tmp_path / "old", [*BASE, ONE], environ)
    old.unlink()
    known_of(tmp_path / "next", [*BASE, TWO], environ)
    assert len(list((tmp_path / "home/.local/state/hpcmod/layers").iterdir())) == 1


def test_another_layout_is_another_form(monkeypatch: pytest.MonkeyPatch) -> None:
    before = form_of(ConvertOptions())
    monkeypatch.setattr(converting, "_LAYOUT", 2)
    assert form_of(ConvertOptions()) != before
