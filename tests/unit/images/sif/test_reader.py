from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, HpcmodError, LackingError, NotFoundError, VerificationError
from hpcmod.core.values.facts import architecture_name
from hpcmod.images import Sif
from hpcmod.images.sif.reader import check_sif, read_sif, squashfs_partition
from tests import corpus


def test_reads_header_and_descriptors(tmp_path: Path) -> None:
    sif = read_sif(corpus.make_sif(tmp_path / "a.sif"))
    assert (sif.architecture, sif.created) == ("amd64", 1700000000)
    assert [(one.kind, one.id, one.offset, one.size) for one in sif.descriptors] == [
        ("definition", 1, corpus.DATA_AT, 19),
        ("partition", 2, corpus.BODY_AT, 4096),
    ]
    assert sif.size == corpus.BODY_AT + 4096
    assert Sif(sif.path).definition() == sif.path.read_bytes()[corpus.DATA_AT :][:19]


def test_an_open_file_is_known_by_its_magic_number(tmp_path: Path) -> None:
    with corpus.make_sif(tmp_path / "a.sif").open("rb") as image, Path(__file__).open("rb") as other:
        assert (Sif.matches(image.fileno()), Sif.matches(other.fileno())) == (True, False)


def test_finds_the_root_file_system(tmp_path: Path) -> None:
    partition = squashfs_partition(read_sif(corpus.make_sif(tmp_path / "a.sif")))
    assert (partition.file_system, partition.primary, partition.name) == ("squashfs", True, "squash")
    assert (partition.architecture, partition.offset) == ("amd64", corpus.BODY_AT)


@pytest.mark.parametrize("machine", ["amd64", "x86_64"])
def test_accepts_a_sif_for_this_machine(tmp_path: Path, machine: str) -> None:
    check_sif(read_sif(corpus.make_sif(tmp_path / "a.sif")), architecture=machine)


@pytest.mark.parametrize(
    ("make", "exit_code", "words"), [pytest.param(*row, id=row[0].__name__) for row in corpus.BROKEN]
)
def test_each_fault_has_its_own_message_and_exit_code(
    tmp_path: Path, make: Callable[[Path], Path], exit_code: int, words: str
) -> None:
    path = make(tmp_path / "broken.sif")
    with pytest.raises(HpcmodError) as caught:
        check_sif(read_sif(path), architecture="x86_64")
    assert caught.value.exit_code == exit_code
    assert str(path) in caught.value.message
    assert words in caught.value.message
    assert caught.value.cure


def test_says_how_much_of_a_truncated_sif_is_there(tmp_path: Path) -> None:
    path = corpus.make_sif(tmp_path / "a.sif")
    whole = path.stat().st_size
    corpus.truncate(path, keep=0.99)
    with pytest.raises(
        VerificationError, match=f"expected {whole} bytes according to its header, found {path.stat().st_size}"
    ):
        read_sif(path)


TOTAL, FIRST_OFFSET = 64 + 3 * 8, corpus.DESCRIPTORS_AT + 17
VERSION, ARCHITECTURE = 42, 45
OF_PARTITION = corpus.DESCRIPTORS_AT + corpus.DESCRIPTOR_SIZE + 201 + 8


def change(path: Path, places: tuple[int, ...], data: bytes) -> Path:
    """Overwrite bytes of a file at some places."""
    with path.open("r+b") as file:
        for place in places:
            file.seek(place)
            file.write(data)
    return path


@pytest.mark.parametrize(
    ("place", "data", "error", "said"),
    [
        (TOTAL, (-1).to_bytes(8, "little", signed=True), VerificationError, "header is damaged"),
        (TOTAL, (1 << 40).to_bytes(8, "little"), VerificationError, "header is damaged"),
        (FIRST_OFFSET, (-1).to_bytes(8, "little", signed=True), VerificationError, "damaged: object 1"),
        (VERSION, b"02\0", BadInputError, "version '02'"),
    ],
)
def test_refuses_a_damaged_or_unknown_header(
    tmp_path: Path, place: int, data: bytes, error: type[HpcmodError], said: str
) -> None:
    path = change(corpus.make_sif(tmp_path / "a.sif"), (place,), data)
    with pytest.raises(error, match=said):
        read_sif(path)


def test_refuses_a_missing_descriptor_table(tmp_path: Path) -> None:
    path = corpus.make_sif(tmp_path / "a.sif")
    os.truncate(path, corpus.DESCRIPTORS_AT + 100)
    with pytest.raises(VerificationError, match="truncated"):
        read_sif(path)


def test_takes_the_word_of_the_partition_over_that_of_the_header(tmp_path: Path) -> None:
    path = change(corpus.make_sif(tmp_path / "a.sif", architecture="arm64"), (ARCHITECTURE,), b"02\0")
    assert read_sif(path).architecture == "arm64"


def test_accepts_a_sif_that_does_not_say_its_architecture(tmp_path: Path) -> None:
    sif = read_sif(change(corpus.make_sif(tmp_path / "a.sif"), (ARCHITECTURE, OF_PARTITION), b"00\0"))
    assert sif.architecture == "unknown"
    check_sif(sif, architecture="arm64")


def test_distinguishes_a_missing_file_from_a_directory(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such file"):
        read_sif(tmp_path / "none.sif")
    with pytest.raises(BadInputError, match="a directory"):
        read_sif(tmp_path)


def test_wrong_architecture_names_both(tmp_path: Path) -> None:
    sif = read_sif(corpus.make_foreign(tmp_path / "a.sif"))
    with pytest.raises(LackingError, match="is for arm64, this machine is ppc64le"):
        check_sif(sif, architecture="ppc64le")


def test_kernel_names_become_goarch_names() -> None:
    assert [architecture_name(name) for name in ("x86_64", "aarch64", "riscv64")] == ["amd64", "arm64", "riscv64"]
