"""The tar reader accepts tars as they occur in practice, and refuses broken ones with one clear error."""

from __future__ import annotations

import io
import random
import tarfile
from collections.abc import Iterable

import pytest

from hpcmod.core.errors import BadInputError, VerificationError
from hpcmod.images.layers.tar import TarEntry, clean, walk
from tests.oci_corpus import CASES, SPARSE, Member, d, f, hard, header, link, padded, pax_record, sealed, tar_bytes
from tests.unit.images.tar_fuzz import try_image

ONE = tar_bytes([f("a", "one")])


def read(*tars: bytes) -> list[TarEntry]:
    return list(walk(tars))


def contents(blocks: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return the contents of each file by path."""
    return {entry.path: b"".join(entry.chunks()) for entry in walk(blocks) if entry.kind == "file"}


KINDS = dict(zip((b"0", b"\0", b"S"), ["file"] * 3)) | dict(
    zip((b"1", b"2", b"3", b"4", b"5", b"6"), ("hard", "symlink", "char", "block", "dir", "fifo"))
)


def as_tarfile_sees_it(tar: bytes) -> list[tuple[object, ...]]:
    with tarfile.open(fileobj=io.BytesIO(tar), encoding="utf-8", errors="surrogateescape") as archive:
        return [
            (
                clean(one.name.encode(errors="surrogateescape")),
                *(KINDS[one.type], one.mode),
                *(int(one.mtime // 1), one.size if one.isreg() else 0),
                archive.extractfile(one).read() if one.isreg() else b"",  # type: ignore[union-attr]
            )
            for one in archive
        ]


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"names-beyond-path-max", "sparse-old"}))  # we refuse these
@pytest.mark.slow
def test_every_edge_is_read_as_tarfile_reads_it(name: str) -> None:
    for layer in CASES[name].layers:
        tar = tar_bytes(layer)
        assert as_tarfile_sees_it(tar) == [
            (
                *(one.path, one.kind, one.mode, one.mtime, one.size),
                b"".join(one.chunks()) if one.kind == "file" else b"",
            )
            for one in walk([tar])
        ]


@pytest.mark.parametrize("step", [1, 511, 512, 513, 10_000])
def test_it_does_not_matter_how_the_bytes_come(step: int) -> None:
    tar = tar_bytes([f("a", "x" * 1000), f("b", ""), f("p/" + "q" * 200, "y" * 512), *CASES["sparse"].layers[0]])
    whole = contents([tar])
    assert contents(tar[at : at + step] for at in range(0, len(tar), step)) == whole
    assert whole[b"a"] == b"x" * 1000


def test_content_that_no_one_takes_is_skipped() -> None:
    assert [one.path for one in read(tar_bytes([f("a", "x" * 5000), f("b", "y")]))] == [b"a", b"b"]


def test_all_pax_formats_of_sparse_files_hold_the_same() -> None:
    found = contents([tar_bytes(CASES["sparse"].layers[0])])
    assert {found[name] for name in (b"zero", b"one", b"ten")} == {SPARSE}
    assert found[b"after"] == b"1"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        *((b"a", b"a"), (b"./a", b"a"), (b"/a/", b"a"), (b"a//b", b"a/b"), (b"a/./b", b"a/b"), (b"a/../b", b"b")),
        *((b"../../a", b"a"), (b".", b""), (b"./", b""), (b"/", b""), (b"", b""), (b"//", b""), (b"..", b"")),
        *((b"./.hidden", b".hidden"), (b"a/.b", b"a/.b"), (b"a/..b", b"a/..b"), (b"...", b"..."), (b"././a", b"a")),
        *((b".//a", b"a"), (b"a/b/..", b"a"), (b"/../a", b"a"), (b"a/", b"a"), (b"\xff/\xfe", b"\xff/\xfe")),
    ],
)
def test_a_path_is_made_relative_and_stays_inside(path: bytes, expected: bytes) -> None:
    assert clean(path) == expected


@pytest.mark.parametrize("path", [b"n" * 256, b"a/" * 3000, b"a\0b", b"x/" + b"n" * 300 + b"/y"])
def test_a_path_that_linux_cannot_open_is_refused(path: bytes) -> None:
    with pytest.raises(BadInputError):
        clean(path)


def test_a_tar_may_end_without_its_blocks_of_zeros() -> None:
    for end in (0, 512, 1024, 10_240):
        assert contents([ONE[:1024] + bytes(end)]) == {b"a": b"one"}


@pytest.mark.parametrize("length", [1, 511, 513, 1023])
def test_a_tar_that_ends_early_is_reported_as_truncated(length: int) -> None:
    with pytest.raises(VerificationError, match="truncated"):
        contents([ONE[:length]])


def test_entries_before_a_truncated_end_are_still_read() -> None:
    entries = walk([tar_bytes([f("a", "one"), f("b", "two")])[:1500]])
    assert next(entries).path == b"a"
    with pytest.raises(VerificationError):
        b"".join(next(entries).chunks())


def patched(tar: bytes, at: int, piece: bytes) -> bytes:
    """Change bytes of the first header, and correct its checksum."""
    return sealed((tar[:at] + piece + tar[at + len(piece) :])[:512]) + tar[512:]


@pytest.mark.parametrize(
    ("tar", "word"),
    [
        (b"x" * 1024, "not a tar"),
        (ONE[:148] + b"0000000\0" + ONE[156:], "sum"),
        (patched(ONE, 124, b"9" * 11), "number"),
        (patched(ONE, 124, b"\xff" + b"\0" * 11), "bytes"),
        (patched(ONE, 124, b"\x80" + b"\xff" * 11), "bytes"),
        (patched(ONE, 156, b"Z"), "unknown type"),
        (ONE[:1024] + bytes(512) + ONE, "zeros"),
        (tar_bytes([f("a", pax=((b"size", b"-4"),))]), "number"),
        (tar_bytes([f("a", pax=((b"mtime", b"soon"),))]), "number"),
        (tar_bytes([f("a", pax=((b"path", b"a\0b"),))]), "NUL"),
        (tar_bytes([f("a", pax=((b"GNU.sparse.map", b"0,5"), (b"GNU.sparse.size", b"3")))]), "sparse"),
        (tar_bytes([f("a", pax=((b"GNU.sparse.map", b"9,1,0,1"), (b"GNU.sparse.size", b"30")))]), "sparse"),
        (tar_bytes([f("a", pax=((b"GNU.sparse.map", b"0,999"), (b"GNU.sparse.size", b"999")))]), "sparse"),
        (
            tar_bytes([f("a", "no number", pax=((b"GNU.sparse.major", b"1"), (b"GNU.sparse.realsize", b"3")))]),
            "own content",
        ),
        (tar_bytes([f("a", b"1" * 1536, pax=((b"GNU.sparse.major", b"1"),))]), "list of numbers"),
        (tar_bytes([f("a", b"9" * 18 + b"\n" + bytes(512), pax=((b"GNU.sparse.major", b"1"),))]), "pieces"),
        (header(Member(b"x", b"x"), 9) + padded(b"99 a=b\n") + ONE, "extended header"),
        (header(Member(b"x", b"x"), 7) + padded(b"7 abc=\0") + ONE, "extended header"),
        (header(Member(b"x", b"x"), 2 << 20) + bytes(2 << 20) + ONE, "at most"),
        (header(Member(b"x", b"L", gnu=True), 2 << 20) + bytes(2 << 20) + ONE, "at most"),
    ],
)
def test_a_broken_tar_is_refused_with_the_reason(tar: bytes, word: str) -> None:
    with pytest.raises(BadInputError, match=word):
        contents([tar])


def test_a_sum_of_signed_bytes_is_taken_too_as_ancient_writers_made_it() -> None:
    tar = tar_bytes([f(b"\xff\xfe", "1")])
    signed = sum(byte - 256 if byte > 127 else byte for byte in tar[:148] + b" " * 8 + tar[156:512])
    assert contents([tar[:148] + b"%06o\0 " % signed + tar[156:]]) == {b"\xff\xfe": b"1"}


def test_extended_attributes_of_users_are_sorted_by_name() -> None:
    others = ((b"SCHILY.xattr.security.capability", b"3"), (b"SCHILY.xattr.user.", b"4"))
    member = f("a", pax=((b"SCHILY.xattr.user.b", b"2\n=\0"), (b"SCHILY.xattr.user.a", b"1"), *others))
    assert read(tar_bytes([member]))[0].xattrs == ((b"user.a", b"1"), (b"user.b", b"2\n=\0"))


def test_an_extended_header_counts_for_one_member_only() -> None:
    first, second = read(tar_bytes([f("a", mtime=5, pax=((b"mtime", b"7"), (b"path", b"b"))), f("c", mtime=6)]))
    assert (first.path, first.mtime, second.path, second.mtime) == (b"b", 7, b"c", 6)


def test_a_global_header_changes_nothing() -> None:
    said = pax_record(b"path", b"evil")
    assert read(header(Member(b"g", b"g"), len(said)) + padded(said) + ONE)[0].path == b"a"


def test_links_and_directories_have_no_content_despite_their_header() -> None:
    tar = b"".join(header(one, 512) for one in (d("d"), link("l", "t"), hard("h", "d"))) + ONE
    assert [(one.path, one.kind, one.size) for one in read(tar)][3] == (b"a", "file", 3)


@pytest.mark.slow
def test_broken_tars_reach_far_into_the_reader() -> None:
    """The fuzzing of layers (tests/fuzz) would be useless if every tar were refused at its first header."""
    seen = [try_image(random.Random(seed)) for seed in range(300)]  # noqa: S311 - no secret
    assert min(seen.count(each) for each in ("merged", "BadInputError", "VerificationError")) > 5
