"""Images and artifacts of a registry, as the OCI distribution specification 1.1 has them: open, fetch, resolve."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from hpcmod.errors import BadInputError, RemoteError
from hpcmod.image.blobs.download import Downloads
from hpcmod.image.blobs.streamed import open_stream
from hpcmod.image.blobs.tally import Tally
from hpcmod.image.cache import SETTING, Cache
from hpcmod.image.copy import copy_image
from hpcmod.image.integrity import Progress, file_sha256
from hpcmod.image.oci_image import OciImage, make_image
from hpcmod.image.preflight import Need, check_room
from hpcmod.image.web.repository import USUAL, Access, Repository
from hpcmod.model.oci import Manifest, OciDescriptor, choose_platform, parse_manifest
from hpcmod.model.reference import ImageReference

_DEEPEST = 3  # indexes in indexes
_SIF_LAYER = "application/vnd.sylabs.sif.layer.v1.sif"


@dataclass(frozen=True)
class Fetched:
    """An artifact that was fetched."""

    digest: str
    """Of its manifest."""
    sha256: str
    """Of the file: 64 hexadecimal digits."""
    size: int
    """Bytes of the file."""


@dataclass(frozen=True)
class Talk:
    """How a fetch shows what it does."""

    progress: Progress | None = None
    """Called with bytes done and bytes in all, at most ten times a second."""
    detail: Callable[[str], None] | None = None
    """Called before that with how far each blob is, as text."""
    tell: Callable[[str], None] | None = None
    """Called with a line for the user where another process or a server is waited for; None: as the access says."""


QUIET = Talk()


@contextmanager
def _repository(reference: ImageReference, access: Access, talk: Talk) -> Iterator[Repository]:
    if reference.kind not in ("docker", "oras"):
        raise BadInputError(
            f"image {reference.text!r}: is in no registry", "Write docker://HOST/NAME:TAG or oras://..."
        )
    with closing(access.session_factory()) as session:
        yield Repository(reference, session, access, tell=talk.tell)


@contextmanager
def open_registry_image(
    reference: ImageReference,
    *,
    architecture: str,
    cache: Cache | None,
    access: Access = USUAL,
    talk: Talk = QUIET,
) -> Iterator[OciImage]:
    """Open an image of a registry; its layers are fetched when one is first opened, and until the end of the block.

    Parameters
    ----------
    reference
        docker://...
    architecture
        What to choose of an index, as Go names it: amd64, arm64, ...
    cache
        Where blobs are kept: several are fetched at once, the top layer first, and what is fetched once is not fetched
        again. Without it nothing touches the disk: a layer is fetched while it is read, each time that it is.

    Raises
    ------
    BadInputError
        If what is there is no image.
    NotFoundError
        If there is nothing of that name.
    LackingError
        If there is none for that architecture, or the cache cannot be written.
    NoSpaceError
        If it does not fit into the cache.
    VerificationError
        If a digest is not the one promised; here, or when a layer has been read to its end.
    RemoteError
        If the registry refuses or fails; here, or while a layer is read.
    """
    with _repository(reference, access, talk) as repository:
        digest, manifest = _find_manifest(repository, reference, architecture, cache)
        config = repository.config(manifest.config, cache)
        tally = _make_tally(reference, manifest.layers, talk)

        plain = make_image(reference, manifest, config, digest=digest, architecture=architecture, open_blob=_never)
        if cache is None:
            yield _with_openers(plain, [partial(_stream, repository, blob, tally, talk) for blob in manifest.layers])
            return
        blobs = _unique(reversed(manifest.layers))  # the order in which a conversion reads them
        _check_cache(cache, blobs, reference)
        with Downloads(cache, repository.ask, blobs=blobs, tally=tally, tell=repository.tell) as downloads:
            yield _with_openers(plain, [partial(downloads.open, blob) for blob in manifest.layers])


def resolve(
    reference: ImageReference, *, access: Access = USUAL, cache: Cache | None = None, talk: Talk = QUIET
) -> str:
    """Tell what a tag or a digest names in its registry now: the digest of a manifest or an index.

    Raises
    ------
    HpcmodError
        As `open_registry_image`.
    """
    with _repository(reference, access, talk) as repository:
        digest, text = repository.manifest(reference.digest or reference.tag, cache)
    parse_manifest(text)
    return digest


def fetch_artifact(
    reference: ImageReference,
    partial: Path,
    *,
    architecture: str,
    cache: Cache | None = None,
    access: Access = USUAL,
    talk: Talk = QUIET,
) -> Fetched:
    """Fetch a SIF that was pushed to a registry as an artifact (oras://).

    Parameters
    ----------
    partial
        Temporary name, the same each time: a file that is there already and is the very one is not fetched again.
    cache
        Where it is kept besides; without it what an interrupted fetch leaves lies in a directory beside `partial`.

    Raises
    ------
    HpcmodError
        As `open_registry_image`.
    """
    with _repository(reference, access, talk) as repository:
        digest, manifest = _find_manifest(repository, reference, architecture, cache)
        blob = _choose_file(reference, manifest)
        fetched = Fetched(digest, blob.digest.partition(":")[2], blob.size)
        store = cache or Cache(partial.with_name(f"{partial.name}.blobs"))
        if _is_there(partial, fetched):
            _remove(store, keep=cache is not None)
            return fetched
        copies = [Need(partial.parent, blob.size, 1, "the file", "name another place for it")] if cache else []
        _check_cache(store, (blob,), reference, *copies)
        tally = _make_tally(reference, (blob,), talk)
        with Downloads(store, repository.ask, blobs=(blob,), tally=tally, tell=repository.tell) as downloads:
            downloads.wait(blob)
    _put(store, blob, partial, keep=cache is not None)
    return fetched


def _is_there(partial: Path, fetched: Fetched) -> bool:
    """Return whether an earlier fetch has left the whole file."""
    try:
        return partial.stat().st_size == fetched.size and file_sha256(partial) == fetched.sha256
    except FileNotFoundError:
        return False


def _put(store: Cache, blob: OciDescriptor, out: Path, *, keep: bool) -> None:
    """Give a fetched file its own name; `keep` leaves it in the cache too."""
    if keep:
        copy_image(store.path(blob.digest), out, checksum=blob.digest)
        return
    try:
        store.path(blob.digest).chmod(0o644)
        store.path(blob.digest).replace(out)
    except OSError as err:
        raise store.fault(err) from err
    _remove(store, keep=keep)


def _remove(store: Cache, *, keep: bool) -> None:
    if not keep:
        shutil.rmtree(store.directory, ignore_errors=True)


def _choose_file(reference: ImageReference, manifest: Manifest) -> OciDescriptor:
    """Choose the SIF of an artifact: its one layer, or the one that says so."""
    marked = [layer for layer in manifest.layers if layer.media_type == _SIF_LAYER]
    found = marked or list(manifest.layers)
    if len(found) != 1:
        raise BadInputError(
            f"{reference.canonical}: is an artifact of {len(manifest.layers)} files, expected one SIF",
            "If it is a container image, write docker:// in place of oras://.",
        )
    return found[0]


def _find_manifest(
    repository: Repository, reference: ImageReference, architecture: str, cache: Cache | None
) -> tuple[str, Manifest]:
    """Read the manifest that a reference names, by way of an index if it names one."""
    name = reference.digest or reference.tag
    for _ in range(_DEEPEST):
        digest, text = repository.manifest(name, cache)
        found = parse_manifest(text)
        if isinstance(found, Manifest):
            return digest, found
        name = choose_platform(found, architecture).digest
    raise BadInputError(f"{reference.canonical}: an index in an index, {_DEEPEST} deep")


def _make_tally(reference: ImageReference, blobs: Iterable[OciDescriptor], talk: Talk) -> Tally:
    sizes = {blob.digest: blob.size for blob in blobs}
    return Tally(reference.canonical, sizes, progress=talk.progress, detail=talk.detail)


def _unique(blobs: Iterable[OciDescriptor]) -> tuple[OciDescriptor, ...]:
    return tuple({blob.digest: blob for blob in blobs}.values())


def _check_cache(cache: Cache, blobs: Sequence[OciDescriptor], reference: ImageReference, *more: Need) -> None:
    """Refuse at once what will not fit into the cache, or with more that is to be written."""
    missing = [blob for blob in blobs if not cache.find(blob.digest, blob.size)]
    size = sum(blob.size - min(blob.size, cache.size_of_partial(blob.digest)) for blob in missing)
    what = f"{len(missing)} blobs of {reference.canonical}"
    check_room([Need(cache.directory, size, 3 * len(missing), what, SETTING), *more])


def _never(blob: OciDescriptor) -> BinaryIO:
    raise RemoteError(f"{blob.digest}: is not opened yet")


def _stream(repository: Repository, blob: OciDescriptor, tally: Tally, talk: Talk) -> BinaryIO:
    count = partial(tally.set, blob.digest)
    return open_stream(blob, ask=repository.ask, what=tally.what, tell=repository.tell, count=count)


def _with_openers(image: OciImage, openers: list[Callable[[], BinaryIO]]) -> OciImage:
    return replace(image, layers=tuple(replace(layer, open=opener) for layer, opener in zip(image.layers, openers)))
