"""Fetch an image as a SIF to a temporary name: copied, downloaded or converted, by the kind of its reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from hpcmod.core.fs.space import Need, check_room
from hpcmod.core.progress import Progress
from hpcmod.core.values.reference import OCI_KINDS, ImageReference, redact
from hpcmod.core.values.trust import ANYTHING, TrustEvidence, TrustPolicy, TrustRule
from hpcmod.images.acquire.fetch import FileRequest, fetch_file
from hpcmod.images.cache import Cache
from hpcmod.images.convert import ConvertOptions, convert_image
from hpcmod.images.copy import copy_image
from hpcmod.images.inspect.contents import read_facts
from hpcmod.images.integrity import file_sha256
from hpcmod.images.oci.image import OciImage
from hpcmod.images.oci.layout import read_layout
from hpcmod.images.registry import fetch_artifact, open_registry_image, resolve
from hpcmod.images.sif.reader import check_start
from hpcmod.images.trust.policy import verify_image_trust
from hpcmod.images.trust.provenance import is_remembered, read_provenance
from hpcmod.images.web.credentials import Access

_ANYONE = Access()
_OURS = ConvertOptions()
_NOTHING = TrustEvidence()
_PACKED, _PLAIN = 0.5, 0.1
"""Lower bounds of SIF bytes per layer byte, for compressed and plain layers; a lower bound never refuses wrongly."""


@dataclass(frozen=True)
class ObtainOptions:
    """Options for fetching images on this machine."""

    architecture: str
    """The machine's GOARCH: amd64, arm64, ..."""
    tool: str
    """Name and version of this program, for the provenance file."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for child processes."""
    checksum: str | None = None
    """Expected sha256 of the SIF."""
    policy: TrustPolicy = ANYTHING
    cache: Cache | None = None
    """Cache for blobs from registries; if None, only the SIF is written."""
    access: Access = _ANYONE
    conversion: ConvertOptions = _OURS
    replace: bool = False
    """Replace an existing file with different content."""
    striping: str = ""
    """Options of `lfs setstripe` for the SIF; empty: the default of its directory."""
    readers: int | None = None
    """ID of the group that alone may read the SIF, besides its owner; None: those whom the umask allows."""
    tell: Callable[[str], None] = lambda _: None
    """Called with each message for the user."""


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
    verified: TrustEvidence = _NOTHING
    """Evidence that an OCI image satisfies its trust rule, besides its digest."""
    source: str = ""
    """Original source, if known and different from the reference."""


def fetch_sif(task: FetchTask) -> FetchedSif:
    """Fetch an image as a SIF to its temporary path.

    Raises HpcmodError if it cannot be fetched or does not fit, or an OCI image does not satisfy its trust rule.
    """
    return _METHODS[task.reference.kind](task)


def _convert_image(task: FetchTask) -> FetchedSif:
    reference, options = task.reference, task.options
    with _open(reference, options) as (image, digest):
        digests = [found for found in (digest, image.digest) if found]
        verified = verify_image_trust(reference, task.rule, digests, access=options.access)
        _check_target(image, task.staged, options)
        made = convert_image(image, task.staged, options=options.conversion, progress=task.progress)
    for what in made.left_out:
        options.tell(f"{reference.canonical}: left out: {what}")
    return FetchedSif(made.sha256, digest, verified)


@contextmanager
def _open(reference: ImageReference, options: ObtainOptions) -> Iterator[tuple[OciImage, str]]:
    """Open an image; yield it and the digest that its reference resolves to now."""
    if reference.kind == "docker":
        architecture, cache, access = options.architecture, options.cache, options.access
        with open_registry_image(reference, architecture=architecture, cache=cache, access=access) as image:
            yield image, reference.digest
    else:
        with read_layout(reference, architecture=options.architecture) as image:
            yield image, image.digest


def labels_of(reference: ImageReference, options: ObtainOptions) -> Mapping[str, str]:
    """Return the labels of an image without fetching it; of a SIF only if it is on disk.

    Raises HpcmodError if the image cannot be read.
    """
    if reference.kind in OCI_KINDS:
        with _open(reference, options) as (image, _):
            return dict(image.config.labels)
    return dict(read_facts(reference.path).labels) if reference.path else {}


def identify(reference: ImageReference, options: ObtainOptions) -> str:
    """Return the digest of an image, or the sha256 of a SIF on disk; empty if only fetching it would tell.

    Raises HpcmodError if the image cannot be read.
    """
    if reference.registry:
        return pin(reference, options).digest
    if reference.kind in OCI_KINDS:
        with _open(reference, options) as (image, _):
            return image.digest
    return file_sha256(Path(reference.path)) if reference.path else ""


def pin(reference: ImageReference, options: ObtainOptions) -> ImageReference:
    """Pin a registry reference to its current digest; return other references unchanged.

    Raises HpcmodError as `resolve`.
    """
    if not reference.registry or reference.digest:
        return reference
    return replace(reference, digest=resolve(reference, access=options.access, cache=options.cache))


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
    copied = copy_image(task.reference.path, task.staged, checksum=task.options.checksum, progress=task.progress)
    known = read_provenance(Path(task.reference.path))
    if known is None or not is_remembered(known, task.options.environ):
        return FetchedSif(copied.sha256)
    return FetchedSif(copied.sha256, known.digest, source=known.reference)


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
    digest, sha256 = fetch_artifact(
        task.reference,
        task.staged,
        architecture=options.architecture,
        cache=options.cache,
        access=options.access,
        progress=task.progress,
    )
    return FetchedSif(sha256, digest)


_METHODS: Mapping[str, Callable[[FetchTask], FetchedSif]] = {
    **dict.fromkeys(OCI_KINDS, _convert_image),
    "path": _copy_path,
    "name": _copy_path,
    "url": _fetch_url,
    "oras": _fetch_artifact,
}
