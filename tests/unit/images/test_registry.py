from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hpcmod.core.errors import BadInputError, HpcmodError, LackingError, NoSpaceError, NotFoundError
from hpcmod.core.fs import space
from hpcmod.core.values.reference import ImageReference
from hpcmod.images.cache import Cache
from hpcmod.images.registry import fetch_artifact, open_registry_image, resolve
from tests.registry import CONFIG, INDEX, MANIFEST, Registry

pytestmark = pytest.mark.slow

LAYERS = [b"lower" * 100, b"upper" * 200]
SIF = b"a sif" * 1000
SIF_LAYER = "application/vnd.sylabs.sif.layer.v1.sif"


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def docker(registry: Registry, rest: str, kind: str = "docker") -> ImageReference:
    return ImageReference.parse(f"{kind}://{registry.host}/registry/{rest}")


def push_artifact(registry: Registry, name: str, files: Sequence[tuple[bytes, str]]) -> dict[str, Any]:
    layers = [registry.push_blob(f"registry/{name}", content, kind) for content, kind in files]
    config = registry.push_blob(f"registry/{name}", b"{}", "application/vnd.sylabs.sif.config.v1+json")
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}
    return registry.push_manifest(f"registry/{name}", "1", manifest)


def push_index(registry: Registry, name: str, tag: str, entry: dict[str, Any], architecture: str) -> dict[str, Any]:
    platform = {"platform": {"os": "linux", "architecture": architecture}}
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [{**entry, **platform}]}
    return registry.push_manifest(f"registry/{name}", tag, index)


def read(reference: ImageReference, cache: Cache | None, *, architecture: str = "amd64", **more: Any) -> list[bytes]:
    with open_registry_image(reference, architecture=architecture, cache=cache, **more) as image:
        found = []
        for layer in image.layers:
            with layer.open() as stream:
                found.append(stream.read())
        return found


def refusal(reference: ImageReference, cache: Cache | None = None, *, architecture: str = "amd64") -> HpcmodError:
    with pytest.raises(HpcmodError) as caught:
        read(reference, cache, architecture=architecture)
    return caught.value


def test_without_a_cache_nothing_touches_the_disk(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    registry.push_image("registry/plain", LAYERS)
    assert read(docker(registry, "plain:1"), None) == LAYERS
    assert list(tmp_path.rglob("*")) == []


def test_a_reference_to_no_registry_says_how_to_write_one() -> None:
    for text in ("x.sif", "oci:x", "https://h.io/x.sif"):
        fault = refusal(ImageReference.parse(text))
        assert (type(fault), fault.exit_code) == (BadInputError, 2)
        assert "not in a registry" in fault.message
        assert "docker://HOST/NAME:TAG" in fault.cure


def test_a_missing_name_is_not_found(registry: Registry) -> None:
    fault = refusal(docker(registry, "none:1"))
    assert (type(fault), fault.exit_code) == (NotFoundError, 3)
    assert "has no such image" in fault.message
    assert "apptainer registry login" in fault.cure
    with pytest.raises(NotFoundError, match="has no such image"):
        resolve(docker(registry, "none:1"))


def test_an_index_without_the_architecture_names_those_it_has(registry: Registry) -> None:
    entry = registry.push_image("registry/arch", LAYERS, architecture="arm64")
    push_index(registry, "arch", "many", entry, "arm64")
    assert read(docker(registry, "arch:many"), None, architecture="arm64") == LAYERS
    fault = refusal(docker(registry, "arch:many"))
    assert (type(fault), fault.exit_code, "arm64" in str(fault)) == (LackingError, 7, True)


def test_an_index_in_an_index_is_followed_and_no_deeper_chain(registry: Registry) -> None:
    entry = registry.push_image("registry/deep", LAYERS)
    for depth in (1, 2, 3):
        entry = push_index(registry, "deep", f"deep{depth}", entry, "amd64")
    assert read(docker(registry, "deep:deep2"), None) == LAYERS
    fault = refusal(docker(registry, "deep:deep3"))
    assert (type(fault), "indexes nested 3 levels deep" in fault.message) == (BadInputError, True)


def test_a_tag_and_an_index_are_resolved_to_the_digest_of_what_they_name(registry: Registry, cache: Cache) -> None:
    entry = registry.push_image("registry/tag", LAYERS)
    index = push_index(registry, "tag", "many", entry, "amd64")
    assert resolve(docker(registry, "tag:1")) == entry["digest"]
    assert resolve(docker(registry, "tag:many"), cache=cache) == index["digest"]
    assert [f"sha256:{path.name}" for path in cache.directory.rglob("*") if len(path.name) == 64] == [index["digest"]]


def test_refuses_an_image_too_large_for_the_cache_before_downloading(
    registry: Registry, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.push_image("registry/big", LAYERS)
    monkeypatch.setattr(space, "_free", lambda _: space.SpaceLeft(10, None, "free"))
    fault = refusal(docker(registry, "big:1"), cache)
    assert (type(fault), fault.exit_code) == (NoSpaceError, 5)
    assert "2 blobs of docker://" in fault.message
    assert "HPCMOD_CACHE" in str(fault)
    assert not any(entry.size == len(LAYERS[1]) for entry in cache.entries())


def artifact(registry: Registry, name: str, partial: Path, cache: Cache | None = None) -> tuple[str, str]:
    return fetch_artifact(docker(registry, name, "oras"), partial, architecture="amd64", cache=cache)


@pytest.mark.parametrize("files", [[(SIF, "x/y")], [(b"readme", "text/plain"), (SIF, SIF_LAYER)]])
@pytest.mark.parametrize("cached", [True, False])
def test_the_sif_of_an_artifact_is_fetched_and_nothing_else_is_left(
    registry: Registry, cache: Cache, tmp_path: Path, files: list[tuple[bytes, str]], cached: bool
) -> None:
    pushed = push_artifact(registry, f"sif{len(files)}", files)
    out = tmp_path / "x.sif"
    for _ in range(2):
        found = artifact(registry, f"sif{len(files)}:1", out, cache if cached else None)
        assert found == (pushed["digest"], hashlib.sha256(SIF).hexdigest())
        assert out.read_bytes() == SIF
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "x.sif"][not cached :]
    out.write_bytes(SIF[::-1])
    artifact(registry, f"sif{len(files)}:1", out, cache if cached else None)
    assert out.read_bytes() == SIF


@pytest.mark.parametrize("files", [[], [(b"one", "x/y"), (b"two", "x/y")], [(b"one", SIF_LAYER), (b"two", SIF_LAYER)]])
def test_an_artifact_of_other_than_one_sif_is_refused(
    registry: Registry, tmp_path: Path, files: list[tuple[bytes, str]]
) -> None:
    push_artifact(registry, f"files{len(files)}", files)
    with pytest.raises(BadInputError, match=f"artifact with {len(files)} files, expected one SIF") as caught:
        artifact(registry, f"files{len(files)}:1", tmp_path / "x.sif")
    assert "docker://" in caught.value.cure
    assert list(tmp_path.iterdir()) == []


def test_a_configuration_too_long_to_be_one_is_refused(registry: Registry) -> None:
    config = {**registry.push_blob("registry/long", b"{}", CONFIG), "size": 1 << 40}
    layers = [registry.push_blob("registry/long", LAYERS[0])]
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}
    registry.push_manifest("registry/long", "1", manifest)
    fault = refusal(docker(registry, "long:1"))
    assert (type(fault), "its configuration has" in fault.message) == (BadInputError, True)
