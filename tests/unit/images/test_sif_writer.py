from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import BinaryIO

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.images.sif.reader import SifDescriptor, check_sif, read_sif, squashfs_partition
from hpcmod.images.sif_writer import SifObject, sync_and_hash, write_sif
from hpcmod.images.squashfs.codecs import codec
from hpcmod.images.squashfs.reader import Squashfs
from hpcmod.images.squashfs.tree import Node
from hpcmod.images.squashfs.writer import SquashfsWriter

DEFINITION = SifObject("definition", "", b"bootstrap: docker\nfrom: example.org/image:1\n")
CONFIG = SifObject("json", "oci-config.json", b"{}")
UUID = bytes(range(16))


def write_partition(file: BinaryIO) -> int:
    with SquashfsWriter(file, codec=codec("zstd")) as writer:
        root = Node("dir", 0o755)
        root.children[b"hello"] = Node("file", 0o644, data=writer.add_file(5, [b"world"]))
        return writer.finish(root, mtime=1_700_000_000)


def write(
    path: Path, objects: tuple[SifObject, ...] = (DEFINITION, CONFIG), architecture: str = "amd64", uuid: bytes = UUID
) -> str:
    with path.open("w+b") as file:
        write_sif(
            file,
            architecture=architecture,
            created=1_700_000_000,
            uuid=uuid,
            objects=objects,
            write_partition=write_partition,
        )
        return sync_and_hash(file)


def test_the_reader_finds_what_the_writer_wrote(tmp_path: Path) -> None:
    path = tmp_path / "image.sif"
    write(path)
    sif = read_sif(path)
    length = len(DEFINITION.data)
    assert sif.descriptors == (
        SifDescriptor("definition", 1, 32176, length, ""),
        SifDescriptor("json", 2, 32176 + length, 2, "oci-config.json"),
        SifDescriptor("partition", 3, 32768, sif.size - 32768, "", "squashfs", True, "amd64"),
    )
    assert (sif.architecture, sif.created) == ("amd64", 1_700_000_000)
    check_sif(sif, architecture="x86_64")
    data = path.read_bytes()
    assert data[32176:].startswith(DEFINITION.data + CONFIG.data)
    assert data.startswith(b"#!/usr/bin/env run-singularity\n")
    assert data[48:64] == bytes(range(16))


@pytest.mark.parametrize("architecture", ["386", "amd64", "arm", "arm64", "ppc64le", "s390x", "riscv64"])
def test_every_architecture_that_the_format_knows_is_written(tmp_path: Path, architecture: str) -> None:
    write(tmp_path / "image.sif", architecture=architecture)
    assert read_sif(tmp_path / "image.sif").architecture == architecture


@pytest.mark.parametrize("size", [0, 4687, 4688, 4689, 100_000])
def test_the_partition_begins_at_a_multiple_of_4096_and_is_readable_there(tmp_path: Path, size: int) -> None:
    path = tmp_path / "image.sif"
    write(path, (SifObject("json", "inspect-metadata.json", b"j" * size),))
    partition = squashfs_partition(read_sif(path))
    assert partition.offset == max(32768, -(-(32176 + size) // 4096) * 4096)
    with path.open("rb") as file:
        assert Squashfs(file, partition.offset, partition.size).read_bytes("/hello", 9) == b"world"


def test_the_same_input_gives_the_same_bytes_and_their_sum(tmp_path: Path) -> None:
    sums = {write(tmp_path / name) for name in ("one.sif", "other.sif")}
    assert sums == {hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in ("one.sif", "other.sif")}
    assert len(sums) == 1


def test_an_unfinished_partition_is_not_a_sif(tmp_path: Path) -> None:
    def fail(file: BinaryIO) -> int:
        file.write(bytes(100_000))
        raise KeyboardInterrupt

    path = tmp_path / "image.sif"
    with path.open("w+b") as file, pytest.raises(KeyboardInterrupt):
        write_sif(file, architecture="amd64", created=0, uuid=UUID, objects=[DEFINITION], write_partition=fail)
    with pytest.raises(BadInputError, match="not a SIF"):
        read_sif(path)


def test_as_many_objects_as_there_are_descriptors_are_written(tmp_path: Path) -> None:
    objects = tuple(SifObject("generic", f"object-{number}", b"%d" % number) for number in range(47))
    write(tmp_path / "image.sif", objects)
    assert [one.name for one in read_sif(tmp_path / "image.sif").descriptors[:-1]] == [one.name for one in objects]


@pytest.mark.parametrize(
    ("objects", "architecture", "uuid", "words"),
    [
        pytest.param((), "sparc", UUID, "cannot be for the architecture 'sparc'", id="architecture"),
        pytest.param((DEFINITION,) * 48, "amd64", UUID, "48 objects", id="too many objects"),
        pytest.param((), "amd64", b"short", "an id of 5 bytes", id="uuid"),
        pytest.param((SifObject("novel", "", b""),), "amd64", UUID, "object of kind 'novel'", id="kind"),
        pytest.param((SifObject("json", "\u00e9" * 64, b""),), "amd64", UUID, "named", id="name"),
    ],
)
def test_refuses_objects_that_a_sif_cannot_contain(
    objects: tuple[SifObject, ...], architecture: str, uuid: bytes, words: str
) -> None:
    with pytest.raises(BadInputError, match=words):
        write_sif(
            io.BytesIO(),
            architecture=architecture,
            created=0,
            uuid=uuid,
            objects=objects,
            write_partition=write_partition,
        )
