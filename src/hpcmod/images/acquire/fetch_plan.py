"""Plan the fetch of an image without fetching it: which bytes, from where, to where, and how they are verified."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from hpcmod.core.values.reference import ImageReference
from hpcmod.core.values.trust import check_pinned
from hpcmod.images.acquire.fetch_sif import ObtainOptions, pin
from hpcmod.images.acquire.locate import recognize
from hpcmod.images.registry import open_registry_image
from hpcmod.images.trust.policy import rule_for, subject_of


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


def plan_fetch(reference: ImageReference, out: Path, *, options: ObtainOptions) -> FetchPlan:
    """Plan what `obtain` would do.

    Raises HpcmodError as `obtain` before the download.
    """
    reference = recognize(reference)
    rule = rule_for(options.policy, reference)
    check_pinned(reference, rule, options.checksum)
    plain = FetchPlan(
        subject_of(reference), "", str(out), None, None, None, ", ".join(rule.needs) or "nothing required"
    )
    if reference.kind == "oras":
        return replace(plain, pinned=pin(reference, options).canonical)
    if reference.kind != "docker":
        return plain
    pinned = pin(reference, options)
    cache = options.cache
    with open_registry_image(pinned, architecture=options.architecture, cache=cache, access=options.access) as image:
        missing = [layer for layer in image.layers if not (cache and cache.find(layer.digest, layer.size))]
        return replace(
            plain,
            pinned=pinned.canonical,
            layers=len(image.layers),
            bytes=sum(layer.size for layer in image.layers),
            bytes_to_fetch=sum(layer.size for layer in missing),
        )
