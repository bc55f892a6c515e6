"""Enforce a site's trust policy on images that are being fetched or already exist."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from hpcmod.core.errors import BadInputError, UntrustedError, VerificationError
from hpcmod.core.values.facts import Provenance
from hpcmod.core.values.reference import LOCAL_KINDS, OCI_KINDS, ImageReference
from hpcmod.core.values.trust import ATTESTATION, TrustPolicy, TrustRule, check_pinned, stricter
from hpcmod.images.trust.provenance import is_remembered, read_provenance, sidecar
from hpcmod.images.trust.sif_signature import check_sif_signature

if TYPE_CHECKING:
    from hpcmod.images.web.credentials import Access

_SIGNATURE = "signature"
_NO_RULE = TrustRule("*")


@dataclass(frozen=True)
class LocalImage:
    """An image on disk that satisfies the trust policy; its sha256 is still to be checked."""

    path: Path
    sha256: str | None
    """Expected sha256; None if unknown."""
    provenance: Provenance | None
    """Its provenance, if known."""
    ours: bool = False
    """Whether hpcmod has fetched it for this user, now or earlier."""
    copy_rule: TrustRule = _NO_RULE
    """Rule for checking a copy, because this file may be replaced before it is copied."""
    verified: tuple[str, ...] = ()
    """How the policy was met, as `need: by what`."""
    place: str = ""
    """Path of the file that the policy was applied to, links resolved; read only this file."""

    @classmethod
    def verify(
        cls,
        sif: Path,
        reference: ImageReference,
        policy: TrustPolicy,
        *,
        checksum: str | None,
        environ: Mapping[str, str],
    ) -> LocalImage:
        """Check an existing SIF against the policy and its provenance file, without reading it in full.

        A reference to a registry or URL means that an earlier run has fetched the SIF.

        `checksum`: Its expected sha256.

        Raises VerificationError if it was fetched from another image than requested; UntrustedError if a digest was
        requested, but the file has no provenance; HpcmodError if the policy is not met.
        """
        known = read_provenance(sif)
        if known and reference.digest and known.digest != reference.digest:
            raise VerificationError(
                f"{sif}: was fetched from {known.reference} as {known.digest or 'a file'}, expected {reference.digest}",
                f"Remove it, and run this again: rm {sif} {sidecar(sif)}",
            )
        if reference.digest and not known and not checksum:
            raise UntrustedError(
                f"{sif}: no record that this file is {reference.canonical}",
                f"Rename it to fetch it again: mv {sif} {sif}.old. Or give its sha256 in `checksums`.",
            )
        ours = known if known and is_remembered(known, environ) else None
        place = os.path.realpath(sif)
        rule = _rule_for_found(place, reference, policy, ours)
        if rule.needs and reference.kind not in LOCAL_KINDS and not ours:
            raise UntrustedError(
                f"{sif}: the site has a rule for {rule.source}, but you have not fetched this file yourself",
                f"Remove it to fetch it: rm {sif}. If the site keeps images there, add a rule for that directory.",
            )
        verified = check_pinned(replace(reference, digest=ours.digest if ours else ""), rule, checksum)
        copy_rule = TrustRule(rule.source)
        if rule.signed:
            met = _met_by(ours, rule)  # when the SIF was made
            verified = (*verified, *(met or verify_sif_trust(sif, rule, environ)))
            copy_rule = copy_rule if met else rule._replace(needs=rule.signed)
        return cls(sif, known.sha256 if known else None, known, ours is not None, copy_rule, verified, place)

    def verify_copy(self, copy: Path, environ: Mapping[str, str]) -> None:
        """Check the signature of a copy, if the policy requires that; errors as of `check_sif_signature`."""
        verify_sif_trust(copy, self.copy_rule, environ, shown=self.path)


def verify_image_trust(
    reference: ImageReference, rule: TrustRule, digests: Sequence[str], *, access: Access
) -> tuple[str, ...]:
    """Check the signature and attestations of an image in a registry that a rule requires; return `need: by whom` each.

    `digests` may be signed: of the index that the reference names, and of the image chosen from it.

    Raises UntrustedError if there is none; HpcmodError as check_signatures.
    """
    if not rule.signed:
        return ()
    if reference.kind not in ("docker", "oras"):
        raise UntrustedError(
            f"{reference.canonical}: {_requires(rule, rule.signed[0])}, which only a registry has", _FROM_REGISTRY
        )
    from hpcmod.images.trust.cosign import check_signatures, fetch_signatures

    attested = rule.signed != (_SIGNATURE,)
    fetch = cache(partial(fetch_signatures, reference, access=access, attestations=attested))
    verified = []
    for need in rule.signed:
        for digest in digests:
            signatures = [signature for signature in fetch(digest) if signature.need == need]
            if signatures:
                break
        else:
            raise _missing(reference.canonical, digests[0], need)
        verified.append(f"{need}: {check_signatures(reference, digest, signatures, _with_signers(rule))}")
    return tuple(verified)


def _missing(image: str, digest: str, need: str) -> UntrustedError:
    """Return the error for an image that nobody has signed, or about which there is no such statement."""
    tag, kind = digest.replace(":", "-"), need[len(ATTESTATION) :]
    if need == _SIGNATURE:
        return UntrustedError(
            f"{image}: not signed: no tag {tag}.sig, and no bundle with a signature",
            "Ask its author to sign it: cosign sign --key KEY IMAGE@DIGEST.",
        )
    return UntrustedError(
        f"{image}: no attestation of type {kind}: none at the tag {tag}.att, and no bundle with one",
        f"Ask its author for one: cosign attest --key KEY --type {kind} --predicate FILE IMAGE@DIGEST.",
    )


def verify_sif_trust(
    sif: Path, rule: TrustRule, environ: Mapping[str, str], *, shown: Path | None = None
) -> tuple[str, ...]:
    """As `verify_image_trust`, of a SIF; `shown` and errors as in `check_sif_signature`."""
    for need in rule.signed:
        if need != _SIGNATURE:
            raise UntrustedError(f"{shown or sif}: {_requires(rule, need)}, which only a registry has", _FROM_REGISTRY)
    if not rule.signed:
        return ()
    return (f"{_SIGNATURE}: {check_sif_signature(sif, _with_signers(rule).keys, environ, shown=shown)}",)


_FROM_REGISTRY = "Fetch the image from its registry: docker://HOST/NAME@sha256:..."


def _requires(rule: TrustRule, need: str) -> str:
    return f"the site's rule for {rule.source} requires {'a signature' if need == _SIGNATURE else f'an {need}'}"


def _with_signers(rule: TrustRule) -> TrustRule:
    """Return a rule that requires a signature, if it says by whom."""
    if not rule.keys and not rule.signers:
        raise BadInputError(
            f"{_requires(rule, rule.signed[0])}, but it lists no keys or signers",
            "Add public keys: [trust] keys = [...]; or signers = [...].",
        )
    return rule


def subject_of(reference: ImageReference) -> str:
    """Return the subject for rules and records: the canonical reference, or the absolute path of a file."""
    if not reference.path:
        return reference.canonical
    whole = replace(reference, path=str(Path(reference.path).absolute()))
    return whole.canonical if reference.kind in OCI_KINDS else whole.path


def rule_for(policy: TrustPolicy, reference: ImageReference) -> TrustRule:
    """Return the rule for a reference; links in local paths are followed.

    Raises UntrustedError if the address is ambiguous for rules, because servers interpret it differently.
    """
    if reference.path:
        reference = replace(reference, path=os.path.realpath(reference.path))
    return policy.rule_for(subject_of(reference), os.path.realpath)


def _rule_for_found(place: str, reference: ImageReference, policy: TrustPolicy, ours: Provenance | None) -> TrustRule:
    """Return the rule for a file: by its path, else by its origin."""
    alone = policy._replace(also=None)
    source = place
    if not alone.find(place, os.path.realpath):
        local = reference.kind in LOCAL_KINDS
        source = (ours.reference if ours else place) if local else reference.canonical
    rule = alone.rule_for(source, os.path.realpath)
    return stricter(rule, _rule_for_found(place, reference, policy.also, ours)) if policy.also else rule


def is_met(known: Provenance, rule: TrustRule) -> bool:
    """Return whether a SIF met the rule when it was fetched."""
    met = {entry.partition(": ")[0] for entry in known.verified}
    return set(rule.needs) <= met and (not rule.signed or bool(_met_by(known, rule)))


def _met_by(known: Provenance | None, rule: TrustRule) -> tuple[str, ...]:
    """Return how the image that a SIF was made from met all needs of signatures, as recorded; empty if it did not."""
    split = [(entry, *entry.partition(": ")[::2]) for entry in (known.verified if known else ())]
    by_need = {need: entry for entry, need, by in split if rule.accepts(by)}
    return tuple(by_need[need] for need in rule.signed) if by_need.keys() >= set(rule.signed) else ()
