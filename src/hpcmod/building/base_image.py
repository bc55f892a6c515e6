"""Check the base image of a build against the site's trust policy, before an engine pulls it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hpcmod.building.values.build_plan import BuildPlan
from hpcmod.building.values.definition import bases_of
from hpcmod.building.values.dockerfile import images_of
from hpcmod.core.errors import UntrustedError
from hpcmod.core.values.reference import OCI_KINDS, ImageReference
from hpcmod.core.values.trust import TrustPolicy, check_pinned
from hpcmod.images import LocalImage
from hpcmod.images.trust.policy import rule_for, verify_image_trust

if TYPE_CHECKING:
    from hpcmod.images import Access

_PIN = "Give its digest: docker://HOST/NAME@sha256:... (`hpcmod fetch --dry-run` prints it)."


def verify_bases(plan: BuildPlan, policy: TrustPolicy, *, access: Access, environ: Mapping[str, str]) -> None:
    """Check every base image of a build.

    The engine pulls the image itself, so an image that a rule applies to must be referenced by digest.

    Raises UntrustedError if an image has no digest although the policy has a rule for it, or its name contains a
    variable; HpcmodError if the policy is not met for another reason.
    """
    if not _demands(policy):
        return
    for reference in _bases(plan):
        rule = rule_for(policy, reference)
        if not rule.needs:
            continue
        if reference.kind not in OCI_KINDS:
            LocalImage.verify(Path(reference.path), reference, policy, checksum=None, environ=environ)
            continue
        if not reference.path and not reference.digest:
            raise UntrustedError(f"the base image {reference.canonical}: the site has a rule for {rule.source}", _PIN)
        check_pinned(reference, rule, None)
        verify_image_trust(reference, rule, (reference.digest,), access=access)


def _demands(policy: TrustPolicy) -> bool:
    mine = bool(policy.needs) or any(rule.needs for rule in policy.rules)
    return mine or (policy.also is not None and _demands(policy.also))


def _bases(plan: BuildPlan) -> Iterator[ImageReference]:
    if plan.base:
        yield ImageReference.parse(plan.base)
    if plan.own_form == "Dockerfile":
        yield from (_parse(plan, name if "://" in name else f"docker://{name}") for name in images_of(plan.own_text))
    elif plan.own_form:
        for bootstrap, source in bases_of(plan.own_text):
            if bootstrap not in ("docker", "localimage", "scratch"):
                raise UntrustedError(f"{plan.recipe}: the site has a trust policy, and Bootstrap: {bootstrap}", _PIN)
            if bootstrap != "scratch":
                yield _parse(plan, f"docker://{source}" if bootstrap == "docker" else str(Path(source).absolute()))


def _parse(plan: BuildPlan, name: str) -> ImageReference:
    if "$" in name or "{{" in name:
        raise UntrustedError(f"{plan.recipe}: the site has a trust policy, and {name} can be any image", _PIN)
    return ImageReference.parse(name)
