from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.errors import NotFoundError, UntrustedError
from hpcmod.core.values.reference import ImageReference
from hpcmod.core.values.trust import TrustPolicy, TrustRule
from hpcmod.images.acquire.origin import FetchPlan, ObtainOptions, Origin
from hpcmod.images.cache import Cache
from tests.corpus import make_sif
from tests.oci_corpus import f, tar_bytes
from tests.registry import Registry
from tests.signatures import make_key, push_signature

LAYERS = [tar_bytes([f("a", "x" * 5000)]), tar_bytes([f("b", "y")])]
SIZE = sum(map(len, LAYERS))


@pytest.fixture
def options(tmp_path: Path) -> ObtainOptions:
    cache = Cache(tmp_path / "cache")
    cache.prepare()
    return ObtainOptions("amd64", environ={"HOME": str(tmp_path), "PATH": os.defpath}, cache=cache)


def seen(text: str, options: ObtainOptions) -> FetchPlan:
    return Origin(ImageReference.parse(text), options).plan(Path("x.sif"))


def test_an_image_of_a_registry_is_pinned_and_its_layers_counted(registry: Registry, options: ObtainOptions) -> None:
    digest = registry.push_image("origin/two", LAYERS)["digest"]
    text = f"docker://{registry.host}/origin/two:1"
    found = seen(text, options)
    assert found.pinned == f"{text}@{digest}"
    assert (found.layers, found.bytes, found.bytes_to_fetch, found.path) == (2, SIZE, SIZE, "x.sif")
    assert found.policy == "nothing required"


def test_cached_blobs_do_not_count_as_downloads(registry: Registry, options: ObtainOptions) -> None:
    registry.push_image("origin/cached", LAYERS)
    assert options.cache is not None
    options.cache.store(registry.push_blob("origin/cached", LAYERS[0])["digest"], LAYERS[0])
    found = seen(f"docker://{registry.host}/origin/cached:1", options)
    assert found.bytes_to_fetch == len(LAYERS[1])
    assert seen(f"docker://{registry.host}/origin/cached:1", replace(options, cache=None)).bytes_to_fetch == SIZE


def test_fetches_no_layers(registry: Registry, options: ObtainOptions, tmp_path: Path) -> None:
    registry.push_image("origin/none", LAYERS)
    seen(f"docker://{registry.host}/origin/none:1", options)
    assert options.cache is not None
    assert max(path.stat().st_size for path in options.cache.directory.rglob("*") if path.is_file()) < 5000
    assert not (tmp_path / "x.sif").exists()


def test_a_policy_that_would_refuse_refuses_now(registry: Registry, options: ObtainOptions, tmp_path: Path) -> None:
    strict = replace(options, policy=TrustPolicy(rules=(TrustRule("docker://*", ("digest", "signature")),)))
    with pytest.raises(UntrustedError, match="requires a digest"):
        seen(f"docker://{registry.host}/origin/two:1", strict)
    key, digest = make_key(tmp_path, "one"), registry.push_image("origin/two", LAYERS)["digest"]
    strict = replace(options, policy=TrustPolicy(("digest", "signature"), (str(key.public_file),)))
    places = [f"{kind}://{registry.host}/origin/two@{digest}" for kind in ("docker", "oras")]
    for pinned in (*places, str(make_sif(tmp_path / "given.sif"))):
        with pytest.raises(UntrustedError, match="not signed" if "@" in pinned else "requires a digest"):
            seen(pinned, strict)
    push_signature(registry, "origin/two", digest, key)
    assert [seen(pinned, strict).policy for pinned in places] == ["digest, signature"] * 2
    for pinned in (str(tmp_path / "given.sif"), f"oci:{tmp_path}"):
        with pytest.raises(UntrustedError, match=r"not signed|which only a registry has"):
            seen(pinned, replace(strict, policy=strict.policy._replace(needs=("signature",))))


def test_a_missing_image_is_reported(registry: Registry, options: ObtainOptions) -> None:
    with pytest.raises(NotFoundError):
        seen(f"docker://{registry.host}/origin/gone:1", options)


def test_a_dry_run_of_a_file_prints_only_its_path(tmp_path: Path, options: ObtainOptions) -> None:
    sif = make_sif(tmp_path / "given.sif")
    found = seen(str(sif), options)
    assert (found.reference, found.pinned, found.layers, found.bytes) == (str(sif), "", None, None)
