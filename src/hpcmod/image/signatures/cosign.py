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
from pathlib import Path
from typing import Any

from hpcmod.errors import BadInputError, LackingError, NotFoundError, UnknownKeyError, UntrustedError, VerificationError
from hpcmod.image.web.repository import Access, Repository
from hpcmod.model.oci import Manifest, parse_manifest
from hpcmod.model.reference import ImageReference
from hpcmod.model.strict_json import JsonObject, load_json

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


def check_signatures(image: str, digest: str, signatures: Sequence[Signature], keys: Sequence[str]) -> str:
    """Check that one of the keys has signed an image; return the key's file.

    Parameters
    ----------
    image
        For messages.
    digest
        What must have been signed.
    keys
        Files of public keys, PEM.

    Raises
    ------
    UntrustedError
        If there is no signature.
    UnknownKeyError
        If none is by one of the keys.
    VerificationError
        If one of them has signed another image than this.
    BadInputError
        If none of the keys is one that cosign uses, or a signed text is not of its form.
    """
    if not signatures:
        raise UntrustedError(
            f"{image}: is not signed: its registry has no tag {digest.replace(':', '-')}.sig",
            "Ask its maker to sign it: cosign sign --key KEY IMAGE@DIGEST.",
        )
    loaded = {name: key for name in keys if (key := _load_key(name))}
    if not loaded:
        raise BadInputError(f"{', '.join(keys)}: no ECDSA public key in PEM, as cosign's cosign.pub is")
    for name, key in loaded.items():
        for signature in signatures:
            if _is_by(key, signature):
                _check_text(image, digest, signature.text, name)
                return name
    raise UnknownKeyError(
        f"{image}: is signed by none of the keys that the policy names: {', '.join(keys)}",
        "Get the signer's public key from a source you trust, and add it to the policy: [trust] keys = [...].",
    )


def _check_text(image: str, digest: str, text: bytes, key: str) -> None:
    critical = JsonObject(load_json(text, "signed text", limit=_LIMIT), "signed text").object("critical")
    signed = critical.object("image").text("docker-manifest-digest")
    if critical.text("type") != _TYPE or signed != digest:
        raise VerificationError(
            f"{image}: is {digest}, and what {key} has signed is {signed or 'no image'}",
            "Do not use it: somebody put a signature of another image beside it.",
        )


def _load_key(name: str) -> Any:
    """Read a key that may have signed an image; None for one of another kind, which is for SIFs."""
    unsupported = _import("cryptography.exceptions").UnsupportedAlgorithm
    serialization = _import("cryptography.hazmat.primitives.serialization")
    ec = _import("cryptography.hazmat.primitives.asymmetric.ec")
    try:
        key = serialization.load_pem_public_key(Path(name).read_bytes())
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
