"""Signatures for tests: freshly made keys, and what cosign would push for an image.

Made with `cryptography`, as cosign 2 (its SIGNATURE_SPEC.md) and cosign 3.1.1 do: no such program has to be there.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.registry import CONFIG, INDEX, MANIFEST, Registry

SIMPLE_SIGNING = "application/vnd.dev.cosign.simplesigning.v1+json"
STATEMENT = "application/vnd.in-toto+json"
BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
SIGNS = "https://sigstore.dev/cosign/sign/v1"
"""Predicate of the statement that cosign signs; the statements of attestations have others."""


@dataclass(frozen=True)
class KeyPair:
    """An ECDSA P-256 key, as used by cosign and `apptainer sign --key`."""

    private: ec.EllipticCurvePrivateKey
    public_file: Path
    private_file: Path


def make_key(directory: Path, name: str) -> KeyPair:
    """Make a key and write both halves as PEM files."""
    key = ec.generate_private_key(ec.SECP256R1())
    private, public = directory / f"{name}.key", directory / f"{name}.pub"
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    private.write_bytes(key.private_bytes(*plain))
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    public.write_bytes(key.public_key().public_bytes(*form))
    return KeyPair(key, public, private)


def signed_text(image: str, digest: str) -> bytes:
    """Return the payload that cosign signs."""
    return json.dumps(
        {
            "critical": {
                "identity": {"docker-reference": image},
                "image": {"docker-manifest-digest": digest},
                "type": "cosign container image signature",
            },
            "optional": None,
        }
    ).encode()


def push_signature(
    registry: Registry, repository: str, digest: str, key: KeyPair, *, signs: str = "", named: str = ""
) -> None:
    """Push an image's signature where cosign 2 puts it; `signs` and `named` are another digest and name to sign."""
    content = signed_text(f"{registry.host}/{named or repository}", signs or digest)
    value = base64.b64encode(key.private.sign(content, ec.ECDSA(hashes.SHA256()))).decode()
    layer: dict[str, Any] = registry.push_blob(repository, content, SIMPLE_SIGNING)
    layer["annotations"] = {"dev.cosignproject.cosign/signature": value}
    config = registry.push_blob(repository, b"{}", CONFIG)
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}
    registry.push_manifest(repository, f"{digest.replace(':', '-')}.sig", manifest)


def make_bundle(key: KeyPair, digest: str, *, predicate: str = SIGNS, keyless: bool = False) -> bytes:
    """Make a Sigstore bundle as cosign 3: a signed statement about an image."""
    subject = {"digest": {"sha256": digest.partition(":")[2]}, "annotations": {}}
    statement = {"_type": "https://in-toto.io/Statement/v1", "subject": [subject], "predicateType": predicate}
    text = json.dumps({**statement, "predicate": {}}).encode()
    signed = f"DSSEv1 {len(STATEMENT)} {STATEMENT} {len(text)} ".encode() + text
    value = base64.b64encode(key.private.sign(signed, ec.ECDSA(hashes.SHA256()))).decode()
    envelope = {"payload": base64.b64encode(text).decode(), "payloadType": STATEMENT, "signatures": [{"sig": value}]}
    by = {"certificate": {"rawBytes": ""}} if keyless else {"publicKey": {"hint": ""}}
    return json.dumps({"mediaType": BUNDLE, "verificationMaterial": by, "dsseEnvelope": envelope}).encode()


def push_bundle(registry: Registry, repository: str, digest: str, bundle: bytes) -> None:
    """Push a bundle as cosign 3 does to a registry that has no list of referrers."""
    layer = registry.push_blob(repository, bundle, BUNDLE)
    config = registry.push_blob(repository, b"{}", "application/vnd.oci.empty.v1+json")
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [registry.push_manifest(repository, "", manifest)]}
    registry.push_manifest(repository, digest.replace(":", "-"), index)
