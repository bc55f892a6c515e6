"""Verify cosign signatures of an image in a registry against public keys (ECDSA).

cosign 2 stores them at the tag `sha256-<digits of the digest>.sig`: a manifest with one layer per signature, whose
content is the signed payload, and whose annotation is the signature. cosign 3 stores a Sigstore bundle for each, in a
manifest that refers to the image (OCI 1.1): an in-toto statement in a DSSE envelope.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import re
import sys
from collections.abc import Iterator, Sequence
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
from hpcmod.images.values.oci import Manifest, OciDescriptor, parse_manifest
from hpcmod.images.web.credentials import Access
from hpcmod.images.web.repository import Repository

ANNOTATION = "dev.cosignproject.cosign/signature"
CERTIFICATE = "dev.sigstore.cosign/certificate"
"""Annotation of a keyless signature, which a certificate of a few minutes verifies (cosign's SIGNATURE_SPEC.md)."""

MEDIA_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
TYPE = "cosign container image signature"
"""Of a payload; the others are of the layer that holds a signature."""
_BUNDLE = "application/vnd.dev.sigstore.bundle"  # begin of a media type that ends with the version
_STATEMENT = "application/vnd.in-toto+json"
_SIGN = "https://sigstore.dev/cosign/sign/v1"
"""Predicate of a statement that is a signature; those of other attestations differ."""
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
    in_bundle: bool = False
    """Whether the payload is the statement of a Sigstore bundle."""

    @property
    def signed(self) -> bytes:
        """Return the bytes that the key has signed: of a statement, with its type, as DSSE encodes them."""
        head = f"DSSEv1 {len(_STATEMENT)} {_STATEMENT} {len(self.text)} ".encode()
        return head + self.text if self.in_bundle else self.text


def fetch_signatures(reference: ImageReference, digest: str, *, access: Access) -> list[Signature]:
    """Fetch the signatures of an image in a registry; empty if it is not signed.

    The signatures are in the same repository; `digest` is that of the signed manifest or index.

    Raises HpcmodError if the registry fails, or a signature is damaged.
    """
    with closing(access.session_factory()) as session:
        repository = Repository(reference, session, access)
        found = [
            Signature(
                repository.config(layer),
                _decode(dict(layer.annotations).get(ANNOTATION, "")),
                keyless=CERTIFICATE in dict(layer.annotations),
            )
            for layer in _layers(repository, f"{digest.replace(':', '-')}.sig", MEDIA_TYPE)
        ]
        for referrer in repository.referrers(digest)[:_MOST]:
            for layer in _layers(repository, referrer.digest, _BUNDLE):
                found += parse_bundle(repository.config(layer))
    return found


def _layers(repository: Repository, name: str, kind: str) -> list[OciDescriptor]:
    """Return the layers of a manifest whose media type begins with `kind`; empty if there is no such manifest."""
    try:
        manifest = parse_manifest(repository.manifest(name)[1])
    except NotFoundError:
        return []
    layers = manifest.layers[:_MOST] if isinstance(manifest, Manifest) else ()
    return [layer for layer in layers if layer.media_type.startswith(kind) and layer.size <= _LIMIT]


def parse_bundle(text: bytes) -> Iterator[Signature]:
    """Yield the signatures in a Sigstore bundle; none if it is an attestation of something else."""
    bundle = JsonObject(load_json(text, "Sigstore bundle", limit=_LIMIT), "Sigstore bundle")
    envelope = bundle.object("dsseEnvelope")
    statement = _decode(envelope.text("payload"))
    if envelope.text("payloadType") == _STATEMENT and _parse_statement(statement).text("predicateType") == _SIGN:
        keyless = "publicKey" not in bundle.object("verificationMaterial").values
        for signature in envelope.objects("signatures", _MOST):
            yield Signature(statement, _decode(signature.text("sig")), keyless, in_bundle=True)


def _parse_statement(text: bytes) -> JsonObject:
    return JsonObject(load_json(text, "signed statement", limit=_LIMIT), "signed statement")


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
            f"{image}: not signed: no tag {digest.replace(':', '-')}.sig, and no bundle with a signature",
            "Ask its author to sign it: cosign sign --key KEY IMAGE@DIGEST.",
        )
    loaded = {name: key for name in rule.keys if (key := _load_key(name))}
    if not loaded:
        raise BadInputError(f"{', '.join(rule.keys)}: not an ECDSA public key in PEM, such as cosign's cosign.pub")
    by_known = [(name, signature) for name, key in loaded.items() for signature in signatures if _is_by(key, signature)]
    if not by_known and any(signature.keyless for signature in signatures):
        raise UnknownKeyError(f"{image}: signed without a key (keyless), which hpcmod cannot verify", KEYLESS)
    if not by_known:
        raise UnknownKeyError(
            f"{image}: not signed by any key of the policy: {', '.join(rule.keys)}",
            "Get the signer's public key from a source you trust, and add it to the policy: [trust] keys = [...].",
        )
    faults = []
    for name, signature in by_known:
        fault = _find_fault(reference, digest, signature, rule)
        if not fault:
            return name
        faults.append(VerificationError(f"{image}: {name} has signed {fault}", _WRONG_IMAGE))
    raise faults[0]


KEYLESS = (
    "Verify it with `cosign verify --certificate-identity NAME --certificate-oidc-issuer URL`, and then give its "
    "digest. Or ask its author to sign it with a key: cosign sign --key KEY IMAGE@DIGEST."
)
"""What to do about signatures that need Sigstore's roots of trust and its transparency log."""

_WRONG_IMAGE = (
    "Do not use it: the signature is for another image. For a mirror, list the original names in the site's rule: "
    'identities = ["ghcr.io/org/*"].'
)


def _find_fault(reference: ImageReference, digest: str, signature: Signature, rule: TrustRule) -> str:
    """Return which other image a signature is for; empty if it is for this image. A bundle has no name of an image."""
    if signature.in_bundle:
        subjects = _parse_statement(signature.text).objects("subject", _MOST)
        digests = [f"sha256:{subject.object('digest').text('sha256')}" for subject in subjects]
        return "" if digest in digests else f"{', '.join(digests) or 'not an image'}, expected {digest}"
    critical = JsonObject(load_json(signature.text, "signed text", limit=_LIMIT), "signed text").object("critical")
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
        key.verify(signature.value, signature.signed, ec.ECDSA(hashes.SHA256()))
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
