"""Bring an image's SIF to a temporary name: for each kind of reference the way there, copied, fetched or converted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from hpcmod.errors import BadInputError
from hpcmod.image.cache import Cache
from hpcmod.image.convert import ConvertOptions, convert
from hpcmod.image.copy import copy_image
from hpcmod.image.fetch import fetch_file
from hpcmod.image.integrity import Progress
from hpcmod.image.layout import read_layout
from hpcmod.image.oci_image import OciImage
from hpcmod.image.preflight import Need, check_room
from hpcmod.image.programs import build_sif, save_from_daemon
from hpcmod.image.provenance import is_remembered, read_provenance
from hpcmod.image.registry import Talk, fetch_artifact, open_registry_image, resolve
from hpcmod.image.sif import check_start
from hpcmod.image.trust import verify_image_trust
from hpcmod.image.web.repository import Access
from hpcmod.model.reference import OCI_KINDS, ImageReference, check_address, redact
from hpcmod.model.trust import ANYTHING, TrustEvidence, TrustPolicy, TrustRule

_ANYONE = Access()
_OURS = ConvertOptions()
_NOTHING = TrustEvidence()
_PACKED, _PLAIN = 0.5, 0.1
"""Of a layer's bytes, the least that a SIF will take, by whether it is compressed: what is refused will never fit."""


@dataclass(frozen=True)
class ObtainOptions:
    """How images are got on this machine."""

    architecture: str
    """Of the machine, as Go names it: amd64, arm64, ..."""
    tool: str
    """Name and version of this program, for the provenance."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Of programs that are run."""
    checksum: str | None = None
    """The sha256 that the SIF must have."""
    policy: TrustPolicy = ANYTHING
    cache: Cache | None = None
    """Where what comes from registries is kept; without it nothing but the SIF is written."""
    access: Access = _ANYONE
    conversion: ConvertOptions = _OURS
    by_runtime: bool = False
    """Whether OCI images are converted by the container runtime, for comparison."""
    replace: bool = False
    """Whether a file that is there, and is another one, may be replaced."""
    tell: Callable[[str], None] = lambda _: None
    """Called with a line for the user."""
    detail: Callable[[str], None] = lambda _: None
    """Called with how far each blob of an image in a registry is, as text."""


@dataclass(frozen=True)
class Task:
    """One image to bring."""

    reference: ImageReference
    """Of one in a registry, pinned."""
    out: Path
    """The name that the SIF gets when all is checked."""
    staged: Path
    """Its temporary name, in a directory that nobody else may enter."""
    rule: TrustRule
    """The trust rule that the image must satisfy."""
    options: ObtainOptions
    progress: Progress | None


@dataclass(frozen=True)
class Brought:
    """What is under the temporary name."""

    sha256: str = ""
    """Of the SIF; empty if that is not known yet."""
    digest: str = ""
    """Of the manifest or index that the reference names."""
    verified: TrustEvidence = _NOTHING
    """How an OCI image satisfies its trust rule, besides its digest."""
    tool: str = ""
    """What made the SIF, if that was another program."""
    source: str = ""
    """Where it once came from, if that is known and not what the reference says."""


def bring(task: Task) -> Brought:
    """Bring the SIF to its temporary name.

    Raises
    ------
    HpcmodError
        If it cannot be got or does not fit, or an OCI image does not satisfy its trust rule.
    """
    return _WAYS[task.reference.kind](task)


def _bring_image(task: Task) -> Brought:
    reference, options = task.reference, task.options
    with _open(task) as (image, digest):
        digests = [one for one in (digest, image.digest) if one]
        verified = verify_image_trust(reference, task.rule, digests, access=options.access)
        if options.by_runtime:
            build_sif(reference, task.staged, options.environ, allow_http=_may_be_plain(reference, options))
            return Brought("", digest, verified, "apptainer")
        _check_target(image, task.staged, options.cache)
        made = convert(image, task.staged, options=options.conversion, progress=task.progress)
    for what in made.left_out:
        options.tell(f"{reference.canonical}: left out: {what}")
    return Brought(made.sha256, digest, verified)


def _may_be_plain(reference: ImageReference, options: ObtainOptions) -> bool:
    """Return whether a registry may be asked over plain http: this machine's own, or where that was said."""
    try:
        check_address(f"http://{reference.registry}/", allow_http=options.access.allow_http)
    except BadInputError:
        return False
    return True


@contextmanager
def _open(task: Task) -> Iterator[tuple[OciImage, str]]:
    """Open an image, and give the digest that its reference names now."""
    reference, options = task.reference, task.options
    if reference.kind == "docker":
        with open_registry_image(
            reference,
            architecture=options.architecture,
            cache=options.cache,
            access=options.access,
            talk=Talk(tell=options.tell, detail=options.detail),
        ) as image:
            yield image, reference.digest
    elif reference.kind == "docker-daemon":
        with _saved(task) as image:
            yield image, image.digest
    else:
        with read_layout(reference, architecture=options.architecture) as image:
            yield image, image.digest


@contextmanager
def _saved(task: Task) -> Iterator[OciImage]:
    """Open an image that a daemon has, by way of an archive."""
    archive = task.staged.with_name(f"{task.staged.name}.tar")
    try:
        save_from_daemon(task.reference, archive, task.options.environ)
        saved = replace(task.reference, kind="docker-archive", path=str(archive), tag="")
        with read_layout(saved, architecture=task.options.architecture) as image:
            yield replace(image, reference=task.reference)
    finally:
        archive.unlink(missing_ok=True)


def pin(reference: ImageReference, options: ObtainOptions) -> ImageReference:
    """Give a reference the digest that its registry has for it now; others stay as they are.

    Raises
    ------
    HpcmodError
        As open_registry_image of a registry.
    """
    if not reference.registry or reference.digest:
        return reference
    return replace(reference, digest=resolve(reference, access=options.access, cache=options.cache))


def _check_target(image: OciImage, staged: Path, cache: Cache | None) -> None:
    """Refuse at once what will not fit: the SIF, and on the same disk what the cache still needs."""
    least = sum(layer.size * (_PACKED if "+" in layer.media_type else _PLAIN) for layer in image.layers)
    needs = [Need(staged.parent, int(least), 2, "the SIF at least", "name another place for the SIF")]
    if cache and image.reference.registry:
        missing = sum(one.size for one in image.layers if not cache.find(one.digest, one.size))
        needs.append(Need(cache.directory, missing, len(image.layers), "its layers", "do without the cache"))
    check_room(needs)


def _bring_path(task: Task) -> Brought:
    copied = copy_image(task.reference.path, task.staged, checksum=task.options.checksum, progress=task.progress)
    known = read_provenance(Path(task.reference.path))
    if known is None or not is_remembered(known, task.options.environ):
        return Brought(copied.sha256)
    return Brought(copied.sha256, known.digest, source=known.reference)


def _bring_url(task: Task) -> Brought:
    options, shown = task.options, task.reference.canonical
    fetched = fetch_file(
        task.reference.text,
        task.staged,
        keep_note=True,
        checksum=options.checksum,
        progress=task.progress,
        allow_http=options.access.allow_http,
        check_head=partial(check_start, redact(task.reference.text)),
        tell=options.tell,
    )
    if options.checksum is None:
        options.tell(f"{shown}: its checksum was not known beforehand; it is sha256:{fetched.sha256}")
    return Brought(fetched.sha256)


def _bring_artifact(task: Task) -> Brought:
    options = task.options
    fetched = fetch_artifact(
        *(task.reference, task.staged),
        architecture=options.architecture,
        cache=options.cache,
        access=options.access,
        talk=Talk(progress=task.progress, tell=options.tell, detail=options.detail),
    )
    return Brought(fetched.sha256, fetched.digest)


def _build(task: Task) -> Brought:
    build_sif(task.reference, task.staged, task.options.environ)
    return Brought(tool="apptainer")


_WAYS: Mapping[str, Callable[[Task], Brought]] = {
    **dict.fromkeys(OCI_KINDS, _bring_image),
    "path": _bring_path,
    "name": _bring_path,
    "url": _bring_url,
    "oras": _bring_artifact,
    "library": _build,
    "definition": _build,
}
