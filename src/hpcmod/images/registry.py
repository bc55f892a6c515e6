"""Open, fetch and resolve images and artifacts of a registry (OCI distribution specification 1.1)."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from hpcmod.core.errors import BadInputError
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.fs.copying import copy_file
from hpcmod.core.fs.space import Need, check_room
from hpcmod.core.progress import Progress, Tally
from hpcmod.core.values.reference import ImageReference
from hpcmod.images.blobs.download import Downloads
from hpcmod.images.blobs.streamed import open_stream
from hpcmod.images.cache import SETTING, Cache
from hpcmod.images.oci.image import OciImage, make_image
from hpcmod.images.values.oci import Manifest, OciDescriptor, choose_platform, parse_manifest
from hpcmod.images.web.credentials import USUAL, Access
from hpcmod.images.web.repository import Repository

_DEEPEST = 3  # nested indexes
_SIF_LAYER = "application/vnd.sylabs.sif.layer.v1.sif"


@contextmanager
def _repository(reference: ImageReference, access: Access) -> Iterator[Repository]:
    if reference.kind not in ("docker", "oras"):
        raise BadInputError(
            f"image {reference.text!r}: not in a registry", "Write docker://HOST/NAME:TAG or oras://..."
        )
    with closing(access.session_factory()) as session:
        yield Repository(reference, session, access)


@contextmanager
def open_registry_image(
    reference: ImageReference,
    *,
    architecture: str,
    cache: Cache | None,
    access: Access = USUAL,
) -> Iterator[OciImage]:
    """Open an image in a registry; fetching the layers starts when one is first opened, and stops at the block's end.

    `architecture` is the GOARCH of the image to choose from an index. With a cache, several blobs are fetched at once,
    the top layer first; without one, the disk is not used: a layer is streamed each time it is read.

    Raises BadInputError if the manifest is not an image; NotFoundError if the registry has no such image; LackingError
    if there is no image for that architecture, or the cache cannot be written; NoSpaceError if it does not fit into the
    cache; VerificationError if a digest is wrong (here, or when a layer has been read to its end); RemoteError if the
    registry refuses or fails (here, or while a layer is read).
    """
    with _repository(reference, access) as repository:
        digest, manifest = _find_manifest(repository, reference, architecture, cache)
        config = repository.config(manifest.config, cache)
        tally = _make_tally(reference, manifest.layers)
        make = partial(make_image, reference, manifest, config, digest=digest, architecture=architecture)
        if cache is None:
            yield make(open_blob=partial(_stream, repository, tally))
            return
        layers = reversed(manifest.layers)  # the order in which a conversion reads them
        blobs = tuple({layer.digest: layer for layer in layers}.values())
        _check_cache(cache, blobs, reference)
        with Downloads(cache, repository.ask, blobs=blobs, tally=tally, tell=repository.tell) as downloads:
            yield make(open_blob=downloads.open)


def resolve(reference: ImageReference, *, access: Access = USUAL, cache: Cache | None = None) -> str:
    """Return the current digest of the manifest or index that a reference names in its registry.

    Raises HpcmodError as `open_registry_image`.
    """
    with _repository(reference, access) as repository:
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
    progress: Progress | None = None,
) -> tuple[str, str]:
    """Fetch a SIF that was pushed as an artifact (oras://); return the digest of its manifest, and its own sha256.

    If the temporary path `partial` already has the right file, it is not fetched again. Without a cache, interrupted
    downloads are kept in a directory beside it.

    Raises HpcmodError as `open_registry_image`.
    """
    with _repository(reference, access) as repository:
        digest, manifest = _find_manifest(repository, reference, architecture, cache)
        blob = _choose_file(reference, manifest)
        sha256 = blob.digest.partition(":")[2]
        store = cache or Cache(partial.with_name(f"{partial.name}.blobs"))
        if partial.is_file() and partial.stat().st_size == blob.size and file_sha256(partial) == sha256:
            _remove(store, keep=cache is not None)
            return digest, sha256
        copies = [Need(partial.parent, blob.size, 1, "the file", "choose another path for it")] if cache else []
        _check_cache(store, (blob,), reference, *copies)
        tally = _make_tally(reference, (blob,), progress)
        with Downloads(store, repository.ask, blobs=(blob,), tally=tally, tell=repository.tell) as downloads:
            downloads.wait(blob)
    _put(store, blob, partial, keep=cache is not None)
    return digest, sha256


def _put(store: Cache, blob: OciDescriptor, out: Path, *, keep: bool) -> None:
    """Move a fetched file to its path; with `keep`, leave it in the cache too."""
    if keep:
        copy_file(store.path(blob.digest), out, checksum=blob.digest)
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
    """Choose the SIF of an artifact: its only layer, or the layer with the media type of a SIF."""
    found = [layer for layer in manifest.layers if layer.media_type == _SIF_LAYER] or manifest.layers
    if len(found) != 1:
        raise BadInputError(
            f"{reference.canonical}: an artifact with {len(manifest.layers)} files, expected one SIF",
            "If it is a container image, write docker:// instead of oras://.",
        )
    return found[0]


def _find_manifest(
    repository: Repository, reference: ImageReference, architecture: str, cache: Cache | None
) -> tuple[str, Manifest]:
    """Read the manifest that a reference names, directly or through an index."""
    name = reference.digest or reference.tag
    for _ in range(_DEEPEST):
        digest, text = repository.manifest(name, cache)
        found = parse_manifest(text)
        if isinstance(found, Manifest):
            return digest, found
        name = choose_platform(found, architecture).digest
    raise BadInputError(f"{reference.canonical}: indexes nested {_DEEPEST} levels deep")


def _make_tally(reference: ImageReference, blobs: Iterable[OciDescriptor], progress: Progress | None = None) -> Tally:
    return Tally(reference.canonical, {blob.digest: blob.size for blob in blobs}, progress)


def _check_cache(cache: Cache, blobs: Sequence[OciDescriptor], reference: ImageReference, *more: Need) -> None:
    """Raise NoSpaceError early if the blobs and the additional needs do not fit."""
    missing = [blob for blob in blobs if not cache.find(blob.digest, blob.size)]
    size = sum(blob.size - min(blob.size, cache.size_of_partial(blob.digest)) for blob in missing)
    what = f"{len(missing)} blobs of {reference.canonical}"
    check_room([Need(cache.directory, size, 3 * len(missing), what, SETTING), *more])


def _stream(repository: Repository, tally: Tally, blob: OciDescriptor) -> BinaryIO:
    count = partial(tally.set, blob.digest)
    return open_stream(blob, ask=repository.ask, what=tally.what, tell=repository.tell, count=count)
