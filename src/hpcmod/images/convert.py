"""Convert an OCI image to a SIF in one pass, without unpacking it on a disk and without other programs.

The layers are read from the top, so that only the visible file contents are written. The directory tree is merged
afterwards, from the bottom, and written last.
"""

from __future__ import annotations

import gc
import os
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hpcmod.core.errors import BadInputError, explain_os_error
from hpcmod.core.log import Logger
from hpcmod.core.progress import Progress, Ticker
from hpcmod.images.layers.decompress import Allowance, open_tar
from hpcmod.images.layers.layer_tree import LayerTree
from hpcmod.images.layers.merge import Hidden, Record, merge_layers, missing, read_layer, read_missing
from hpcmod.images.layers.tar import TarEntry, walk
from hpcmod.images.oci.image import Layer, OciImage
from hpcmod.images.sif_writer import SifObject, sync_and_hash, write_sif
from hpcmod.images.squashfs.codecs import codec
from hpcmod.images.squashfs.tree import Node
from hpcmod.images.squashfs.writer import SquashfsWriter
from hpcmod.images.text import oci

_LOG = Logger(__name__)

_MODE = 0o755  # as Apptainer sets it, whatever the umask: a SIF is executable
_LARGEST_TIME = 0xFFFFFFFF  # of squashfs
_NAMESPACE = uuid.UUID("8e4b3a52-6c0c-4a57-9d0b-5f3f4a1f6d21")  # random, fixed once


@dataclass(frozen=True)
class ConvertOptions:
    """Options of a conversion."""

    compression: str = "gzip"
    """One of hpcmod.core.values.compression.NAMES; every container runtime reads this one."""
    level: int | None = None
    """Compression level; None for the compressor's default."""
    most_memory: int = 750_000_000
    """Bytes of memory for the entries of all layers: enough for 1,100,000 files with paths of 80 bytes."""

    @classmethod
    def parse(cls, compression: str) -> ConvertOptions:
        """Parse NAME[:LEVEL] into options; an empty string gives the default.

        Raises HpcmodError if the compressor or level is unknown, or its library is missing.
        """
        name, colon, level = (compression or cls.compression).partition(":")
        if colon and not re.fullmatch(r"[0-9]{1,2}", level):
            fault = f"compression {compression!r}: {level!r} is not a valid level"
            raise BadInputError(fault, "Write it as zstd:3 or gzip:6.")
        chosen = codec(name, int(level) if level else None)
        return cls(compression=chosen.name, level=chosen.level)


@dataclass(frozen=True)
class ConvertedImage:
    """The result of a conversion."""

    sha256: str
    """Checksum of the SIF."""
    size: int
    """Size of the SIF in bytes."""
    left_out: tuple[str, ...]
    """Parts of the image that a SIF cannot store: variables with names invalid in a shell."""


def convert_image(
    image: OciImage,
    partial: Path | str,
    *,
    options: ConvertOptions | None = None,
    progress: Progress | None = None,
) -> ConvertedImage:
    """Convert an image to a SIF at a temporary path, synced to disk.

    The layers are opened one after another, the top one first. An existing file is replaced, and after an error no file
    is left. `progress` is called with the layer bytes read so far and the total, at most ten times a second, also from
    other threads.

    Raises BadInputError if the image is invalid, or larger than the options allow; VerificationError if a layer is
    damaged or does not match its digest; NoSpaceError if the SIF does not fit; HpcmodError: on any other error of the
    operating system.
    """
    chosen = options or ConvertOptions()
    size = sum(layer.size for layer in image.layers)
    _LOG.info("converting %d layer(s), %d bytes, with %s", len(image.layers), size, chosen.compression)
    with _made_whole(Path(partial)) as file, _no_collector():
        converted = _Conversion(image, chosen, progress).write(file)
    _LOG.info("converted: %d bytes, sha256 %s", converted.size, converted.sha256)
    return converted


@contextmanager
def _no_collector() -> Iterator[None]:
    """Disable Python's cycle collector, which would search millions of nodes in vain again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def _made_whole(partial: Path) -> Iterator[BinaryIO]:
    """Open a new file, removed again if the block raises."""
    try:
        partial.unlink(missing_ok=True)
        with partial.open("x+b") as file:
            yield file
            os.fchmod(file.fileno(), _MODE)
    except OSError as err:
        partial.unlink(missing_ok=True)
        raise explain_os_error(OSError(err.errno, err.strerror, err.filename or str(partial))) from err
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


class _Conversion:
    """The conversion of one image."""

    def __init__(self, image: OciImage, options: ConvertOptions, progress: Progress | None) -> None:
        self._image, self._options = image, options
        self._codec = codec(options.compression, options.level)
        self._size = sum(layer.size for layer in image.layers)
        self._ticker = Ticker(progress, self._size)
        self._read = 0
        self._layers: list[list[Record]] = []
        """From the bottom layer up."""
        self._mtime = min(image.config.created, _LARGEST_TIME)

    def write(self, file: BinaryIO) -> ConvertedImage:
        """Write the SIF into an empty file."""
        config, source = self._image.config, _source(self._image)
        files = oci.render_files(config, source=source)
        objects = (
            SifObject("definition", "", oci.render_oci_definition(source).encode()),
            SifObject("json", "inspect-metadata.json", oci.render_metadata(files, config, source=source).encode()),
            SifObject("json", "oci-config.json", oci.render_config(self._image.config_text).encode()),
        )
        write_sif(
            file,
            architecture=config.architecture,
            created=config.created,
            uuid=uuid.uuid5(_NAMESPACE, self._name()).bytes,
            objects=objects,
            write_partition=lambda at: self._write_squashfs(at, files),
        )
        sha256 = sync_and_hash(file)
        return ConvertedImage(sha256, file.seek(0, os.SEEK_END), oci.left_out(config))

    def _name(self) -> str:
        """Return a string that identifies the image and the options, for the SIF's UUID."""
        layers = " ".join(layer.digest or layer.diff_id for layer in self._image.layers)
        return f"{self._image.digest or layers} {self._codec.name}:{self._codec.level}"

    def _write_squashfs(self, file: BinaryIO, files: Sequence[oci.ImageFile]) -> int:
        with SquashfsWriter(file, codec=self._codec) as writer:
            allowance = Allowance(self._size, self._options.most_memory)
            self._read_layers(writer, allowance)
            tree = merge_layers(self._layers, mtime=self._mtime, on_directory=allowance.take_directory)
            self._read_again(writer, missing(tree.root))
            self._layers.clear()  # free memory before the tables are made
            self._add(tree, writer, files)
            return writer.finish(tree.root, mtime=self._mtime)

    def _read_layers(self, writer: SquashfsWriter, allowance: Allowance) -> None:
        """Write the contents of the layers, the top layer first."""
        hidden = Hidden()
        for layer in reversed(self._image.layers):
            with _entries(layer, allowance, self._tick) as entries:
                records = read_layer(entries, hidden, writer.add_file)
            self._layers.insert(0, records)
            if len(self._layers) < len(self._image.layers):
                hidden.add(records)

    def _read_again(self, writer: SquashfsWriter, needed: set[int]) -> None:
        """Write the contents that the first pass wrongly skipped."""
        allowance = Allowance(self._size, self._options.most_memory)
        for layer, records in zip(self._image.layers, self._layers):
            if needed and any(id(found) in needed for _, found in records):
                with _entries(layer, allowance, lambda count: None) as entries:
                    read_missing(entries, records, needed, writer.add_file)

    def _tick(self, count: int) -> None:
        self._read += count
        self._ticker.tick(self._read)

    def _add(self, tree: LayerTree, writer: SquashfsWriter, files: Sequence[oci.ImageFile]) -> None:
        """Add the files that a runtime needs, as Apptainer does."""
        tree.begin_layer(has_whiteouts=False)
        tree.root.mode |= 0o200
        for path in oci.DIRECTORIES:
            tree.need_directory(path.encode())
        for name, target in oci.LINKS:
            if name.encode() not in tree.root.children:
                tree.put(name.encode(), Node("symlink", 0o777, mtime=self._mtime, target=target.encode()))
        empty = [oci.ImageFile(path, "", 0o644) for path in oci.EMPTY_FILES]
        for file in [*files, *empty]:
            text = file.text.encode()
            node = Node("file", file.mode, mtime=self._mtime, data=writer.add_file(len(text), [text]))
            tree.put(file.path.encode(), node)


@contextmanager
def _entries(layer: Layer, allowance: Allowance, on_read: Callable[[int], None]) -> Iterator[Iterator[TarEntry]]:
    """Open a layer and yield the entries of its tar."""
    with open_tar(layer, allowance, on_read=on_read) as blocks:
        yield allowance.counted(walk(blocks))


def _source(image: OciImage) -> tuple[str, str]:
    """Return kind and name of an image's source; only the last part of a path, so that equal images give equal SIFs."""
    kind, reference = image.reference.kind, image.reference
    if reference.path:
        return kind, Path(reference.path).name + (reference.tag and f":{reference.tag}")
    return kind, reference.canonical.removeprefix(f"{kind}:").removeprefix("//")
