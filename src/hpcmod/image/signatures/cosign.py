"""Check signatures that cosign made of an image in a registry, against public keys: ECDSA over a "simple signing" text.

cosign puts them beside the image, at the tag `sha256-<digits of its digest>.sig`: a manifest with one layer for each
signature, whose content is the signed text, and whose annotation is the signature.
"""

from __future__ import annotations

import base64
import binascii
import importlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from hpcmod.errors import BadInputError, LackingError, NotFoundError, UnknownKeyError, UntrustedError, VerificationError
from hpcmod.fs.reading import read_file
from hpcmod.image.web.repository import Access, Repository
from hpcmod.model.oci import Manifest, parse_manifest
from hpcmod.model.reference import ImageReference
from hpcmod.model.strict_json import JsonObject, load_json
from hpcmod.model.trust import TrustRule, check_identity

_ANNOTATION = "dev.cosignproject.cosign/signature"
_MEDIA_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
_TYPE = "cosign container image signature"
_LIMIT = 1 << 20  # bytes of a signed text; cosign's have some 250
_MOST = 50  # signatures


@dataclass(frozen=True)
class Signature:
    """One signature of an image, not checked."""

    text: bytes
    """What was signed."""
    value: bytes


def fetch_signatures(reference: ImageReference, digest: str, *, access: Access) -> list[Signature]:
    """Fetch the signatures of an image in a registry; none if there are none.

    Parameters
    ----------
    reference
        docker://...; the signatures lie in the same repository.
    digest
        Of the manifest or index that was signed.

    Raises
    ------
    HpcmodError
        If the registry fails, or what it has is damaged.
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
            Signature(repository.config(layer), _decode(dict(layer.annotations).get(_ANNOTATION, "")))
            for layer in layers
            if layer.media_type == _MEDIA_TYPE and layer.size <= _LIMIT
        ]


def check_signatures(reference: ImageReference, digest: str, signatures: Sequence[Signature], rule: TrustRule) -> str:
    """Check that one of a rule's keys has signed an image under its own name; return the key's file.

    Parameters
    ----------
    digest
        What must have been signed.
    rule
        Its keys are files of public keys, PEM; its identities are other names that signatures may have.

    Raises
    ------
    UntrustedError
        If there is no signature.
    UnknownKeyError
        If none is by one of the keys.
    VerificationError
        If one of them has signed another image than this, or this one under another name.
    BadInputError
        If none of the keys is one that cosign uses, or a signed text is not of its form.
    """
    image = reference.canonical
    if not signatures:
        raise UntrustedError(
            f"{image}: is not signed: its registry has no tag {digest.replace(':', '-')}.sig",
            "Ask its maker to sign it: cosign sign --key KEY IMAGE@DIGEST.",
        )
    loaded = {name: key for name in rule.keys if (key := _load_key(name))}
    if not loaded:
        raise BadInputError(f"{', '.join(rule.keys)}: no ECDSA public key in PEM, as cosign's cosign.pub is")
    by_known = [(name, one.text) for name, key in loaded.items() for one in signatures if _is_by(key, one)]
    if not by_known:
        raise UnknownKeyError(
            f"{image}: is signed by none of the keys that the policy names: {', '.join(rule.keys)}",
            "Get the signer's public key from a source you trust, and add it to the policy: [trust] keys = [...].",
        )
    faults = []
    for name, text in by_known:
        fault = _find_fault(reference, digest, text, rule)
        if not fault:
            return name
        faults.append(VerificationError(f"{image}: what {name} has signed is {fault}", _WRONG_IMAGE))
    raise faults[0]


_WRONG_IMAGE = (
    "Do not use it: the signature beside it is for another image. For a mirror, the site's rule names the originals: "
    'identities = ["ghcr.io/org/*"].'
)


def _find_fault(reference: ImageReference, digest: str, text: bytes, rule: TrustRule) -> str:
    """Return what a signed text says that is not this image; empty if it is for this one."""
    critical = JsonObject(load_json(text, "signed text", limit=_LIMIT), "signed text").object("critical")
    signed = critical.object("image").text("docker-manifest-digest")
    if critical.text("type") != _TYPE or signed != digest:
        return f"{signed or 'not an image'}, expected {digest}"
    identity = critical.object("identity").text("docker-reference")
    wrong = check_identity(rule, reference, identity)
    return wrong and f"this digest under another name: {wrong}"


def _load_key(name: str) -> Any:
    """Read a key that may have signed an image; None for one of another kind, which is for SIFs."""
    unsupported = _import("cryptography.exceptions").UnsupportedAlgorithm
    serialization = _import("cryptography.hazmat.primitives.serialization")
    ec = _import("cryptography.hazmat.primitives.asymmetric.ec")
    try:
        key = serialization.load_pem_public_key(read_file(name, _LIMIT))
    except OSError as err:
        raise BadInputError(f"{name}: the public key cannot be read: {err.strerror}") from err
    except (ValueError, unsupported):
        return None
    return key if isinstance(key, ec.EllipticCurvePublicKey) else None


def _is_by(key: Any, signature: Signature) -> bool:
    ec = _import("cryptography.hazmat.primitives.asymmetric.ec")
    hashes = _import("cryptography.hazmat.primitives.hashes")
    invalid = _import("cryptography.exceptions").InvalidSignature
    try:
        key.verify(signature.value, signature.text, ec.ECDSA(hashes.SHA256()))
    except invalid:
        return False
    return True


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as err:
        raise LackingError(
            "checking a signature of cosign needs the Python package cryptography",
            "python3 -m pip install 'hpcmod[trust]'",
        ) from err
