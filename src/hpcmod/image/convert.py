"""Convert an OCI image to a SIF in one pass, without unpacking it on a disk and without other programs.

The layers are read from the top, so that only the visible file contents are written; each layer's contents are
compressed and on disk before the next layer is opened. The directory tree is merged afterwards, from the bottom, and
written last.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from hpcmod.errors import BadInputError, NotFoundError, explain_os_error
from hpcmod.image.integrity import Progress, Ticker
from hpcmod.image.known_layers.sections import PackedSection, pack_entries
from hpcmod.image.known_layers.source import SectionSource, SourceChangedError
from hpcmod.image.known_layers.store import KnownSif
from hpcmod.image.layers.decompress import Allowance, open_tar
from hpcmod.image.layers.layer_tree import LayerTree
from hpcmod.image.layers.merge import Hidden, Record, merge_layers, missing, read_layer, read_missing
from hpcmod.image.layers.tar import TarEntry, walk
from hpcmod.image.oci.image import Layer, OciImage
from hpcmod.image.sif_writer import SifObject, hash_file, sync_and_hash, write_sif
from hpcmod.image.squashfs.codecs import codec, library_version
from hpcmod.image.squashfs.tree import Node
from hpcmod.image.squashfs.writer import BLOCK_SIZE, SquashfsWriter
from hpcmod.render import oci

_LOG = logging.getLogger(__name__)

_LAYOUT = 1  # increased when the same layers give other bytes
_MODE = 0o755  # as Apptainer sets it, whatever the umask: a SIF is executable
_LARGEST_TIME = 0xFFFFFFFF  # of squashfs
_SWITCH_INTERVAL = 1e-4
"""Seconds until a thread that copies layers gets the interpreter; in Python's 5 ms, several blocks can be copied."""
_NAMESPACE = uuid.UUID(
    "8e4b3a52-6c0c-4a57-9d0b-5f3f4a1f6d21"
)  # random, fixed once: namespace of the UUIDs of converted images


@dataclass(frozen=True)
class ConvertOptions:
    """Options of a conversion."""

    compression: str = "zstd"
    """One of model.compression.NAMES."""
    level: int | None = None
    """Compression level; None for the compressor's default."""
    block_size: int = BLOCK_SIZE
    """Squashfs block size in bytes."""
    threads: int | None = None
    """Compression threads; None for one per core."""
    squash_owners: bool = True
    """Make root the owner of all files and replace devices by empty files, as Apptainer does for an ordinary user."""
    most_bytes: int = 2 << 40
    """Most bytes that all layers may unpack to."""
    most_ratio: int = 200
    """Largest compression ratio of an image that unpacks to more than 16 GiB."""
    most_memory: int = 750_000_000
    """Bytes of memory for the entries of all layers: enough for 1,100,000 files with paths of 80 bytes."""


@dataclass(frozen=True)
class ConvertedImage:
    """The result of a conversion."""

    sha256: str
    """Checksum of the SIF."""
    size: int
    """Size of the SIF in bytes."""
    entries: int
    """Number of tar members in all layers."""
    fetched_again: int
    """Number of files read in a second pass, because the first could not tell from their names that they are needed."""
    left_out: tuple[str, ...]
    """Parts of the image that a SIF cannot store: variables with names invalid in a shell, extended attributes."""
    reused: tuple[str, ...] = ()
    """Layers copied from a local SIF."""
    sections: tuple[PackedSection, ...] = ()
    """Where each layer is in the SIF, if asked for; the top layer first."""


def layer_key(layer: Layer) -> str:
    """Return the digest of a layer that is verified when it is read: of its stored bytes, else of its tar."""
    return layer.digest or layer.diff_id


def form_of(options: ConvertOptions) -> str:
    """Return everything but the layers that determines the bytes of a SIF's contents."""
    chosen = codec(options.compression, options.level)
    library = library_version(chosen.name)
    return f"{_LAYOUT} {chosen.name}:{chosen.level} {library} {options.block_size} {options.squash_owners}"


def convert(
    image: OciImage,
    partial: Path | str,
    *,
    options: ConvertOptions | None = None,
    progress: Progress | None = None,
    known: KnownSif | None = None,
    index: bool = False,
) -> ConvertedImage:
    """Convert an image to a SIF at a temporary path, synced to disk.

    Parameters
    ----------
    image
        Its layers are opened one after another, the top one first.
    partial
        Temporary path; an existing file is replaced. After an error no file is left.
    progress
        Called with the layer bytes read so far and the total, at most ten times a second, also from other threads.
    known
        A SIF of the same form (`form_of`) with some of the layers, which are copied. The result has the same bytes.
    index
        Whether to return the sections.

    Raises
    ------
    BadInputError
        If the image is invalid, or larger than the options allow.
    VerificationError
        If a layer is damaged or does not match its digest.
    NoSpaceError
        If the SIF does not fit.
    HpcmodError
        On any other error of the operating system.
    """
    chosen = options or ConvertOptions()
    size = sum(layer.size for layer in image.layers)
    _LOG.info("converting %d layer(s), %d bytes, with %s", len(image.layers), size, chosen.compression)
    try:
        with _made_whole(Path(partial)) as file, _no_collector():
            converted = _Conversion(image, chosen, progress, index=index, known=known).write(file)
    except SourceChangedError as err:
        _LOG.warning("converting all layers: %s", err.message)
        return convert(image, partial, options=options, progress=progress, index=index)
    _LOG.info("converted: %d bytes, %d entries, sha256 %s", converted.size, converted.entries, converted.sha256)
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

    def __init__(
        self,
        image: OciImage,
        options: ConvertOptions,
        progress: Progress | None,
        *,
        index: bool,
        known: KnownSif | None,
    ) -> None:
        self._image, self._options = image, options
        self._index, self._known = index, known
        self._sections: list[PackedSection] = []
        self._reused: tuple[str, ...] = ()
        self._codec = codec(options.compression, options.level)
        self._size = sum(layer.size for layer in image.layers)
        self._ticker = Ticker(progress, self._size)
        self._read = 0
        self._partition_at = 0
        self._layers: list[list[Record]] = []
        """From the bottom layer up."""
        self._left_out = list(oci.left_out(image.config))
        self._entries = self._fetched_again = 0
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
        with self._source(file) as known:
            write_sif(
                file,
                architecture=config.architecture,
                created=config.created,
                uuid=uuid.uuid5(_NAMESPACE, self._name()).bytes,
                objects=objects,
                write_partition=lambda at: self._write_squashfs(at, files, known),
            )
            sha256 = self._hash(file, known)
        size = file.seek(0, os.SEEK_END)
        return ConvertedImage(
            *(sha256, size, self._entries, self._fetched_again, tuple(self._left_out)),
            *(self._reused, tuple(self._sections) if self._index else ()),
        )

    def _hash(self, file: BinaryIO, source: SectionSource | None) -> str:
        """Sync and hash the SIF, seal its sections, and compare the seals of those that are copied."""
        hasher = None
        if self._sections:
            seals = importlib.import_module("hpcmod.image.known_layers.seals")  # imports cryptography
            self._sections = [replace(one, key=one.key or seals.new_key()) for one in self._sections]
            hasher = seals.SealedHash([seals.Span(one.start, one.length, one.key) for one in self._sections])
        if source is not None and source.reused:
            source.sync()
            sha256 = hash_file(file, source.copied(self._tick), hasher=hasher)
        else:
            sha256 = sync_and_hash(file, hasher)
        if hasher is not None:
            sealed = [replace(one, seal=seal) for one, seal in zip(self._sections, hasher.seals())]
            for before, one in zip(self._sections, sealed):
                if source is not None and before.seal not in (b"", one.seal):
                    raise source.changed(one.layer)
            self._sections = sealed
        return sha256

    def _name(self) -> str:
        """Return a string that identifies the image and the options, for the SIF's UUID."""
        image, options = self._image, self._options
        content = image.digest or " ".join(layer.digest or layer.diff_id for layer in image.layers)
        how = (self._codec.name, self._codec.level, options.block_size, options.squash_owners)
        return f"{content} {how}"

    def _write_squashfs(self, file: BinaryIO, files: Sequence[oci.ImageFile], source: SectionSource | None) -> int:
        options = self._options
        self._partition_at = file.tell()
        with SquashfsWriter(file, codec=self._codec, block_size=options.block_size, threads=options.threads) as writer:
            allowance = self._allowance()
            self._read_layers(writer, allowance, source)
            tree = merge_layers(self._layers, mtime=self._mtime, on_directory=allowance.take_directory)
            self._read_again(writer, missing(tree.root))
            self._entries = sum(map(len, self._layers))
            self._layers.clear()  # free memory before the tables are made
            self._add(tree, writer, files)
            size = writer.finish(tree.root, mtime=self._mtime)
            self._left_out += sorted(name.decode(errors="replace") for name in writer.left_out)
        return size

    @contextmanager
    def _source(self, file: BinaryIO) -> Iterator[SectionSource | None]:
        """Open the local SIF; after the block, check that what was copied into the file is the expected one's."""
        try:
            source = SectionSource(self._known, file) if self._known is not None else None
        except (NotFoundError, BadInputError) as err:
            _LOG.info("not reused: %s", err.message)
            source = None
        if source is None:
            yield None
            return
        interval = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_INTERVAL)
        try:
            yield source
            if source.reused:
                source.finish()
                self._reused = tuple(source.reused)
        finally:
            sys.setswitchinterval(interval)
            source.close()

    def _read_layers(self, writer: SquashfsWriter, allowance: Allowance, source: SectionSource | None) -> None:
        """Write the contents of each layer into a section of its own, the top layer first."""
        hidden = Hidden()
        start, fragments = writer.end_section(), 0
        for layer in reversed(self._image.layers):
            found = source.copy(layer_key(layer), layer.size, hidden, writer) if source else None
            records: Sequence[Record]
            if found is not None:
                records, section = found
            else:
                with _entries(layer, allowance, self._tick) as entries:
                    records = read_layer(
                        entries, hidden, add_file=writer.add_file, squash_owners=self._options.squash_owners
                    )
            end = writer.end_section()
            written = writer.fragments_from(fragments)
            if found is not None:
                self._sections.append(replace(section, start=self._partition_at + start))
            elif self._index and layer_key(layer):
                packed = pack_entries(records, written, base=start, first_fragment=fragments)
                self._sections.append(
                    PackedSection(layer_key(layer), layer.size, self._partition_at + start, end - start, packed)
                )
            start, fragments = end, fragments + len(written)
            self._layers.insert(0, list(records))
            if len(self._layers) < len(self._image.layers):
                hidden.add(records)

    def _read_again(self, writer: SquashfsWriter, needed: set[int]) -> None:
        """Write the contents that the first pass wrongly skipped."""
        self._fetched_again = len(needed)
        allowance = self._allowance()
        for layer, records in zip(self._image.layers, self._layers):
            if needed and any(id(found) in needed for _, found in records):
                with _entries(layer, allowance, lambda count: None) as entries:
                    read_missing(entries, records, needed, writer.add_file)

    def _allowance(self) -> Allowance:
        limits = self._options
        return Allowance(
            self._size,
            most_bytes=limits.most_bytes,
            most_ratio=limits.most_ratio,
            most_memory=limits.most_memory,
        )

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
