"""Reading images before a push; tests/integration/test_push.py pushes to a real registry."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from hpcmod.core.errors import BadInputError, VerificationError
from hpcmod.core.values.reference import ImageReference
from hpcmod.images.push import digest_of, read_pushable, sign

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """An OCI image layout with one image, v1, of one layer."""
    blobs = tmp_path / "blobs/sha256"
    blobs.mkdir(parents=True)

    def put(content: bytes, kind: str) -> dict[str, Any]:
        (blobs / hashlib.sha256(content).hexdigest()).write_bytes(content)
        return {"mediaType": kind, "digest": digest_of(content), "size": len(content)}

    manifest = {"schemaVersion": 2, "config": put(b"{}", "config"), "layers": [put(b"layer", "layer")]}
    entry = {**put(json.dumps(manifest).encode(), MANIFEST), "annotations": {"org.opencontainers.image.ref.name": "v1"}}
    (tmp_path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    return tmp_path


def test_a_layout_has_its_blobs_before_the_manifest(layout: Path) -> None:
    found = read_pushable(ImageReference.parse(f"oci:{layout}:v1"))
    contents = []
    for blob in found.blobs:
        with blob.open() as file:
            contents.append(file.read())
    assert contents == [b"{}", b"layer"]
    assert (found.size, found.digest) == (7, digest_of(found.manifests[-1][2]))


def test_a_tag_that_a_layout_does_not_have_is_refused_with_those_it_has(layout: Path) -> None:
    with pytest.raises(BadInputError, match="it has: v1"):
        read_pushable(ImageReference.parse(f"oci:{layout}:v2"))


def test_a_layout_without_a_layer_is_refused_before_anything_is_sent(layout: Path) -> None:
    (layout / "blobs/sha256" / hashlib.sha256(b"layer").hexdigest()).unlink()
    with pytest.raises(VerificationError, match="missing"):
        read_pushable(ImageReference.parse(f"oci:{layout}"))


def test_a_damaged_manifest_is_refused(layout: Path) -> None:
    entry = json.loads((layout / "index.json").read_text())["manifests"][0]
    (layout / "blobs" / entry["digest"].replace(":", "/")).write_bytes(b"{}")
    with pytest.raises(VerificationError, match="damaged"):
        read_pushable(ImageReference.parse(f"oci:{layout}"))


def test_an_image_of_a_registry_is_not_a_file_to_push() -> None:
    with pytest.raises(BadInputError, match="only a SIF or oci:DIRECTORY"):
        read_pushable(ImageReference.parse("docker://ghcr.io/a/b:1"))


def test_a_key_that_cosign_encrypted_is_refused_with_what_to_do(tmp_path: Path) -> None:
    key = tmp_path / "cosign.key"
    kind = "ENCRYPTED SIGSTORE PRIVATE KEY"
    key.write_text(f"-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n")
    with pytest.raises(BadInputError, match="not an unencrypted private key") as caught:
        sign(ImageReference.parse("docker://ghcr.io/a/b:1"), "sha256:" + "0" * 64, key)
    assert "cosign sign" in caught.value.cure
