"""Say what getting an image would do, without doing it: which bytes, from where, to where, verified how."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from hpcmod.image.bring import ObtainOptions, pin
from hpcmod.image.locate import recognize
from hpcmod.image.registry import open_registry_image
from hpcmod.image.trust import rule_for, subject_of
from hpcmod.model.reference import ImageReference
from hpcmod.model.trust import check_pinned


@dataclass(frozen=True)
class FetchPlan:
    """What would happen."""

    reference: str
    pinned: str
    """The reference with the digest that it has now; empty for kinds without one."""
    path: str
    """Where the SIF would be."""
    layers: int | None
    """How many there are; None for kinds without."""
    bytes: int | None
    """Of all layers, as they are stored."""
    bytes_to_fetch: int | None
    """Of those that are not in the cache."""
    policy: str
    """What the site's rule needs."""


def plan_fetch(reference: ImageReference, out: Path, *, options: ObtainOptions) -> FetchPlan:
    """Plan what `obtain` would do.

    Raises
    ------
    HpcmodError
        If it would refuse before anything large is fetched.
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
        missing = [one for one in image.layers if not (cache and cache.find(one.digest, one.size))]
        return replace(
            plain,
            pinned=pinned.canonical,
            layers=len(image.layers),
            bytes=sum(one.size for one in image.layers),
            bytes_to_fetch=sum(one.size for one in missing),
        )
