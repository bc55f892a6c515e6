"""Read OCI images on disk: a layout directory, an archive of one, or the output of `docker save`.

Nothing is unpacked: the layers of an archive are read in place. Current output of `docker save` has both formats,
the index.json of the OCI and Docker's manifest.json.
"""

from __future__ import annotations

import io
import os
import posixpath
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from hpcmod.core.errors import BadInputError, NotFoundError, VerificationError
from hpcmod.core.fs.reading import open_input
from hpcmod.core.values.reference import ImageReference
from hpcmod.core.values.strict_json import show_value
from hpcmod.images.oci.image import Layer, OciImage, make_image, match_diff_ids, verified
from hpcmod.images.values.oci import (
    CONFIG_LIMIT,
    MANIFEST_LIMIT,
    OciDescriptor,
    SavedImage,
    check_platform,
    choose_platform,
    parse_config,
    parse_manifest,
    parse_saved,
)

_INDEX, _SAVED = "index.json", "manifest.json"
_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_MOST_MEMBERS = 10_000  # of an archive: at most four per layer
_MOST_INDEXES = 4  # nested
_BY_DIGEST = re.compile(r"(?:blobs/sha256/)?([0-9a-f]{64})(?:\.json)?")
_TAR, _GZIP = "application/vnd.docker.image.rootfs.diff.tar", b"\x1f\x8b"
_TAR_FAULTS = (tarfile.TarError, ValueError, OverflowError, EOFError, IndexError, RecursionError, MemoryError, OSError)
"""Errors of tarfile on damaged files: OSError for a seek before the start of the file."""
_PACKED = {_GZIP: "gunzip", b"\x28\xb5\x2f\xfd": "unzstd", b"\xfd7zXZ": "unxz", b"BZh": "bunzip2"}


@contextmanager
def read_layout(reference: ImageReference, *, architecture: str) -> Iterator[OciImage]:
    """Open an image in a layout or an archive; its layers can be opened until the end of the block.

    The reference's kind says which format is preferred if both exist; `architecture` is the GOARCH of the image to
    choose.

    Raises NotFoundError if there is no such file, directory or tag; BadInputError if it is damaged, or the reference
    does not choose one of several images, which are listed; VerificationError if it is truncated, or a part does not
    match its digest.
    """
    with ExitStack() as stack:
        path = Path(reference.path)
        files = _Directory(path) if path.is_dir() else _Archive(stack.enter_context(open_input(path)))
        saved = files.has(_SAVED) and (reference.kind == "docker-archive" or not files.has(_INDEX))
        if not saved and not files.has(_INDEX):
            raise BadInputError(
                f"{path}: not a container image: it has neither {_INDEX} nor {_SAVED}",
                "Create one with: docker save -o FILE NAME, or: skopeo copy docker://NAME oci-archive:FILE.",
            )
        yield (_read_saved if saved else _read_oci)(reference, files, architecture)


def _read_oci(reference: ImageReference, files: _Files, architecture: str) -> OciImage:
    index = parse_manifest(files.read(_INDEX, MANIFEST_LIMIT))
    if not isinstance(index, tuple):
        raise BadInputError(f"{files.path}: {_INDEX} is not an index")
    chosen = choose_platform(_named(reference, index), architecture)
    for _ in range(_MOST_INDEXES):
        manifest = parse_manifest(_read_blob(files, chosen, MANIFEST_LIMIT))
        if not isinstance(manifest, tuple):
            break
        chosen = choose_platform(manifest, architecture)
    else:
        raise BadInputError(f"{files.path}: indexes nested more than {_MOST_INDEXES} levels deep")
    text = _read_blob(files, manifest.config, CONFIG_LIMIT)
    for layer in manifest.layers:
        files.size(_blob_name(layer))  # fails early if a layer is missing or truncated
    return make_image(
        reference,
        manifest,
        text,
        digest=chosen.digest,
        architecture=architecture,
        open_blob=lambda blob: _open_blob(files, blob, f"layer {blob.digest}"),
    )


def _named(reference: ImageReference, entries: Sequence[OciDescriptor]) -> Sequence[OciDescriptor]:
    """Return the entries with the reference's tag; without a tag all, if they are one image."""
    names = {entry: [value for key, value in entry.annotations if key in _NAMES] for entry in entries}
    if reference.tag:
        found = [entry for entry in entries if any(_is_tag(name, reference.tag) for name in names[entry])]
        return found or _which(reference, [name for given in names.values() for name in given])
    images = {entry.digest for entry in entries}
    tags = {given[0] for given in names.values() if given}
    return entries if len(images) == 1 or len(tags) <= 1 else _which(reference, sorted(tags))


def _read_saved(reference: ImageReference, files: _Files, architecture: str) -> OciImage:
    image = _choose_saved(reference, parse_saved(files.read(_SAVED, MANIFEST_LIMIT)))
    with verified(files.open(image.config), digest=_digest_of(image.config), size=-1, what=image.config) as stream:
        text = stream.read(CONFIG_LIMIT + 1)
        stream.read(1)  # reaching the end verifies it
    config = check_platform(parse_config(text), architecture)
    diff_ids = match_diff_ids(config, len(image.layers))
    layers = tuple(_saved_layer(files, name, diff_id) for name, diff_id in zip(image.layers, diff_ids))
    return OciImage(reference, "", config, text, layers)


def _choose_saved(reference: ImageReference, images: Sequence[SavedImage]) -> SavedImage:
    if reference.tag:
        found = [image for image in images if any(_is_tag(tag, reference.tag) for tag in image.tags)]
    else:
        found = list(images)
    if len(found) != 1:
        _which(reference, [tag for image in images for tag in image.tags or ("one without a tag",)])
    return found[0]


def _which(reference: ImageReference, tags: Sequence[str]) -> list[OciDescriptor]:
    """Raise NotFoundError for a reference that matches none or several images, and list them."""
    there = (
        ", ".join(show_value(tag) for tag in tags[:20]) + (", ..." if len(tags) > 20 else "") or "images without a name"
    )
    missing = f"no image named {reference.tag!r}" if reference.tag else "not a single image"
    where = f"{reference.kind}:{reference.path}"
    raise NotFoundError(f"{where}: {missing}; found: {there}", f"Choose one of these: {where}:NAME.")


def _is_tag(name: str, asked: str) -> bool:
    """Return whether a name in an archive matches the requested one, which may omit registry and tag."""
    short = name.removeprefix("docker.io/").removeprefix("library/") if name.startswith("docker.io/") else name
    return asked in (name, short, short.removesuffix(":latest"))


def _saved_layer(files: _Files, name: str, diff_id: str) -> Layer:
    digest, size = _digest_of(name), files.size(name)
    with files.open(name) as stream:
        packed = stream.read(len(_GZIP)) == _GZIP

    def open_layer() -> BinaryIO:
        return verified(files.open(name), digest=digest, size=size, what=f"{files.path}: {name}")

    return Layer(digest, size, f"{_TAR}.gzip" if packed else _TAR, diff_id, open_layer)


def _digest_of(name: str) -> str:
    """Return the digest in the name of a file, else empty; in Docker's older archives only configurations have one."""
    match = _BY_DIGEST.fullmatch(name)
    return f"sha256:{match.group(1)}" if match else ""


def _blob_name(blob: OciDescriptor) -> str:
    return f"blobs/{blob.digest.replace(':', '/')}"


def _read_blob(files: _Files, blob: OciDescriptor, limit: int) -> bytes:
    if blob.size > limit:
        raise BadInputError(f"{files.path}: {blob.digest} has {blob.size} bytes, at most {limit} are read")
    with _open_blob(files, blob, f"{files.path}: {blob.digest}") as stream:
        return stream.read()


def _open_blob(files: _Files, blob: OciDescriptor, what: str) -> BinaryIO:
    return verified(files.open(_blob_name(blob)), digest=blob.digest, size=blob.size, what=what)


class _Files:
    """The files of a directory or an archive, by name."""

    def __init__(self, path: str, size: Callable[[str], int], open_file: Callable[[str], BinaryIO]) -> None:
        self.path = path
        self.size = size
        self.open = open_file

    def has(self, name: str) -> bool:
        """Return whether a file of this name exists."""
        try:
            self.size(name)
        except NotFoundError:
            return False
        return True

    def read(self, name: str, limit: int) -> bytes:
        """Read a file's first bytes, at most one more than the limit."""
        with self.open(name) as stream:
            return stream.read(limit + 1)

    def missing(self, name: str) -> NotFoundError:
        """Return the error for a missing file."""
        return NotFoundError(f"{self.path}: has no file {name}", "Create it again, with all its layers.")


class _Directory(_Files):
    """A directory; names are made from digests and cannot leave it."""

    def __init__(self, path: Path) -> None:
        def size(name: str) -> int:
            if not (path / name).is_file():
                raise self.missing(name)
            return (path / name).stat().st_size

        super().__init__(str(path), size, lambda name: open_input(path / name))


class _Archive(_Files):
    """An uncompressed tar file."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file.name, lambda name: self._place(name)[1], self._open)
        self._file = file
        self._refuse_packed()
        self._places = self._read_members()

    def _refuse_packed(self) -> None:
        start = self._file.read(6)
        self._file.seek(0)
        for magic, program in _PACKED.items():
            if start.startswith(magic):
                raise BadInputError(
                    f"{self.path}: the archive is compressed, so its layers cannot be read in place",
                    f"Decompress it: {program} {self.path}",
                )

    def _read_members(self) -> Mapping[str, tuple[int, int] | str]:
        """List the archive: offset and size of each file, target of each link."""
        places: dict[str, tuple[int, int] | str] = {}
        try:
            with tarfile.open(fileobj=self._file, mode="r:") as tar:
                for number, member in enumerate(tar):
                    if number >= _MOST_MEMBERS:
                        raise BadInputError(f"{self.path}: more than {_MOST_MEMBERS} files in the archive")
                    _add_member(places, member)
        except _TAR_FAULTS as err:
            raise BadInputError(f"{self.path}: not a tar archive, or damaged: {err}") from err
        return places

    def _place(self, name: str) -> tuple[int, int]:
        found = self._places.get(posixpath.normpath(name))
        if isinstance(found, str):  # Docker's older archives store a layer once and link to it
            found = self._places.get(found)
        if found is None or isinstance(found, str):
            raise self.missing(name)
        offset, size = found
        there = os.fstat(self._file.fileno()).st_size
        if size < 0 or offset + size > there:
            raise VerificationError(
                f"{self.path}: truncated: {name} ends at byte {offset + size}, the file has {there} bytes",
                "Copy or create the archive again.",
            )
        return found

    def _open(self, name: str) -> BinaryIO:
        return cast(BinaryIO, io.BufferedReader(_Part(self._file.fileno(), *self._place(name)), 1 << 20))


def _add_member(places: dict[str, tuple[int, int] | str], member: tarfile.TarInfo) -> None:
    name = posixpath.normpath(member.name)
    if member.isreg() and not member.issparse():
        places[name] = member.offset_data, member.size
    elif member.issym():
        places[name] = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.linkname))
    elif member.islnk():
        places[name] = posixpath.normpath(member.linkname)


class _Part(io.RawIOBase):
    """A part of an open file with its own position, so that several can be read at once."""

    def __init__(self, fd: int, offset: int, size: int) -> None:
        super().__init__()
        self._fd, self._at, self._end = fd, offset, offset + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # typeshed's WriteableBuffer
        view = memoryview(buffer).cast("B")
        count = os.preadv(self._fd, [view[: max(0, self._end - self._at)]], self._at)
        self._at += count
        return count
