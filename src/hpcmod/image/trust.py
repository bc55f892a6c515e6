"""Enforce a site's trust policy on an image that is on its way, or that is there already."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hpcmod.errors import BadInputError, UntrustedError, VerificationError
from hpcmod.image.provenance import Provenance, is_remembered, read_provenance, sidecar
from hpcmod.image.signatures.sif import check_sif_signature
from hpcmod.model.reference import LOCAL_KINDS, OCI_KINDS, ImageReference
from hpcmod.model.trust import TrustEvidence, TrustPolicy, TrustRule, check_pinned, stricter

if TYPE_CHECKING:
    from hpcmod.image.web.repository import Access

_SIGNATURE = "signature"


@dataclass(frozen=True)
class Found:
    """A SIF that is there already, and may be used."""

    verified: TrustEvidence
    sha256: str | None
    """What it must have, from the file beside it; None if there is none."""
    provenance: Provenance | None
    copy_rule: TrustRule
    """What a copy must be checked for itself, for this file may be another one by the time that it is copied."""
    ours: bool = False
    """Whether a run of this user has got it."""
    place: str = ""
    """The file that the policy was applied to, links followed: what is read must be this."""


def verify_image_trust(
    reference: ImageReference, rule: TrustRule, digests: Sequence[str], *, access: Access
) -> TrustEvidence:
    """Check the signature of an image in a registry, if the rule wants one.

    Parameters
    ----------
    digests
        Any of which may have been signed: of the index that the reference names, and of the image chosen from it.

    Raises
    ------
    HpcmodError
        As check_signatures.
    """
    if _SIGNATURE not in rule.needs:
        return TrustEvidence()
    if reference.kind != "docker":
        raise UntrustedError(
            f"{reference.canonical}: the site's rule for {rule.source} wants a signature, which only a registry keeps",
            "Get the image from its registry: docker://HOST/NAME@sha256:...",
        )
    from hpcmod.image.signatures.cosign import (  # imports requests, which is slow to start
        check_signatures,
        fetch_signatures,
    )

    for digest in dict.fromkeys(digests):
        signatures = fetch_signatures(reference, digest, access=access)
        if signatures:
            break
    else:
        digest, signatures = digests[0], []
    _keys(rule)
    return TrustEvidence(((_SIGNATURE, check_signatures(reference, digest, signatures, rule)),))


def verify_sif_trust(
    sif: Path, rule: TrustRule, environ: Mapping[str, str], *, shown: Path | None = None
) -> TrustEvidence:
    """Check the signature of a SIF, if the rule wants one; `shown` and the errors are those of check_sif_signature."""
    if _SIGNATURE not in rule.needs:
        return TrustEvidence()
    return TrustEvidence(((_SIGNATURE, check_sif_signature(sif, _keys(rule), environ, shown=shown)),))


def _keys(rule: TrustRule) -> tuple[str, ...]:
    if not rule.keys:
        raise BadInputError(
            f"the site's rule for {rule.source} wants a signature, and names no keys",
            "Name some: [trust] keys = [...].",
        )
    return rule.keys


def verify_local_sif(
    sif: Path, reference: ImageReference, policy: TrustPolicy, *, checksum: str | None, environ: Mapping[str, str]
) -> Found:
    """Check a SIF that is there already against the policy and against what lies beside it; its bytes are not read.

    Parameters
    ----------
    reference
        What was asked for; where it names a registry or an address, an earlier run has put the SIF there.
    checksum
        The sha256 that the SIF must have; None if none is known.

    Raises
    ------
    VerificationError
        If it was fetched from another image than the one asked for.
    UntrustedError
        If a digest was asked for, and nothing tells what the file was fetched from.
    HpcmodError
        If the policy is not met.
    """
    known = read_provenance(sif)
    if known and reference.digest and known.digest != reference.digest:
        raise VerificationError(
            f"{sif}: was fetched from {known.reference} as {known.digest or 'a file'}, expected {reference.digest}",
            f"Remove it, and run this again: rm {sif} {sidecar(sif)}",
        )
    if reference.digest and not known and not checksum:
        raise UntrustedError(
            f"{sif}: nothing tells that this file is {reference.canonical}",
            f"Rename it, so that it is fetched again: mv {sif} {sif}.old. Or give its sha256: `checksums`.",
        )
    ours = known if known and is_remembered(known, environ) else None
    place = os.path.realpath(sif)
    rule = _rule_for_found(place, reference, policy, ours)
    if rule.needs and reference.kind not in LOCAL_KINDS and not ours:
        raise UntrustedError(
            f"{sif}: the site has a rule for {rule.source}, and you have not fetched this file: it may be any",
            f"Remove it, so that it is fetched: rm {sif}. A site that keeps images there names the place in a rule.",
        )
    verified = check_pinned(replace(reference, digest=ours.digest if ours else ""), rule, checksum)
    copy_rule = TrustRule(rule.source)
    if _SIGNATURE in rule.needs:
        verified = TrustEvidence((*verified.needs, *_signed(sif, rule, ours, environ).needs))
        copy_rule = copy_rule if _key_of(ours, rule) else replace(rule, needs=(_SIGNATURE,))
    return Found(verified, known.sha256 if known else None, known, copy_rule, ours is not None, place)


def subject_of(reference: ImageReference) -> str:
    """Return what rules are matched with, and records show: the canonical reference, or the absolute path of a file."""
    if not reference.path:
        return reference.canonical
    whole = replace(reference, path=str(Path(reference.path).absolute()))
    return whole.canonical if reference.kind in OCI_KINDS else whole.path


def rule_for(policy: TrustPolicy, reference: ImageReference) -> TrustRule:
    """Return the rule for a reference; of one that is on disk, links are followed.

    Raises
    ------
    UntrustedError
        If no rule can tell, since servers differ in what the address means.
    """
    if reference.path:
        reference = replace(reference, path=os.path.realpath(reference.path))
    return policy.rule_for(subject_of(reference), os.path.realpath)


def _rule_for_found(place: str, reference: ImageReference, policy: TrustPolicy, ours: Provenance | None) -> TrustRule:
    """Return the rule for a file: one that names its place, else the one for where it came from."""
    alone = replace(policy, also=None)
    source = place
    if not alone.find(place, os.path.realpath):
        local = reference.kind in LOCAL_KINDS
        source = (ours.reference if ours else place) if local else reference.canonical
    rule = alone.rule_for(source, os.path.realpath)
    return stricter(rule, _rule_for_found(place, reference, policy.also, ours)) if policy.also else rule


def is_met(known: Provenance, rule: TrustRule) -> bool:
    """Return whether a SIF met the rule when it was got."""
    met = {one.partition(": ")[0] for one in known.verified}
    return set(rule.needs) <= met and (_SIGNATURE not in rule.needs or bool(_key_of(known, rule)))


def _key_of(known: Provenance | None, rule: TrustRule) -> str:
    """Return the key of the rule that had signed what a SIF was made of; empty if none had."""
    verified = known.verified if known else ()
    return next((key for key in rule.keys if f"{_SIGNATURE}: {key}" in verified), "")


def _signed(sif: Path, rule: TrustRule, known: Provenance | None, environ: Mapping[str, str]) -> TrustEvidence:
    """Take a signature that was checked when the SIF was made of a signed image, else check that of the SIF."""
    key = _key_of(known, rule)
    return TrustEvidence(((_SIGNATURE, key),)) if key else verify_sif_trust(sif, rule, environ)
