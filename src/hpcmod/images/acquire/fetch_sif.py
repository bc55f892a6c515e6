"""Fetch an image as a SIF to a temporary name: copied, downloaded or converted, by the kind of its reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hpcmod.core.fs.copying import copy_file
from hpcmod.core.fs.space import Need, check_room
from hpcmod.core.progress import Progress
from hpcmod.core.values.reference import OCI_KINDS, ImageReference, redact
from hpcmod.core.values.trust import TrustRule
from hpcmod.images.acquire.fetch import FileRequest, fetch_file
from hpcmod.images.acquire.origin import ObtainOptions, Origin
from hpcmod.images.convert import convert_image
from hpcmod.images.oci.image import OciImage
from hpcmod.images.registry import fetch_artifact
from hpcmod.images.sif.reader import check_start
from hpcmod.images.sif_file import Sif
from hpcmod.images.trust.policy import verify_image_trust

_PACKED, _PLAIN = 0.5, 0.1
"""Lower bounds of SIF bytes per layer byte, for compressed and plain layers; a lower bound never refuses wrongly."""


@dataclass(frozen=True)
class FetchTask:
    """One image to fetch."""

    reference: ImageReference
    """For images in a registry, pinned to a digest."""
    out: Path
    """Final path of the SIF, after all checks."""
    staged: Path
    """Temporary path of the SIF, in a directory that only this user may enter."""
    rule: TrustRule
    """The trust rule that the image must satisfy."""
    options: ObtainOptions
    progress: Progress | None


@dataclass(frozen=True)
class FetchedSif:
    """The SIF at the temporary path."""

    sha256: str
    """Checksum of the SIF."""
    digest: str = ""
    """Digest of the manifest or index that the reference names."""
    verified: tuple[str, ...] | None = None
    """How the image satisfies its trust rule, besides its digest; None: the SIF is to be checked."""
    source: str = ""
    """Original source, if known and different from the reference."""


def fetch_sif(task: FetchTask) -> FetchedSif:
    """Fetch an image as a SIF to its temporary path.

    Raises HpcmodError if it cannot be fetched or does not fit, or what it is made from does not satisfy its trust rule.
    """
    return _METHODS[task.reference.kind](task)


def _convert_image(task: FetchTask) -> FetchedSif:
    reference, options = task.reference, task.options
    with Origin(reference, options).open() as (image, digest):
        digests = [found for found in (digest, image.digest) if found]
        verified = verify_image_trust(reference, task.rule, digests, access=options.access)
        _check_target(image, task.staged, options)
        made = convert_image(image, task.staged, options=options.conversion, progress=task.progress)
    for what in made.left_out:
        options.tell(f"{reference.canonical}: left out: {what}")
    return FetchedSif(made.sha256, digest, verified)


def _check_target(image: OciImage, staged: Path, options: ObtainOptions) -> None:
    """Raise NoSpaceError early if the SIF, or the layers that the cache still needs, will not fit."""
    least = sum(layer.size * (_PACKED if "+" in layer.media_type else _PLAIN) for layer in image.layers)
    cache = options.cache
    needs = [Need(staged.parent, int(least), 2, "the SIF at least", "choose another path for the SIF")]
    if cache and image.reference.registry:
        missing = sum(layer.size for layer in image.layers if not cache.find(layer.digest, layer.size))
        needs.append(Need(cache.directory, missing, len(image.layers), "its layers", "do without the cache"))
    check_room(needs)


def _copy_path(task: FetchTask) -> FetchedSif:
    copied = copy_file(task.reference.path, task.staged, checksum=task.options.checksum, progress=task.progress)
    known = Sif(task.reference.path).provenance(task.options.environ)
    return FetchedSif(copied.sha256, known.digest, source=known.reference) if known else FetchedSif(copied.sha256)


def _fetch_url(task: FetchTask) -> FetchedSif:
    options, shown = task.options, task.reference.canonical
    request = FileRequest(
        task.reference.text,
        task.staged,
        checksum=options.checksum,
        keep_note=True,
        allow_http=options.access.allow_http,
        check_head=partial(check_start, redact(task.reference.text)),
    )
    sha256 = fetch_file(request, progress=task.progress, tell=options.tell)
    if options.checksum is None:
        options.tell(f"{shown}: no checksum was given; the file has sha256:{sha256}")
    return FetchedSif(sha256)


def _fetch_artifact(task: FetchTask) -> FetchedSif:
    options = task.options
    verified = verify_image_trust(task.reference, task.rule, [task.reference.digest], access=options.access)
    digest, sha256 = fetch_artifact(
        task.reference,
        task.staged,
        architecture=options.architecture,
        cache=options.cache,
        access=options.access,
        progress=task.progress,
    )
    return FetchedSif(sha256, digest, verified)


_METHODS: Mapping[str, Callable[[FetchTask], FetchedSif]] = {
    **dict.fromkeys(OCI_KINDS, _convert_image),
    "path": _copy_path,
    "name": _copy_path,
    "url": _fetch_url,
    "oras": _fetch_artifact,
}
