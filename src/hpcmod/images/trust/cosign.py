"""Verify cosign signatures of an image in a registry against public keys: ECDSA over a "simple signing" payload.

cosign stores them beside the image, at the tag `sha256-<digits of its digest>.sig`: a manifest with one layer per
signature, whose content is the signed payload, and whose annotation is the signature.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import re
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from hpcmod.core.errors import (
    BadInputError,
    LackingError,
    NotFoundError,
    UnknownKeyError,
    UntrustedError,
    VerificationError,
)
from hpcmod.core.fs.reading import read_file
from hpcmod.core.values.reference import ImageReference
from hpcmod.core.values.strict_json import JsonObject, load_json
from hpcmod.core.values.subject import normalize
from hpcmod.core.values.trust import TrustRule, stars
from hpcmod.images.values.oci import Manifest, parse_manifest
from hpcmod.images.web.credentials import Access
from hpcmod.images.web.repository import Repository

ANNOTATION = "dev.cosignproject.cosign/signature"
CERTIFICATE = "dev.sigstore.cosign/certificate"
"""Annotation of a keyless signature, which a certificate of a few minutes verifies (cosign's SIGNATURE_SPEC.md)."""

MEDIA_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
TYPE = "cosign container image signature"
"""Of a payload; the others are of the layer that holds a signature."""
_LIMIT = 1 << 20  # bytes of a signed payload; those of cosign have about 250
_MOST = 50  # signatures


@dataclass(frozen=True)
class Signature:
    """One signature of an image, not verified."""

    text: bytes
    """The signed payload."""
    value: bytes
    keyless: bool = False
    """Whether it comes with a certificate instead of a key."""


def fetch_signatures(reference: ImageReference, digest: str, *, access: Access) -> list[Signature]:
    """Fetch the signatures of an image in a registry; empty if it is not signed.

    The signatures are in the same repository; `digest` is that of the signed manifest or index.

    Raises HpcmodError if the registry fails, or a signature is damaged.
    """
    with closing(access.session_factory()) as session:
        repository = Repository(reference, session, access)
        try:
            _, text = repository.manifest(f"{digest.replace(':', '-')}.sig")
        except NotFoundError:
            return []
        manifest = parse_manifest(text)
        layers = manifest.layers[:_MOST] if isinstance(manifest, Manifest) else ()
        return [
            Signature(
                repository.config(layer),
                _decode(dict(layer.annotations).get(ANNOTATION, "")),
                keyless=CERTIFICATE in dict(layer.annotations),
            )
            for layer in layers
            if layer.media_type == MEDIA_TYPE and layer.size <= _LIMIT
        ]


def check_signatures(reference: ImageReference, digest: str, signatures: Sequence[Signature], rule: TrustRule) -> str:
    """Check that one of a rule's keys has signed an image under its own name; return the path of the key.

    The rule's keys are files of public keys (PEM); its identities are other names that signatures may have.

    Raises UntrustedError if there is no signature; UnknownKeyError if no signature is by one of the keys;
    VerificationError if one of the keys has signed another image, or this image under another name; BadInputError if
    none of the keys is of a kind that cosign uses, or a payload is invalid.
    """
    image = reference.canonical
    if not signatures:
        raise UntrustedError(
            f"{image}: not signed: its registry has no tag {digest.replace(':', '-')}.sig",
            "Ask its author to sign it: cosign sign --key KEY IMAGE@DIGEST.",
        )
    loaded = {name: key for name in rule.keys if (key := _load_key(name))}
    if not loaded:
        raise BadInputError(f"{', '.join(rule.keys)}: not an ECDSA public key in PEM, such as cosign's cosign.pub")
    by_known = [
        (name, signature.text) for name, key in loaded.items() for signature in signatures if _is_by(key, signature)
    ]
    if not by_known and any(signature.keyless for signature in signatures):
        raise UnknownKeyError(f"{image}: signed without a key (keyless), which hpcmod cannot verify", KEYLESS)
    if not by_known:
        raise UnknownKeyError(
            f"{image}: not signed by any key of the policy: {', '.join(rule.keys)}",
            "Get the signer's public key from a source you trust, and add it to the policy: [trust] keys = [...].",
        )
    faults = []
    for name, text in by_known:
        fault = _find_fault(reference, digest, text, rule)
        if not fault:
            return name
        faults.append(VerificationError(f"{image}: {name} has signed {fault}", _WRONG_IMAGE))
    raise faults[0]


KEYLESS = (
    "Verify it with `cosign verify --certificate-identity NAME --certificate-oidc-issuer URL`, and then give its "
    "digest. Or ask its author to sign it with a key: cosign sign --key KEY --new-bundle-format=false IMAGE@DIGEST."
)
"""What to do about signatures that need Sigstore's roots of trust and its transparency log."""

_WRONG_IMAGE = (
    "Do not use it: the signature is for another image. For a mirror, list the original names in the site's rule: "
    'identities = ["ghcr.io/org/*"].'
)


def _find_fault(reference: ImageReference, digest: str, text: bytes, rule: TrustRule) -> str:
    """Return which other image a payload is for; empty if it is for this image."""
    critical = JsonObject(load_json(text, "signed text", limit=_LIMIT), "signed text").object("critical")
    signed = critical.object("image").text("docker-manifest-digest")
    if critical.text("type") != TYPE or signed != digest:
        return f"{signed or 'not an image'}, expected {digest}"
    identity = critical.object("identity").text("docker-reference")
    wrong = _check_identity(rule, reference, identity)
    return wrong and f"this digest under another name: {wrong}"


def _load_key(name: str) -> Any:
    """Read a cosign public key; None for keys of other kinds, which are for SIFs."""
    unsupported = import_cryptography("exceptions").UnsupportedAlgorithm
    serialization = import_cryptography("hazmat.primitives.serialization")
    ec = import_cryptography("hazmat.primitives.asymmetric.ec")
    try:
        key = serialization.load_pem_public_key(read_file(name, _LIMIT))
    except OSError as err:
        raise BadInputError(f"{name}: the public key cannot be read: {err.strerror}") from err
    except (ValueError, unsupported):
        return None
    return key if isinstance(key, ec.EllipticCurvePublicKey) else None


def _is_by(key: Any, signature: Signature) -> bool:
    ec = import_cryptography("hazmat.primitives.asymmetric.ec")
    hashes = import_cryptography("hazmat.primitives.hashes")
    invalid = import_cryptography("exceptions").InvalidSignature
    try:
        key.verify(signature.value, signature.text, ec.ECDSA(hashes.SHA256()))
    except invalid:
        return False
    return True


def import_cryptography(module: str) -> Any:
    """Import a module of the package cryptography, which only making and checking signatures needs.

    Raises LackingError if it is not installed.
    """
    try:
        return importlib.import_module(f"cryptography.{module}")
    except ImportError as err:
        raise LackingError(
            "signatures of images in registries need the Python package cryptography",
            f"{sys.executable} -m pip install 'hpcmod[trust]'",
        ) from err


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _check_identity(rule: TrustRule, reference: ImageReference, signed: str) -> str:
    """Return why a signature does not belong to a reference; empty if it does.

    `signed`: REGISTRY/REPOSITORY[:TAG][@DIGEST], as the signer wrote it.
    """
    bare = signed.partition("@")[0]
    if any(re.fullmatch(stars(identity, ".*"), bare, re.DOTALL) for identity in rule.identities):
        return ""
    try:
        named = ImageReference.parse(f"docker://{signed}")
    except BadInputError:
        return f"it names {signed!r}"
    names = {normalize(f"docker://{image.registry}/{image.repository}") for image in (named, reference)}
    same_tag = ":" not in bare.rpartition("/")[2] or reference.tag in ("", named.tag)
    return "" if len(names) == 1 and same_tag else f"it names {signed}"
