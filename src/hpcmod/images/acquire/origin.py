"""What is known of an image before it is fetched: its digest, its labels, and which bytes would come from where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.values.reference import LOCAL_KINDS, OCI_KINDS, ImageReference
from hpcmod.core.values.trust import ANYTHING, TrustPolicy, check_pinned
from hpcmod.images.acquire.locate import recognize
from hpcmod.images.cache import Cache
from hpcmod.images.convert import ConvertOptions
from hpcmod.images.oci.image import OciImage
from hpcmod.images.oci.layout import read_layout
from hpcmod.images.registry import open_registry_image, resolve
from hpcmod.images.sif_file import Sif
from hpcmod.images.trust.policy import LocalImage, rule_for, subject_of, verify_image_trust
from hpcmod.images.web.credentials import Access

_ANYONE = Access()
_OURS = ConvertOptions()


@dataclass(frozen=True)
class ObtainOptions:
    """Options for fetching images on this machine."""

    architecture: str
    """The machine's GOARCH: amd64, arm64, ..."""
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
class FetchPlan:
    """The planned fetch of one image."""

    reference: str
    pinned: str
    """The reference with its current digest; empty for kinds without one."""
    path: str
    """Path of the SIF."""
    layers: int | None
    """Number of layers; None for kinds without layers."""
    bytes: int | None
    """Stored size of all layers in bytes."""
    bytes_to_fetch: int | None
    """Stored size in bytes of the layers that are not in the cache."""
    policy: str
    """Requirements of the site's trust rule."""


@dataclass(frozen=True)
class Origin:
    """Where an image comes from, with the options for reading it; a reference in a registry, to a layout or to a SIF.

    Every method raises HpcmodError if the image cannot be read.
    """

    reference: ImageReference
    options: ObtainOptions

    def pin(self) -> ImageReference:
        """Pin a registry reference to its current digest; return other references unchanged."""
        if not self.reference.registry or self.reference.digest:
            return self.reference
        digest = resolve(self.reference, access=self.options.access, cache=self.options.cache)
        return replace(self.reference, digest=digest)

    def identify(self) -> str:
        """Return the digest of the image, or the sha256 of a SIF on disk; empty if only fetching it would tell."""
        if self.reference.registry:
            return self.pin().digest
        if self.reference.kind in OCI_KINDS:
            with self.open() as (image, _):
                return image.digest
        return file_sha256(Path(self.reference.path)) if self.reference.path else ""

    def labels(self) -> Mapping[str, str]:
        """Return the labels of the image without fetching it; of a SIF only if it is on disk."""
        if self.reference.kind in OCI_KINDS:
            with self.open() as (image, _):
                return dict(image.config.labels)
        return dict(Sif(self.reference.path).facts().labels) if self.reference.path else {}

    @contextmanager
    def open(self) -> Iterator[tuple[OciImage, str]]:
        """Open an OCI image; yield it and its digest, which is empty for a registry reference that is not pinned."""
        architecture, cache, access = self.options.architecture, self.options.cache, self.options.access
        if self.reference.kind == "docker":
            with open_registry_image(self.reference, architecture=architecture, cache=cache, access=access) as image:
                yield image, self.reference.digest
        else:
            with read_layout(self.reference, architecture=architecture) as image:
                yield image, image.digest

    def plan(self, out: Path) -> FetchPlan:
        """Plan what `obtain` would do, and check that the trust policy allows it, as far as can be known unfetched."""
        reference, cache = recognize(self.reference), self.options.cache
        options, rule = self.options, rule_for(self.options.policy, reference)
        if reference.kind in LOCAL_KINDS:
            path, checksum = Path(reference.path), options.checksum
            LocalImage.verify(path, reference, options.policy, checksum=checksum, environ=options.environ)
        else:
            check_pinned(reference, rule, options.checksum)
        needs = ", ".join(rule.needs) or "nothing required"
        plain = FetchPlan(subject_of(reference), "", str(out), None, None, None, needs)
        if reference.kind not in ("oras", *OCI_KINDS):
            return plain
        pinned = self.pin()
        if reference.kind != "docker":
            verify_image_trust(pinned, rule, [pinned.digest], access=options.access)
            return replace(plain, pinned=pinned.canonical if pinned.registry else "")
        with Origin(pinned, options).open() as (image, _):
            verify_image_trust(pinned, rule, [pinned.digest, image.digest], access=options.access)
            missing = [layer for layer in image.layers if not (cache and cache.find(layer.digest, layer.size))]
            return replace(
                plain,
                pinned=pinned.canonical,
                layers=len(image.layers),
                bytes=sum(layer.size for layer in image.layers),
                bytes_to_fetch=sum(layer.size for layer in missing),
            )
