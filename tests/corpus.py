"""Tiny generated images: valid ones, and one for each way an image can be broken.

`make_sif` writes a SIF with any body, `make_image` one with a real root file system (made by mksquashfs), and each
function in BROKEN writes a file with one fault.
"""

from __future__ import annotations

import gzip
import os
import random
import shutil
import struct
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Union

HAS_MKSQUASHFS = shutil.which("mksquashfs") is not None

ARCHITECTURES = {"386": b"01", "amd64": b"02", "arm": b"03", "arm64": b"04", "ppc64le": b"06", "riscv64": b"12"}
DESCRIPTORS_AT = 4096
DATA_AT = 32176
DESCRIPTOR_SIZE = 585
BODY_AT = 36864


@dataclass(frozen=True)
class Link:
    """A symbolic link in a tree."""

    target: str


@dataclass(frozen=True)
class Program:
    """An executable file in a tree."""

    text: str = "#!/bin/sh\n"


Node = Union[str, bytes, Link, Program]
Tree = Mapping[str, Node]
"""Maps absolute paths to their content; a path that ends in / is an empty directory."""

CONDA_TREE: Tree = {
    "/.singularity.d/env/90-environment.sh": "#!/bin/sh\n# Custom environment shell code should follow\n",
    "/.singularity.d/env/91-conda.sh": 'export WITH_CONDA="source /opt/miniconda3/bin/activate pytorch"\n',
    "/.singularity.d/labels.json": '{"org.opencontainers.image.title": "a test image"}',
    "/opt/miniconda3/bin/activate": "",
    "/opt/miniconda3/envs/pytorch/bin/python3.12": Program(),
    "/opt/miniconda3/envs/pytorch/bin/python3": Link("python3.12"),
    "/opt/miniconda3/envs/pytorch/bin/python": Link("python3.12"),
    "/opt/miniconda3/envs/pytorch/bin/torchrun": Program(),
    "/opt/miniconda3/envs/pytorch/bin/notes.txt": "not a command",
    "/opt/miniconda3/envs/pytorch/lib/python3.12/site-packages/torch-2.7.1+rocm6.2.4.dist-info/METADATA": (
        "Metadata-Version: 2.1\nName: torch\nVersion: 2.7.1+rocm6.2.4\nSummary: tensors\n\nName: not this one\n"
    ),
    "/opt/miniconda3/envs/pytorch/lib/python3.12/site-packages/pyyaml-6.0.2.dist-info/METADATA": (
        "Metadata-Version: 2.1\nName: PyYAML\nVersion: 6.0.2\n"
    ),
    "/opt/miniconda3/envs/pytorch/lib/python3.12/site-packages/old_style-0.3-py3.12.egg-info": (
        "Metadata-Version: 1.0\nName: old-style\nVersion: 0.3\n"
    ),
}
"""The layout of LUMI's PyTorch images, in miniature."""


def make_sif(
    path: Path,
    body: bytes = b"hsqs" + bytes(4092),
    *,
    architecture: str = "amd64",
    file_system: int = 1,
    role: int = 2,
    partition: bool = True,
) -> Path:
    """Write a SIF with a definition object and, by default, a primary partition that holds the body.

    `file_system`: 1 squashfs, 2 ext3, 5 encrypted squashfs.
    `role`: 2 is the primary system partition, 3 a data partition.
    """
    arch = ARCHITECTURES[architecture]
    definition = b"bootstrap: scratch\n"
    objects = [_descriptor(0x4001, 1, DATA_AT, len(definition), "", b"")]
    if partition:
        extra = struct.pack("<ii3s", file_system, role, arch)
        objects.append(_descriptor(0x4004, 2, BODY_AT, len(body), "squash", extra))
    header = struct.pack(
        "<32s10s3s3s16s8q",
        b"#!/usr/bin/env run-singularity\n",
        b"SIF_MAGIC",
        b"01",
        arch,
        bytes(range(16)),
        *(1700000000, 1700000000, 48 - len(objects), 48, DESCRIPTORS_AT, 48 * DESCRIPTOR_SIZE, DATA_AT, len(body)),
    )
    with path.open("wb") as file:
        file.write(header.ljust(DESCRIPTORS_AT, b"\0"))
        file.write(b"".join(objects).ljust(DATA_AT - DESCRIPTORS_AT, b"\0"))
        file.write(definition)
        if partition:
            file.write(bytes(BODY_AT - file.tell()))
            file.write(body)
    return path


def _descriptor(kind: int, number: int, offset: int, size: int, name: str, extra: bytes) -> bytes:
    group = 0xF0000001
    times = (1700000000, 1700000000, 0, 0)
    return struct.pack("<iBIII7q128s384s", kind, 1, number, group, 0, offset, size, size, *times, name.encode(), extra)


def make_squashfs(path: Path, tree: Tree, *options: str) -> Path:
    """Write a squashfs of a tree; `options` are passed to mksquashfs, e.g. "-comp", "zstd"."""
    with tempfile.TemporaryDirectory() as root:
        for name, node in tree.items():
            _plant(Path(root) / name.lstrip("/"), name, node)
        return pack(Path(root), path, *options)


def pack(root: Path, path: Path, *options: str) -> Path:
    """Write a squashfs of a directory."""
    command = ["mksquashfs", str(root), str(path), "-noappend", "-no-progress", "-quiet", "-all-root"]
    subprocess.run([*command, "-processors", "1", *options], check=True, capture_output=True)
    return path


def _plant(place: Path, name: str, node: Node) -> None:
    if name.endswith("/"):
        place.mkdir(parents=True)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(node, Link):
        place.symlink_to(node.target)
    elif isinstance(node, Program):
        place.write_text(node.text)
        place.chmod(0o755)
    else:
        place.write_bytes(node.encode() if isinstance(node, str) else node)
        place.chmod(0o644)


def make_image(path: Path, tree: Tree = CONDA_TREE, *options: str, architecture: str = "amd64") -> Path:
    """Write a SIF whose root file system holds a tree."""
    with tempfile.TemporaryDirectory() as directory:
        body = make_squashfs(Path(directory) / "body", tree, *options).read_bytes()
    return make_sif(path, body, architecture=architecture)


def truncate(path: Path, *, keep: float = 0.5) -> Path:
    """Truncate a file to the given share of its size."""
    os.truncate(path, int(path.stat().st_size * keep))
    return path


def flip_byte(path: Path, *, at: int = -1) -> Path:
    """Flip all bits of one byte; by default one in the last quarter, within the root file system."""
    at = at if at >= 0 else path.stat().st_size * 3 // 4
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 0xFF]))
    return path


def make_random(path: Path, *, size: int = 1 << 20) -> Path:
    """Write random bytes."""
    source = random.Random(1)  # noqa: S311 - test data, the same each time
    with path.open("wb") as file:
        for start in range(0, size, 1 << 20):
            file.write(source.randbytes(min(1 << 20, size - start)))
    return path


def writing(name: str, content: bytes) -> Callable[[Path], Path]:
    """Return a function of this name that writes a file with this content."""

    def make(path: Path) -> Path:
        path.write_bytes(content)
        return path

    make.__name__ = name
    return make


make_empty = writing("make_empty", b"")
make_text = writing("make_text", b"This is the README of an image.\nIt is not an image.\n")
make_web_page = writing("make_web_page", b"<!DOCTYPE html>\n<html><body>Please log in</body></html>\n")
make_gzip = writing("make_gzip", gzip.compress(b"SIF_MAGIC"))
make_elf = writing("make_elf", b"\x7fELF\x02\x01\x01" + bytes(200))


def make_docker_archive(path: Path) -> Path:
    """Write a tar archive like those of docker save."""
    with tempfile.NamedTemporaryFile() as manifest, tarfile.open(path, "w") as archive:
        manifest.write(b"[]")
        manifest.flush()
        archive.add(manifest.name, "manifest.json")
    return path


def make_truncated(path: Path) -> Path:
    """Write a SIF that lacks its second half."""
    return truncate(make_sif(path, b"hsqs" + bytes(1 << 20)))


def make_headless(path: Path) -> Path:
    """Write a SIF truncated within its header."""
    return truncate(make_sif(path), keep=0.002)


def make_foreign(path: Path) -> Path:
    """Write a SIF for arm64."""
    return make_sif(path, architecture="arm64")


def make_rootless(path: Path) -> Path:
    """Write a SIF without any partition."""
    return make_sif(path, partition=False)


def make_data_only(path: Path) -> Path:
    """Write a SIF whose only partition is a data partition."""
    return make_sif(path, role=3)


def make_encrypted(path: Path) -> Path:
    """Write a SIF whose root file system is encrypted."""
    return make_sif(path, file_system=5)


BROKEN: Sequence[tuple[Callable[[Path], Path], int, str]] = (
    (make_empty, 2, "an empty file"),
    (make_text, 2, "a text file that begins with 'This is the README of an image.'"),
    (make_web_page, 2, "a web page"),
    (make_gzip, 2, "gzip-compressed data"),
    (make_elf, 2, "a program (ELF)"),
    (make_docker_archive, 2, "a tar archive"),
    (make_random, 2, "an unknown format"),
    (make_truncated, 4, "truncated: expected"),
    (make_headless, 4, "truncated: expected 128 bytes"),
    (make_foreign, 7, "the image is for arm64, this machine is amd64"),
    (make_rootless, 2, "no primary partition"),
    (make_data_only, 2, "no primary partition"),
    (make_encrypted, 2, "encrypted squashfs, expected squashfs"),
)
"""Functions that write broken images, each with the exit code and the error text expected when the image is read and
checked for amd64.
"""
