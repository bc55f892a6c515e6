"""A real registry behind a faulty proxy: every fetch returns correct data or raises one clear error."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from hpcmod.core.errors import RemoteError, VerificationError
from hpcmod.core.values.reference import ImageReference
from hpcmod.images.cache import Cache
from hpcmod.images.registry import fetch_artifact, open_registry_image
from hpcmod.images.web import client
from hpcmod.images.web.credentials import Access
from tests.fault_proxy import Fault, Proxy, run_proxy
from tests.registry import MANIFEST, Registry

NOISE = random.Random(7)  # noqa: S311 - noise for a test, the same each time
LAYERS = [NOISE.randbytes(900_000), NOISE.randbytes(300_000), b"small", NOISE.randbytes(300_000)]
SIF = NOISE.randbytes(500_000)
FIRST = f"sha256:{hashlib.sha256(LAYERS[0]).hexdigest()}"


@pytest.fixture(scope="module")
def pushed(registry: Registry) -> dict[str, Any]:
    """An image in the registry, and a SIF as an artifact."""
    one = registry.push_image("group/image", LAYERS, Env=["A=1"])
    config = registry.push_blob("group/sif", b"{}", "application/vnd.sylabs.sif.config.v1+json")
    file = registry.push_blob("group/sif", SIF, "application/vnd.sylabs.sif.layer.v1.sif")
    artifact = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [file]}
    registry.push_manifest("group/sif", "1", artifact)
    return {"one": one["digest"]}


@pytest.fixture
def proxy(registry: Registry, pushed: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy in front of the registry, with short waits for retries."""
    monkeypatch.setattr(client, "FIRST_WAIT", 0.01)
    with run_proxy(registry.host) as running:
        yield running


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture(params=["cache", "nothing on disk"])
def either(request: pytest.FixtureRequest, cache: Cache) -> Cache | None:
    """Both ways to fetch: through a cache, and without anything on disk."""
    return cache if request.param == "cache" else None


def reference(proxy: Proxy, name: str = "group/image:1", kind: str = "docker") -> ImageReference:
    return ImageReference.parse(f"{kind}://{proxy.host}/{name}")


def fetch(proxy: Proxy, cache: Cache | None, name: str = "group/image:1", **options: Any) -> list[bytes]:
    """Open an image and read its layers, the top one first; return them in the order of the image."""
    options = {"architecture": "amd64", **options}
    with open_registry_image(reference(proxy, name), cache=cache, **options) as image:
        found = []
        for layer in reversed(image.layers):
            with layer.open() as stream:
                found.append(stream.read())
        return found[::-1]


def test_layers_of_an_image_are_read_as_they_were_pushed(
    proxy: Proxy, either: Cache | None, pushed: dict[str, Any]
) -> None:
    assert fetch(proxy, either) == LAYERS
    with open_registry_image(reference(proxy), architecture="amd64", cache=either) as image:
        assert image.digest == pushed["one"]
        assert image.config.env == (("A", "1"),)
        assert [layer.size for layer in image.layers] == [len(layer) for layer in LAYERS]
        assert image.layers[0].digest == FIRST
        assert image.layers[1].diff_id == image.layers[1].digest


def test_cached_blobs_are_not_fetched_again(proxy: Proxy, cache: Cache, pushed: dict[str, Any]) -> None:
    fetch(proxy, cache)
    first = len(proxy.blobs())
    assert fetch(proxy, cache) == LAYERS
    assert len(proxy.blobs()) == first == len(LAYERS) + 1
    asked = len(proxy.asked)
    assert fetch(proxy, cache, f"group/image@{pushed['one']}") == LAYERS
    assert len(proxy.asked) == asked, "an image by digest that is in the cache needs no registry"


def test_a_layer_can_be_opened_again_and_left_early(proxy: Proxy, either: Cache | None) -> None:
    with open_registry_image(reference(proxy), architecture="amd64", cache=either) as image:
        for layer in image.layers:
            with layer.open() as stream:
                stream.read(1000)
        with image.layers[0].open() as one, image.layers[0].open() as two:
            assert one.read() == two.read() == LAYERS[0]


def test_a_layer_is_read_while_it_arrives(proxy: Proxy, either: Cache | None) -> None:
    proxy.faults = [Fault(FIRST, stall_at=200_000)]
    with (
        open_registry_image(reference(proxy), architecture="amd64", cache=either) as image,
        image.layers[0].open() as stream,
    ):
        assert stream.read1(1000) == LAYERS[0][:1000]  # type: ignore[attr-defined]
        proxy.released.set()
        assert stream.read() == LAYERS[0][1000:]


@pytest.mark.parametrize("cut_at", [0, 1, 131_072, 899_999])
def test_a_blob_cut_at_any_byte_is_resumed(proxy: Proxy, either: Cache | None, cut_at: int) -> None:
    proxy.faults = [Fault(FIRST, cut_at=cut_at)]
    assert fetch(proxy, either) == LAYERS
    asked = [asked.start for asked in proxy.blobs() if FIRST in asked.path]
    assert len(asked) == 2
    assert cut_at - client._CHUNK < asked[1] <= cut_at


def test_a_stalled_connection_is_closed_and_resumed(
    proxy: Proxy, either: Cache | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_TIMEOUT", (5.0, 1.0))
    proxy.faults = [Fault(FIRST, stall_at=400_000)]
    assert fetch(proxy, either) == LAYERS


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        pytest.param(Fault(FIRST, times=9, flip=0), "the digest is sha256:", id="first byte"),
        pytest.param(Fault(FIRST, times=9, flip=899_999), "the digest is sha256:", id="last byte"),
        pytest.param(
            Fault(FIRST, times=9, status=200, body=b"<html>log in first"), "the server reports 18 bytes", id="page"
        ),
        pytest.param(
            Fault(FIRST, times=9, status=200, body=b"x" * 900_001), "the server reports 900001 bytes", id="more"
        ),
        pytest.param(
            Fault(FIRST, times=9, status=200, body=b"x" * 900_001, headers={"Content-Length": "", "X": "1"}),
            "more than the expected 900000 bytes",
            id="more, unsaid",
        ),
    ],
)
def test_wrong_bytes_are_never_mistaken_for_right_ones(
    proxy: Proxy, either: Cache | None, cache: Cache, fault: Fault, says: str
) -> None:
    proxy.faults = [fault]
    with pytest.raises(VerificationError, match=says):
        fetch(proxy, either)
    assert not cache.path(FIRST).exists()
    assert not cache.partial(FIRST).exists()
    proxy.faults.clear()
    assert fetch(proxy, either) == LAYERS


def test_a_damaged_blob_of_the_cache_is_detected_removed_and_fetched_again(proxy: Proxy, cache: Cache) -> None:
    fetch(proxy, cache)
    cache.path(FIRST).write_bytes(LAYERS[0][:-1] + bytes([LAYERS[0][-1] ^ 1]))
    with pytest.raises(VerificationError, match="is damaged and was removed"):
        fetch(proxy, cache)
    assert fetch(proxy, cache) == LAYERS


def test_changes_by_a_group_member_during_a_download_are_detected(proxy: Proxy, cache: Cache) -> None:
    cache.directory.mkdir()
    cache.directory.chmod(0o2770)
    proxy.faults = [Fault(FIRST, stall_at=600_000)]
    with (
        open_registry_image(reference(proxy), architecture="amd64", cache=cache) as image,
        image.layers[0].open() as stream,
    ):
        until = time.monotonic() + 10
        while cache.size_of_partial(FIRST) < 400_000 and time.monotonic() < until:
            time.sleep(0.01)
        with cache.partial(FIRST).open("r+b") as file:
            file.write(bytes(400_000))
        proxy.released.set()
        with pytest.raises(VerificationError):
            while stream.read(50_000):
                pass


def test_an_error_of_one_blob_is_raised_while_another_is_read(proxy: Proxy, cache: Cache) -> None:
    top = hashlib.sha256(LAYERS[3]).hexdigest()
    proxy.faults = [Fault(FIRST, status=403, times=9), Fault(top, stall_at=200_000)]
    with (
        open_registry_image(reference(proxy), architecture="amd64", cache=cache) as image,
        image.layers[3].open() as stream,
        pytest.raises(RemoteError, match="403"),
    ):
        stream.read()


def test_an_interrupted_read_leaves_the_data_and_no_lock(proxy: Proxy, cache: Cache) -> None:
    proxy.faults = [Fault(FIRST, stall_at=400_000)]
    with (
        pytest.raises(KeyboardInterrupt),
        open_registry_image(reference(proxy), architecture="amd64", cache=cache) as image,
        image.layers[0].open() as stream,
    ):
        stream.read(200_000)
        raise KeyboardInterrupt
    proxy.released.set()
    assert cache.partial(FIRST).stat().st_size >= 200_000
    assert fetch(proxy, cache) == LAYERS
    assert not [file for file in (cache.directory / "locks").iterdir() if file.suffix != ".guard"]


def test_reading_on_after_the_end_is_an_error_of_ours(proxy: Proxy, cache: Cache) -> None:
    proxy.faults = [Fault(FIRST, stall_at=300_000)]
    with open_registry_image(reference(proxy), architecture="amd64", cache=cache) as image:
        stream = image.layers[0].open()
        layer = image.layers[1]
    proxy.released.set()
    with pytest.raises(RemoteError, match="stopped before it was complete"):
        stream.read()
    stream.close()
    with pytest.raises(RemoteError, match="stopped before"):
        layer.open().read()


def test_several_blobs_come_at_once_and_no_more_than_four(registry: Registry, proxy: Proxy, cache: Cache) -> None:
    layers = [NOISE.randbytes(100_000) for _ in range(9)]
    registry.push_image("group/many", layers)
    proxy.faults = [Fault(f"{hashlib.sha256(layer).hexdigest()}", stall_at=50_000) for layer in layers]
    with open_registry_image(reference(proxy, "group/many:1"), architecture="amd64", cache=cache) as image:
        stream = image.layers[-1].open()
        until = time.monotonic() + 5
        while len(proxy.sent) < 5 and time.monotonic() < until:  # the configuration and four layers
            time.sleep(0.01)
        assert len({path for path, _, _ in proxy.sent}) == 5
        proxy.released.set()
        proxy.faults.clear()
        assert stream.read() == layers[-1]
    assert len(proxy.faults) == 0


def test_a_blob_that_occurs_twice_in_an_image_is_fetched_once(registry: Registry, proxy: Proxy, cache: Cache) -> None:
    registry.push_image("group/twice", [LAYERS[1], LAYERS[2], LAYERS[1]])
    assert fetch(proxy, cache, "group/twice:1") == [LAYERS[1], LAYERS[2], LAYERS[1]]
    assert len(proxy.blobs()) == 3


def test_an_artifact_that_breaks_off_is_resumed_by_the_next_run(proxy: Proxy, tmp_path: Path) -> None:
    digits = hashlib.sha256(SIF).hexdigest()
    proxy.faults = [Fault(digits, cut_at=300_000), Fault(digits, status=403, times=9)]
    out = tmp_path / "out.sif"
    with pytest.raises(RemoteError):
        fetch_artifact(reference(proxy, "group/sif:1", "oras"), out, architecture="amd64")
    assert not out.exists()
    proxy.faults.clear()
    fetch_artifact(reference(proxy, "group/sif:1", "oras"), out, architecture="amd64")
    assert out.read_bytes() == SIF
    assert [path.name for path in tmp_path.iterdir()] == ["out.sif"]
    assert 0 < [asked.start for asked in proxy.blobs() if digits in asked.path][-1] <= 300_000


def test_plain_http_is_for_this_machine_only_or_where_it_is_reported(
    monkeypatch: pytest.MonkeyPatch, cache: Cache
) -> None:
    monkeypatch.setattr(client, "FIRST_WAIT", 0.0)
    asked: list[str] = []

    def note(_: Any, url: str, **__: Any) -> None:
        asked.append(url)
        raise requests.ConnectionError

    monkeypatch.setattr(requests.Session, "get", note)
    far = ImageReference.parse("docker://registry.example.org/x/y:1")
    for access, expected in ((Access(), {"https"}), (Access(allow_http=True), {"https", "http"})):
        asked.clear()
        with pytest.raises(RemoteError), open_registry_image(far, architecture="amd64", cache=cache, access=access):
            pass
        assert {url.partition(":")[0] for url in asked} == expected
