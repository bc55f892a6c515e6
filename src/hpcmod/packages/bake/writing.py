"""Write a new SIF from an image and additions to its tree, without starting a container or unpacking the image.

The image's compressed blocks are copied as they are, those of the additions too if they are in a squashfs with the same
compressor and block size. The same image and the same additions always give the same SIF.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from hpcmod import __version__
from hpcmod.core.clock import now_text
from hpcmod.core.errors import BadInputError, explain_os_error
from hpcmod.core.fs.checksums import check_sha256, file_sha256
from hpcmod.core.fs.reading import open_input
from hpcmod.core.fs.replacing import scratch
from hpcmod.core.fs.space import Need, check_room
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.progress import Progress, Ticker
from hpcmod.core.values.facts import Provenance
from hpcmod.images import Sif, Squashfs
from hpcmod.images.sif.labels import METADATA, with_labels
from hpcmod.images.sif.reader import SifDescriptor, SifHeader, read_sif, squashfs_partition
from hpcmod.images.sif_writer import SifObject, sync_and_hash, write_sif
from hpcmod.images.squashfs import copying
from hpcmod.images.squashfs.nodes import SourceTree, read_tree
from hpcmod.images.squashfs.tree import Node
from hpcmod.images.squashfs.writer import SquashfsWriter
from hpcmod.packages.bake.packages import directory_in

_MODE = 0o755
_LARGEST_OBJECT = 64 << 20
_NAMESPACE = uuid.UUID("5b1f3f0e-8f0a-4a37-b0a5-2f2d6a1c7f43")  # random, fixed once: of the UUIDs of these images
_NOT_COPIED = ("partition", "signature", "crypto message")
_LABELS = ".singularity.d/labels.json"
_LARGEST_LABELS = 1 << 20
_ROOM = 1 << 20  # bytes of directories and labels

AddText = Callable[[bytes, int], Node]
"""Make the node of a new file from its content and mode."""


@dataclass(frozen=True)
class SourceImage:
    """An open image."""

    sif: SifHeader
    file: BinaryIO
    squashfs: Squashfs
    tree: SourceTree
    """Its tree, to which files are added."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return the parts of the image that are left out of a new one: its signatures."""
        others = (descriptor for descriptor in self.sif.descriptors if not descriptor.primary)
        return tuple(f"{other.kind} {other.name}".rstrip() for other in others if not _is_copied(other))


@dataclass(frozen=True)
class Addition:
    """Files that are added to an image."""

    label: str
    """Start of the labels' names, such as org.hpcmod.bake."""
    packages: tuple[str, ...]
    """What is added, for a label of the new image."""
    prefix: str
    """Where it is in the image, for another label."""
    size: int
    """Bytes of the files."""
    place: Callable[[Node, AddText], None]
    """Adds their nodes to the root directory of the image."""
    write_contents: Callable[[SquashfsWriter, Node], None]
    """Writes the contents of the added nodes, given the root directory."""
    check: Callable[[Path], None]
    """Raises HpcmodError if the written image lacks something."""


@dataclass(frozen=True)
class NewFile:
    """Where a new image is written, and what its provenance file says."""

    out: Path
    sha256: str = ""
    """Expected checksum of the old image; empty if unknown."""
    force: bool = False
    """Replace an existing file."""
    environ: Mapping[str, str] = field(default_factory=dict)
    reference: str = ""
    """What it was made from; empty for the path and checksum of the old image."""
    lock: str = ""
    """sha256 of the lock file; empty if there is none."""
    progress: Progress | None = None


@contextmanager
def open_image(path: Path) -> Iterator[SourceImage]:
    """Open an image and read its tree.

    Raises NotFoundError, BadInputError, VerificationError, LackingError if it is missing, not a SIF, damaged, or cannot
    be decompressed.
    """
    sif = read_sif(path)
    partition = squashfs_partition(sif)
    with open_input(sif.path) as file:
        squashfs = Squashfs(file, partition.offset, partition.size)
        yield SourceImage(sif, file, squashfs, read_tree(file, partition.offset, partition.size))


def check_free(out: Path, *, force: bool) -> None:
    """Check that a SIF may be written.

    Raises BadInputError if the path is a directory, or the file exists and must not be replaced.
    """
    if out.is_dir():
        raise BadInputError(f"{out}: is a directory", "Give a file name for the SIF.")
    if out.exists() and not force:
        raise BadInputError(f"{out}: already exists", "Choose another file, or replace it with --force.")


def needed_room(source: SourceImage, addition: Addition) -> int:
    """Return the largest expected size of a new image in bytes."""
    return source.sif.size + addition.size + _ROOM


def write_image(source: SourceImage, addition: Addition, new: NewFile) -> Provenance:
    """Write the new SIF and its provenance file, which is returned; its name appears when it is complete and checked.

    Raises BadInputError if the file exists; VerificationError if the image does not have the expected checksum, or the
    written one lacks something; NoSpaceError if the SIF does not fit.
    """
    for name in (new.out.name, Sif(new.out).sidecar.name):
        clear_leftovers(new.out.parent, name)
    with scratch(new.out) as made:
        check_room(
            [Need(new.out.parent, needed_room(source, addition), 2, "the SIF at most", "choose another path: -o PATH")]
        )
        old, sha256 = _write(source, addition, new, made.path)
        Sif(made.path).check(source.sif.architecture)
        addition.check(made.path)
        provenance = Provenance(
            reference=new.reference or f"bake:{source.sif.path}@sha256:{old}",
            digest="",
            sha256=sha256,
            size=made.path.stat().st_size,
            time=now_text(),
            tool=f"hpcmod {__version__}",
            lock=new.lock,
        )
        Sif(made.beside / new.out.name).write_provenance(provenance, new.environ)
        check_free(new.out, force=new.force)
        made.put()
    return provenance


def _write(source: SourceImage, addition: Addition, new: NewFile, path: Path) -> tuple[str, str]:
    """Write the SIF to a temporary path, synced to disk; return the sha256 of the old and the new image."""
    size = source.sif.size
    ticker = Ticker(new.progress, 2 * size)
    old = file_sha256(source.sif.path, lambda done, _: ticker.tick(done))
    check_sha256(source.sif.path, expected=new.sha256 or None, found=old)
    named = " ".join(addition.packages)
    labels = {"image": f"sha256:{old}", "packages": named, "prefix": addition.prefix}
    labels = {f"{addition.label}.{name}": value for name, value in labels.items()}
    try:
        with path.open("x+b") as file:
            os.fchmod(file.fileno(), _MODE)
            write_sif(
                file,
                architecture=source.sif.architecture,
                created=source.sif.created,
                uuid=uuid.uuid5(_NAMESPACE, f"{old} {addition.prefix} {named} {addition.size}").bytes,
                objects=[_copy_object(source, kept, labels) for kept in filter(_is_copied, source.sif.descriptors)],
                write_partition=lambda into: _write_squashfs(
                    source, addition, labels, into, lambda done: ticker.tick(size + min(done, size))
                ),
            )
            sha256 = sync_and_hash(file)
    except OSError as err:
        raise explain_os_error(OSError(err.errno, err.strerror, str(path))) from err
    ticker.tick(2 * size)
    return old, sha256


def _copy_object(source: SourceImage, descriptor: SifDescriptor, labels: Mapping[str, str]) -> SifObject:
    if descriptor.size > _LARGEST_OBJECT:
        raise BadInputError(f"{source.sif.path}: {descriptor.kind} {descriptor.name} has {descriptor.size} bytes")
    data = os.pread(source.file.fileno(), descriptor.size, descriptor.offset)
    if descriptor.kind == "json" and descriptor.name == METADATA:
        data = with_labels(data, dict(labels))
    return SifObject(descriptor.kind, descriptor.name, data)


def _write_squashfs(
    source: SourceImage,
    addition: Addition,
    labels: Mapping[str, str],
    file: BinaryIO,
    report: Callable[[int], None],
) -> int:
    root, blocks = source.tree.root, source.tree.blocks
    codec = copying.same_codec(blocks)
    copied = 0

    def count(more: int) -> None:
        nonlocal copied
        copied += more
        report(copied)

    with SquashfsWriter(file, codec=codec, block_size=blocks.superblock.block_size) as writer:

        def add_text(content: bytes, mode: int) -> Node:
            data = writer.add_file(len(content), [content])
            return Node("file", mode, mtime=source.sif.created, data=data)

        addition.place(root, add_text)
        scripts = directory_in(root, b".singularity.d")
        if scripts is not None:
            text = json.dumps({**_read_labels(source.squashfs), **labels}, indent="\t", sort_keys=True)
            scripts.children[b"labels.json"] = add_text(text.encode(), 0o644)
        copying.copy_contents(root, source.tree, writer, on_bytes=count)
        addition.write_contents(writer, root)
        return writer.finish(root, mtime=source.sif.created)


def _read_labels(squashfs: Squashfs) -> dict[str, object]:
    """Return the labels in the image's root file system; empty if it has none, or invalid ones."""
    try:
        labels = json.loads(squashfs.text_of(f"/{_LABELS}", _LARGEST_LABELS) or "{}")
    except (ValueError, RecursionError):
        return {}
    return labels if isinstance(labels, dict) else {}


def _is_copied(descriptor: SifDescriptor) -> bool:
    return descriptor.kind not in _NOT_COPIED and not descriptor.kind.startswith("0x")
