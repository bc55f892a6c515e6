"""Verify cosign signatures and attestations of an image in a registry against public keys (ECDSA) and signers.

cosign 2 stores signatures at the tag `sha256-<digits of the digest>.sig`: a manifest with one layer per signature,
whose content is the signed payload, and whose annotation is the signature; and attestations at the tag `....att`, with
in-toto statements in DSSE envelopes as layers. cosign 3 stores a Sigstore bundle for each of both, in a manifest that
refers to the image (OCI 1.1): a statement in an envelope. Without a key (keyless), there is a certificate and an entry
of a log: in annotations, or in the bundle.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from hpcmod.core.errors import (
    BadInputError,
    LackingError,
    NotFoundError,
    UnknownKeyError,
    VerificationError,
)
from hpcmod.core.fs.reading import read_file
from hpcmod.core.values.reference import ImageReference
from hpcmod.core.values.strict_json import JsonObject, load_json
from hpcmod.core.values.subject import normalize
from hpcmod.core.values.trust import ATTESTATION, TrustRule, stars
from hpcmod.images.values.oci import CONFIG_LIMIT, Manifest, OciDescriptor, parse_manifest
from hpcmod.images.web.credentials import Access
from hpcmod.images.web.repository import Repository

ANNOTATION = "dev.cosignproject.cosign/signature"
CERTIFICATE, LOG_ENTRY = "dev.sigstore.cosign/certificate", "dev.sigstore.cosign/bundle"
"""Annotations of a keyless signature, which a certificate of a few minutes verifies (cosign's SIGNATURE_SPEC.md)."""

MEDIA_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
TYPE = "cosign container image signature"
"""Of a payload; the others are of the layer that holds a signature."""
_BUNDLE = "application/vnd.dev.sigstore.bundle"  # begin of a media type that ends with the version
_ENVELOPE = "application/vnd.dsse.envelope.v1+json"
_STATEMENT = "application/vnd.in-toto+json"
_SIGN = "https://sigstore.dev/cosign/sign/v1"
"""Predicate of a statement that is a signature; those of other attestations differ."""
_LIMIT = 1 << 20  # bytes of all signatures; a payload of cosign has about 250, a bundle a few thousand
_MOST = 50  # signatures


@dataclass(frozen=True)
class Signature:
    """One signature of an image, or of a statement about it, not verified."""

    text: bytes
    """The signed payload."""
    value: bytes
    predicate: str = ""
    """Type of the statement that the payload is; empty if it is not a statement, but cosign 2's own form."""
    bundle: bytes = b""
    """Sigstore bundle with its certificate; empty if it was made with a key."""
    proven: bool = True
    """Whether the bundle has a proof that the log contains it; else only the log's promise, which cosign 2 keeps."""

    @property
    def need(self) -> str:
        """Return which need of a trust rule it may fulfil."""
        return "signature" if self.predicate in ("", _SIGN) else f"{ATTESTATION}{self.predicate}"

    @property
    def signed(self) -> bytes:
        """Return the bytes that the key has signed: of a statement, with its type, as DSSE encodes them."""
        head = f"DSSEv1 {len(_STATEMENT)} {_STATEMENT} {len(self.text)} ".encode()
        return head + self.text if self.predicate else self.text


_Parse = Callable[[Mapping[str, str], bytes], Iterator[Signature]]
"""Reads a layer, of which there are the annotations and the content."""


def fetch_signatures(
    reference: ImageReference, digest: str, *, access: Access, attestations: bool = True
) -> list[Signature]:
    """Fetch the signatures of an image in a registry, and attestations of up to 16 MiB; empty if there are none.

    They are in the same repository; `digest` is that of the signed manifest or index.

    Raises HpcmodError if the registry fails, or a signature is damaged.
    """
    at_tag, left = digest.replace(":", "-"), CONFIG_LIMIT if attestations else _LIMIT
    with closing(access.session_factory()) as session:
        repository = Repository(reference, session, access)
        layers: list[tuple[OciDescriptor, _Parse]]
        layers = [(layer, _parse_payload) for layer in _layers(repository, f"{at_tag}.sig", MEDIA_TYPE)]
        if attestations:
            layers += [(layer, _parse_attestation) for layer in _layers(repository, f"{at_tag}.att", _ENVELOPE)]
        for referrer in repository.referrers(digest)[:_MOST]:
            layers += [(layer, _parse_noted) for layer in _layers(repository, referrer.digest, _BUNDLE)]
        found: list[Signature] = []
        for layer, parse in sorted(layers, key=lambda entry: entry[0].size):  # attestations may be large
            left -= layer.size
            if left >= 0:
                found += parse(dict(layer.annotations), repository.config(layer))
    return found


def _parse_payload(annotations: Mapping[str, str], text: bytes) -> Iterator[Signature]:
    value = annotations.get(ANNOTATION, "")
    bundle = _make_bundle(annotations, {"messageSignature": {"signature": value}})
    yield Signature(text, _decode(value), bundle=bundle, proven=False)


def _parse_attestation(annotations: Mapping[str, str], text: bytes) -> Iterator[Signature]:
    envelope = JsonObject(load_json(text, "attestation", limit=CONFIG_LIMIT), "attestation")
    bundle = _make_bundle(annotations, {"dsseEnvelope": envelope.values})
    yield from _parse_envelope(envelope, bundle, proven=False)


def _parse_noted(_: Mapping[str, str], text: bytes) -> Iterator[Signature]:
    yield from parse_bundle(text)


def _make_bundle(annotations: Mapping[str, str], content: Mapping[str, Any]) -> bytes:
    """Return the bundle for what cosign 2 has signed without a key; empty if it comes with no certificate."""
    if CERTIFICATE not in annotations:
        return b""
    noted = JsonObject(load_json(annotations.get(LOG_ENTRY, "{}").encode(), LOG_ENTRY, limit=_LIMIT), LOG_ENTRY)
    entry = noted.object("Payload")
    body = JsonObject(load_json(_decode(entry.text("body")) or b"{}", "log entry", limit=_LIMIT), "log entry")
    pem = "".join(re.findall(r"-----BEGIN CERTIFICATE-----([^-]*)-----", annotations[CERTIFICATE])[:1])
    index = str(entry.number("logIndex", 0))
    log = {
        "logIndex": index,
        "logId": {"keyId": _encode(entry.text("logID"))},
        "kindVersion": {"kind": body.text("kind"), "version": body.text("apiVersion")},
        "integratedTime": str(entry.number("integratedTime", 0)),
        "inclusionPromise": {"signedEntryTimestamp": noted.text("SignedEntryTimestamp")},
        "inclusionProof": {  # there is none, but the form needs one
            "logIndex": "0",
            "rootHash": "",
            "treeSize": "1",
            "hashes": [],
            "checkpoint": {"envelope": "none"},
        },
        "canonicalizedBody": entry.text("body"),
    }
    chain = {"certificates": [{"rawBytes": "".join(pem.split())}]}
    material = {"x509CertificateChain": chain, "tlogEntries": [log]}
    return json.dumps(
        {"mediaType": f"{_BUNDLE}+json;version=0.1", "verificationMaterial": material, **content}
    ).encode()


def _layers(repository: Repository, name: str, kind: str) -> list[OciDescriptor]:
    """Return the layers of a manifest whose media type begins with `kind`; empty if there is no such manifest."""
    try:
        manifest = parse_manifest(repository.manifest(name)[1])
    except NotFoundError:
        return []
    layers = manifest.layers[:_MOST] if isinstance(manifest, Manifest) else ()
    return [layer for layer in layers if layer.media_type.startswith(kind)]


def parse_bundle(text: bytes) -> Iterator[Signature]:
    """Yield the signatures in a Sigstore bundle; none if it has no statement."""
    bundle = JsonObject(load_json(text, "Sigstore bundle", limit=CONFIG_LIMIT), "Sigstore bundle")
    by_key = "publicKey" in bundle.object("verificationMaterial").values
    yield from _parse_envelope(bundle.object("dsseEnvelope"), b"" if by_key else text)


def _parse_envelope(envelope: JsonObject, bundle: bytes, *, proven: bool = True) -> Iterator[Signature]:
    if envelope.text("payloadType") == _STATEMENT:
        text = _decode(envelope.text("payload"))
        predicate = _parse_statement(text).text("predicateType") or "unknown"
        for signature in envelope.objects("signatures", _MOST):
            yield Signature(text, _decode(signature.text("sig")), predicate, bundle, proven)


def _parse_statement(text: bytes) -> JsonObject:
    return JsonObject(load_json(text, "signed statement", limit=CONFIG_LIMIT), "signed statement")


def check_signatures(reference: ImageReference, digest: str, signatures: Sequence[Signature], rule: TrustRule) -> str:
    """Check that a key or a signer of a rule has signed an image under its own name; return who, as records name it.

    All signatures, at least one, are for the same need. The rule's keys are files of public keys (PEM); its identities
    are other names that signatures may have.

    Raises UnknownKeyError if no signature is by one of them; VerificationError if one of them has signed another image,
    or this image under another name; BadInputError if none of the keys is of a kind that cosign uses and there is no
    signer, or a payload is invalid; LackingError if a signer is to be checked, and the library for that is missing.
    """
    need = signatures[0].need
    image = reference.canonical if need == "signature" else f"{reference.canonical}: {need}"
    loaded = {name: key for name in rule.keys if (key := _load_key(name))}
    if not loaded and not rule.signers:
        raise BadInputError(f"{', '.join(rule.keys)}: not an ECDSA public key in PEM, such as cosign's cosign.pub")
    by_known = [(name, signature) for name, key in loaded.items() for signature in signatures if _is_by(key, signature)]
    keyless = [signature for signature in signatures if signature.bundle]
    reasons = []
    for signature in keyless if rule.signers else ():
        try:
            by_known.append((_import_keyless().find_signer(signature, rule), signature))
        except UnknownKeyError as err:
            reasons.append(err.message)
    if not by_known and keyless and not rule.signers:
        raise UnknownKeyError(f"{image}: signed without a key (keyless), but the policy names no signers", KEYLESS)
    if not by_known:
        refused = f"; without a key: {'; '.join(dict.fromkeys(reasons))}" if reasons else ""
        raise UnknownKeyError(
            f"{image}: not signed by any key or signer of the policy: {', '.join(rule.accepted)}{refused}",
            KEYLESS if reasons else _ADD_KEY,
        )
    faults = []
    for name, signature in by_known:
        fault = _find_fault(reference, digest, signature, rule)
        if not fault:
            return name
        faults.append(VerificationError(f"{image}: {name} has signed {fault}", _WRONG_IMAGE))
    raise faults[0]


_ADD_KEY = "Get the signer's public key from a source you trust, and add it to the policy: [trust] keys = [...]."
KEYLESS = (
    "Find out who signs it, and add them to the site's rule: "
    'signers = [{ identity = "...", issuer = "https://..." }], trusted_root = "FILE". '
    "Or ask its author to sign it with a key: cosign sign --key KEY IMAGE@DIGEST."
)
"""What to do about signatures without a key where the policy has only keys."""

_WRONG_IMAGE = (
    "Do not use it: the signature is for another image. For a mirror, list the original names in the site's rule: "
    'identities = ["ghcr.io/org/*"].'
)


def _find_fault(reference: ImageReference, digest: str, signature: Signature, rule: TrustRule) -> str:
    """Return which other image a signature is for; empty if it is for this image. A bundle has no name of an image."""
    if signature.predicate:
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
    return _import(f"cryptography.{module}", "signatures of images in registries need", "cryptography", "trust")


def _import_keyless() -> Any:
    return _import("hpcmod.images.trust.keyless", "signatures without a key (keyless) need", "sigstore", "sigstore")


def _import(module: str, why: str, package: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as err:
        raise LackingError(
            f"{why} the Python package {package}",
            f"{sys.executable} -m pip install 'hpcmod[{extra}]'",
        ) from err


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _encode(digits: str) -> str:
    """Return a hexadecimal number in base64; empty if it is none."""
    try:
        return base64.b64encode(bytes.fromhex(digits)).decode()
    except ValueError:
        return ""


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
