"""Verify an image on request: its format, its checksum, and the requirements of the trust policy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from hpcmod.core.errors import BadInputError
from hpcmod.core.fs.checksums import check_sha256, file_sha256
from hpcmod.core.progress import Progress
from hpcmod.core.values.reference import LOCAL_KINDS, ImageReference
from hpcmod.core.values.trust import TrustPolicy, TrustRule, check_pinned
from hpcmod.images.acquire.origin import ObtainOptions
from hpcmod.images.registry import open_registry_image, resolve
from hpcmod.images.sif.reader import read_sif, squashfs_partition
from hpcmod.images.trust.policy import LocalImage, rule_for, verify_image_trust


@dataclass(frozen=True)
class Verified:
    """A verified image."""

    image: str
    sha256: str
    """Sha256 of a SIF."""
    digest: str
    """Digest of an image in a registry, or of the image a SIF was made from."""
    source: str
    """Origin of a SIF, if known."""
    verified: tuple[str, ...]
    """How the policy was met, as `need: by what`; empty if nothing was required."""


def verify_image(
    reference: ImageReference,
    *,
    options: ObtainOptions,
    keys: tuple[str, ...] = (),
    progress: Progress | None = None,
) -> Verified:
    """Verify a SIF, or an image in a registry.

    One of the public keys `keys` must have signed the image, in addition to the policy.

    Raises BadInputError if it is neither, or a checksum is given for an image in a registry; VerificationError if it is
    damaged, or does not match its checksum, digest or signature; UntrustedError if it does not satisfy the site's trust
    policy; UnknownKeyError if it is signed by an unknown key.
    """
    policy = _with_keys(options.policy, keys) if keys else options.policy
    if reference.kind in ("docker", "oras"):
        return _verify_in_registry(reference, policy, options)
    if reference.kind not in LOCAL_KINDS:
        raise BadInputError(f"{reference.canonical}: not a SIF, docker://... or oras://...", "See: hpcmod fetch")
    sif = Path(reference.path)
    squashfs_partition(read_sif(sif))
    found = LocalImage.verify(sif, reference, policy, checksum=options.checksum, environ=options.environ)
    sha256 = file_sha256(sif, progress)
    for expected in (options.checksum, found.sha256):
        check_sha256(sif, expected=expected, found=sha256)
    known = found.provenance
    return Verified(
        image=str(sif),
        sha256=sha256,
        digest=known.digest if known else "",
        source=known.reference if known else "",
        verified=found.verified,
    )


def _with_keys(policy: TrustPolicy, keys: tuple[str, ...]) -> TrustPolicy:
    """Return the policy with a signature by one of these keys required in every rule."""
    rules = [*policy.rules, TrustRule("*", policy.needs)]
    wanting = (TrustRule(rule.source, tuple(dict.fromkeys((*rule.needs, "signature"))), keys) for rule in rules)
    return TrustPolicy(rules=tuple(wanting))


def _verify_in_registry(reference: ImageReference, policy: TrustPolicy, options: ObtainOptions) -> Verified:
    if options.checksum:  # there is no SIF, and it must not count as a checksum for the policy
        raise BadInputError(
            f"{reference.canonical}: a checksum is for a SIF, but this is an image in a registry",
            "Verify the SIF made from it, or give the image's digest: docker://HOST/NAME@sha256:...",
        )
    rule = rule_for(policy, reference)
    pinned = check_pinned(reference, rule, options.checksum)
    digest = resolve(reference, access=options.access)
    exact, digests = replace(reference, digest=digest), [digest]
    if reference.kind == "docker":
        with open_registry_image(exact, architecture=options.architecture, cache=None, access=options.access) as image:
            digests.append(image.digest)
    signed = verify_image_trust(exact, rule, digests, access=options.access)
    return Verified(reference.canonical, "", digest, "", (*pinned, *signed))
