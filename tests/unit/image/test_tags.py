"""Tags of a fake registry; tests/integration/test_registry_tags.py asks a real one."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from hpcmod.errors import NotFoundError
from hpcmod.image import tags as module
from hpcmod.image.tags import Tag, find_newer, list_tags
from hpcmod.image.web.repository import Access
from hpcmod.model.images.reference import ImageReference

REFERENCE = ImageReference.parse("docker://registry.example.org/lab/image:1.9")
INDEX, MANIFEST = "application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json"


def digest_of(text: bytes) -> str:
    return f"sha256:{hashlib.sha256(text).hexdigest()}"


class FakeRepository:
    """A repository with an image for two architectures, a SIF, and a tag that cannot be read."""

    def __init__(self, *_: Any) -> None:
        self.blobs: dict[str, bytes] = {}
        arm, amd = self._image("arm64", 5), self._image("amd64", 7)
        self.named = {"1.10": self._index(arm, amd), "1.9": amd["digest"], "sif": self._sif()}

    def _put(self, value: Any) -> str:
        text = json.dumps(value).encode()
        self.blobs[digest_of(text)] = text
        return digest_of(text)

    def _manifest(self, config_type: str, config: str, size: int) -> dict[str, Any]:
        described = {"mediaType": config_type, "digest": config, "size": 2}
        layer = {"mediaType": "x", "digest": digest_of(b"layer"), "size": size}
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": [layer]}
        manifest["annotations"] = {"org.opencontainers.image.created": "2026-10-01T08:00:00Z"}
        return {"mediaType": MANIFEST, "digest": self._put(manifest), "size": 1}

    def _image(self, architecture: str, size: int) -> dict[str, Any]:
        config = self._put({"architecture": architecture, "os": "linux", "created": "2026-11-02T03:04:05Z"})
        entry = self._manifest("application/vnd.oci.image.config.v1+json", config, size)
        return {**entry, "platform": {"architecture": architecture, "os": "linux"}}

    def _index(self, *entries: Any) -> str:
        return self._put({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries})

    def _sif(self) -> str:
        entry = self._manifest("application/vnd.sylabs.sif.config.v1+json", self._put({}), 9)
        return str(entry["digest"])

    def tags(self) -> list[str]:
        return [*self.named, "broken"]

    def manifest(self, name: str) -> tuple[str, bytes]:
        digest = self.named.get(name, name)
        if digest not in self.blobs:
            raise NotFoundError(f"no tag {name}")
        return digest, self.blobs[digest]

    def config(self, blob: Any) -> bytes:
        return self.blobs[blob.digest]


@pytest.fixture(autouse=True)
def repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Repository", FakeRepository)


def listed(**options: Any) -> dict[str, Tag]:
    found = list_tags(REFERENCE, architecture="amd64", access=Access(), **options)
    return {one.name: one for one in found.tags}


def test_tags_have_size_date_and_architectures() -> None:
    found = listed()
    assert list(found) == ["1.10", "1.9", "sif", "broken"]
    assert (found["1.10"].size, found["1.10"].created) == (7, "2026-11-02")
    assert found["1.10"].architectures == ("arm64", "amd64")
    assert found["1.9"].architectures == ("amd64",)


def test_a_sif_has_the_date_of_its_annotation_and_no_architecture() -> None:
    sif = listed()["sif"]
    assert (sif.size, sif.created, sif.architectures) == (9, "2026-10-01", ())


def test_a_tag_that_cannot_be_read_does_not_hide_the_others() -> None:
    assert listed()["broken"].problem == "no tag broken"


def test_only_so_many_tags_are_read() -> None:
    found = list_tags(REFERENCE, architecture="amd64", most=1)
    assert ([one.name for one in found.tags], found.total) == (["1.10"], 4)


def test_an_image_of_another_architecture_gives_the_size_if_there_is_no_other() -> None:
    found = list_tags(REFERENCE, architecture="riscv64", only="1.10")
    assert (found.tags[0].size, found.tags[0].architectures) == (5, ("arm64", "amd64"))


def test_a_missing_tag_is_an_error() -> None:
    with pytest.raises(NotFoundError, match="no tag 7"):
        listed(only="7")


def test_newer_tags_come_with_the_digest_that_the_old_one_has_now() -> None:
    found = find_newer(REFERENCE)
    assert found.tags == ("1.10",)
    assert found.digest == FakeRepository().named["1.9"]


def test_a_tag_that_is_gone_has_no_digest() -> None:
    assert find_newer(ImageReference.parse("docker://registry.example.org/lab/image:1.8")).digest == ""
