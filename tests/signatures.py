"""Signatures for tests: freshly made keys, and what cosign would push for an image.

Debian has no cosign. Its SIGNATURE_SPEC.md specifies what it pushes; we produce that with `cryptography`.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.registry import CONFIG, MANIFEST, Registry

SIMPLE_SIGNING = "application/vnd.dev.cosign.simplesigning.v1+json"


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


def push_signature(registry: Registry, repository: str, digest: str, key: KeyPair, *, signs: str = "") -> None:
    """Push an image's signature where cosign puts it; `signs` is the digest to sign instead."""
    content = signed_text(f"{registry.host}/{repository}", signs or digest)
    value = base64.b64encode(key.private.sign(content, ec.ECDSA(hashes.SHA256()))).decode()
    layer: dict[str, Any] = registry.push_blob(repository, content, SIMPLE_SIGNING)
    layer["annotations"] = {"dev.cosignproject.cosign/signature": value}
    config = registry.push_blob(repository, b"{}", CONFIG)
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}
    registry.push_manifest(repository, f"{digest.replace(':', '-')}.sig", manifest)
