from __future__ import annotations

import hashlib
import json
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, NoSpaceError, UntrustedError, VerificationError
from hpcmod.core.fs.temporary import PRIVATE, resumable_name
from hpcmod.core.values.facts import Provenance
from hpcmod.core.values.reference import ImageReference
from hpcmod.core.values.trust import TrustPolicy, TrustRule
from hpcmod.images.acquire.obtain import Obtained, obtain
from hpcmod.images.acquire.origin import ObtainOptions
from hpcmod.images.cache import Cache
from hpcmod.images.sif.reader import read_sif
from hpcmod.images.trust.provenance import is_remembered, read_provenance, write_provenance
from hpcmod.images.verify import verify_image
from tests.corpus import make_sif
from tests.locks import write_dead_lock
from tests.lustre import pretend_lustre
from tests.oci_corpus import CASES, f, tar_bytes, write_case
from tests.registry import MANIFEST, Registry
from tests.unit.images.file_server import Answer, serve

pytestmark = pytest.mark.slow

SIF_LAYER = "application/vnd.sylabs.sif.layer.v1.sif"


@pytest.fixture
def options(tmp_path: Path) -> ObtainOptions:
    return ObtainOptions("amd64", environ={"HOME": str(tmp_path / "home"), "PATH": os.defpath})


@pytest.fixture
def sif(tmp_path: Path) -> Path:
    return make_sif(tmp_path / "given.sif")


def get(text: str, out: Path, options: ObtainOptions) -> Obtained:
    got = obtain(ImageReference.parse(text), out, options=options)
    assert got.provenance.sha256 == hashlib.sha256(out.read_bytes()).hexdigest()
    assert read_provenance(out) == got.provenance
    assert is_remembered(got.provenance, options.environ)
    return got


def leftovers(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(("readers", "mode"), [(os.getegid(), 0o640), (None, 0o644)])
def test_a_sif_for_a_group_is_never_readable_for_others(
    tmp_path: Path, options: ObtainOptions, sif: Path, readers: int | None, mode: int
) -> None:
    got = obtain(ImageReference.parse(str(sif)), tmp_path / "x.sif", options=replace(options, readers=readers))
    assert got.path.stat().st_mode & 0o777 == mode


def test_a_sif_is_striped_as_the_profile_says_before_it_is_written(
    tmp_path: Path, options: ObtainOptions, sif: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = pretend_lustre(monkeypatch, tmp_path / "lustre")
    get(str(sif), tmp_path / "x.sif", replace(options, striping="-c 8"))
    (line,) = log.read_text().splitlines()
    assert line.startswith("setstripe -c 8 /proc/") and line.endswith(": ")  # a private, empty directory


@pytest.mark.parametrize("kind", ["", "oci:"])
def test_a_layout_becomes_a_sif_with_its_provenance(tmp_path: Path, options: ObtainOptions, kind: str) -> None:
    layout = write_case(tmp_path / "layout", CASES["configured"])
    got = get(f"{kind}{layout}", tmp_path / "x.sif", options)
    assert got.provenance.reference == f"oci:{layout}"
    assert got.provenance.digest == json.loads((layout / "index.json").read_text())["manifests"][0]["digest"]
    assert read_sif(got.path).architecture == "amd64"
    assert leftovers(tmp_path) == []


def test_a_path_is_copied_and_keeps_where_it_came_from(tmp_path: Path, options: ObtainOptions) -> None:
    layout = write_case(tmp_path / "layout", CASES["plain"])
    first = get(f"oci:{layout}", tmp_path / "x.sif", options)
    second = get(str(first.path), tmp_path / "y.sif", options)
    assert second.provenance.reference == first.provenance.reference
    assert second.provenance.digest == first.provenance.digest


def test_a_file_that_differs_from_its_provenance_is_refused(tmp_path: Path, options: ObtainOptions) -> None:
    layout = write_case(tmp_path / "layout", CASES["plain"])
    first = get(f"oci:{layout}", tmp_path / "x.sif", options)
    with first.path.open("ab") as file:
        file.write(b"more")
    for action in (lambda: get(str(first.path), tmp_path / "y.sif", options), lambda: verify(first.path, options)):
        with pytest.raises(VerificationError) as caught:
            action()
        assert f"remove the record of its fetch: rm {first.path}.provenance.json" in caught.value.cure
    assert not (tmp_path / "y.sif").exists()


def verify(sif: Path, options: ObtainOptions) -> None:
    verify_image(ImageReference.parse(str(sif)), options=options)


def test_an_address_is_fetched_resumed_and_verified(tmp_path: Path, options: ObtainOptions, sif: Path) -> None:
    content = sif.read_bytes() + os.urandom(1 << 20)
    with serve(content) as server:
        server.answers.append(Answer(cut_at=1 << 19))
        got = get(server.url, tmp_path / "x.sif", replace(options, checksum=hashlib.sha256(content).hexdigest()))
        assert len(server.ranges) == 2
        assert server.ranges[1].startswith("bytes=")
    assert got.path.read_bytes() == content
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("kind", ["url", "layout", "path"])
def test_a_wrong_checksum_leaves_nothing(tmp_path: Path, options: ObtainOptions, sif: Path, kind: str) -> None:
    layout = write_case(tmp_path / "layout", CASES["plain"])
    with serve(sif.read_bytes()) as server:
        text = {"url": server.url, "layout": f"oci:{layout}", "path": str(sif)}[kind]
        with pytest.raises(VerificationError):
            get(text, tmp_path / "x.sif", replace(options, checksum="0" * 64))
    assert not (tmp_path / "x.sif").exists()
    assert leftovers(tmp_path) == []


def test_an_existing_file_is_replaced_only_on_request(tmp_path: Path, options: ObtainOptions, sif: Path) -> None:
    out = tmp_path / "x.sif"
    out.write_text("mine")
    with pytest.raises(BadInputError, match="already exists"):
        get(str(sif), out, options)
    assert out.read_text() == "mine"
    get(str(sif), out, replace(options, replace=True))
    assert out.read_bytes() == sif.read_bytes()


def push(registry: Registry, repository: str) -> str:
    """Push a small image and return its digest."""
    return str(registry.push_image(repository, [tar_bytes([f("etc/motd", repository)])])["digest"])


@pytest.mark.parametrize("cached", [True, False])
def test_an_image_of_a_registry_is_pinned_converted_and_not_fetched_again(
    registry: Registry, tmp_path: Path, options: ObtainOptions, cached: bool
) -> None:
    digest = push(registry, "obtain/tag")
    options = replace(options, cache=Cache(tmp_path / "cache") if cached else None)
    got = get(f"docker://{registry.host}/obtain/tag:1", tmp_path / "x.sif", options)
    assert (got.provenance.digest, got.fetched) == (digest, True)
    pinned = f"docker://{registry.host}/obtain/tag@{digest}"
    assert get(pinned, tmp_path / "y.sif", options).fetched
    assert not get(pinned, tmp_path / "y.sif", options).fetched
    assert not get(f"docker://{registry.host}/obtain/tag:1", tmp_path / "x.sif", options).fetched
    assert (tmp_path / "cache").exists() == cached


def test_a_file_of_a_web_server_is_fetched_once_by_two_at_a_time_and_by_the_next(
    tmp_path: Path, options: ObtainOptions, sif: Path
) -> None:
    out, got = tmp_path / "x.sif", []
    with serve(sif.read_bytes()) as server:
        both = [threading.Thread(target=lambda: got.append(get(server.url, out, options).fetched)) for _ in range(2)]
        for one in both:
            one.start()
        for one in both:
            one.join()
        assert sorted(got) == [False, True]
        assert not get(server.url, out, options).fetched
        assert get(server.url, out, replace(options, replace=True)).fetched


def test_a_file_that_only_claims_to_be_the_image_is_not_used(
    registry: Registry, tmp_path: Path, options: ObtainOptions, sif: Path
) -> None:
    text = f"docker://{registry.host}/obtain/claim@{push(registry, 'obtain/claim')}"
    other = replace(options, environ={"HOME": str(tmp_path / "another")})
    get(text, tmp_path / "x.sif", other)
    with pytest.raises(BadInputError, match="already exists"):
        get(text, tmp_path / "x.sif", options)


def test_a_moved_tag_is_a_different_image(registry: Registry, tmp_path: Path, options: ObtainOptions) -> None:
    text = f"docker://{registry.host}/obtain/moved:1"
    push(registry, "obtain/moved")
    get(text, tmp_path / "x.sif", options)
    registry.push_image("obtain/moved", [tar_bytes([f("new")])])
    with pytest.raises(BadInputError, match="already exists"):
        get(text, tmp_path / "x.sif", options)
    assert get(text, tmp_path / "x.sif", replace(options, replace=True)).fetched


def push_sif(registry: Registry, repository: str, sif: Path) -> str:
    """Push a SIF as an artifact and return its digest."""
    layer = registry.push_blob(repository, sif.read_bytes(), SIF_LAYER)
    config = registry.push_blob(repository, b"{}", "application/vnd.sylabs.sif.config.v1+json")
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}
    return str(registry.push_manifest(repository, "1", manifest)["digest"])


def test_an_artifact_without_a_signature_is_refused_before_it_is_fetched(
    registry: Registry, tmp_path: Path, options: ObtainOptions, sif: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"oras://{registry.host}/obtain/refused@{push_sif(registry, 'obtain/refused', sif)}"
    monkeypatch.setattr("hpcmod.images.registry.Downloads", None)
    with pytest.raises(UntrustedError, match="not signed"):
        get(text, tmp_path / "x.sif", replace(options, policy=UNSIGNED))
    assert leftovers(tmp_path) == []


def test_an_artifact_is_fetched_as_the_sif_it_is(
    registry: Registry, tmp_path: Path, options: ObtainOptions, sif: Path
) -> None:
    digest = push_sif(registry, "obtain/sif", sif)
    got = get(f"oras://{registry.host}/obtain/sif:1", tmp_path / "x.sif", options)
    assert (got.provenance.digest, got.path.read_bytes()) == (digest, sif.read_bytes())
    assert leftovers(tmp_path) == []
    with pytest.raises(BadInputError) as caught:
        get(f"docker://{registry.host}/obtain/sif:1", tmp_path / "y.sif", options)
    assert "oras://" in caught.value.cure


def test_removes_leftovers_of_a_killed_process_that_cannot_be_resumed(
    tmp_path: Path, options: ObtainOptions, sif: Path
) -> None:
    write_dead_lock(tmp_path / ".x.sif.lock")
    kept = resumable_name("x.sif")
    for name in (".x.sif.hpcmod-part-7", ".x.sif.provenance.json.hpcmod-part-7", kept):
        (tmp_path / name).mkdir(mode=PRIVATE)
        (tmp_path / name / "x.sif").write_text("left")
        (tmp_path / name).chmod(0o1700)  # the mode that hpcmod sets: directories with other modes are kept
    get(str(sif), tmp_path / "x.sif", options)
    assert sorted(leftovers(tmp_path)) == [kept]


UNSIGNED = TrustPolicy(("signature",), ("/k.pem",))


def test_a_whole_download_that_is_refused_for_another_reason_is_not_fetched_again(
    tmp_path: Path, options: ObtainOptions, sif: Path
) -> None:
    with serve(sif.read_bytes()) as server:
        for _ in range(2):
            with pytest.raises(UntrustedError, match="not signed") as caught:
                get(server.url, tmp_path / "x.sif", replace(options, policy=UNSIGNED))
            assert caught.value.message.startswith(f"{tmp_path}/x.sif: ")
        get(server.url, tmp_path / "x.sif", options)
        assert server.ranges == ["", *[f"bytes={sif.stat().st_size}-"] * 2]
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("body", [b"<html>not found</html>", b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\0"])
def test_a_whole_download_that_proves_wrong_goes_and_the_message_names_the_users_file(
    tmp_path: Path, options: ObtainOptions, body: bytes
) -> None:
    with serve(body) as server, pytest.raises((BadInputError, VerificationError)) as caught:
        get(server.url, tmp_path / "x.sif", options)
    assert caught.value.message.startswith(f"{tmp_path}/x.sif: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("need", ["digest", "checksum"])
def test_unpinned_images_are_refused_before_fetching(tmp_path: Path, options: ObtainOptions, need: str) -> None:
    options = replace(options, policy=TrustPolicy(rules=(TrustRule("https://*", (need,)),)))
    with serve(b"") as server:
        text = server.url.replace("http://", "https://")
        with pytest.raises(UntrustedError, match=f"requires a {need}"):
            get(text, tmp_path / "x.sif", options)
        assert server.asked == []


def test_a_forged_provenance_does_not_help_a_file_past_the_policy(
    tmp_path: Path, options: ObtainOptions, sif: Path
) -> None:
    digest = "sha256:" + "1" * 64
    sha256, verified = hashlib.sha256(sif.read_bytes()).hexdigest(), (f"digest: {digest}", "signature: /k.pem")
    write_provenance(sif, Provenance(f"docker://h.io/x@{digest}", digest, sha256, sif.stat().st_size, "", "", verified))
    policies = (
        TrustPolicy(("digest",)),
        TrustPolicy(("signature",), ("/k.pem",)),
        TrustPolicy(("digest",), rules=(TrustRule("docker://*"),)),
    )
    for policy in policies:
        with pytest.raises(UntrustedError):
            verify(sif, replace(options, policy=policy))
    verify(sif, options)


def test_missing_space_is_reported_before_any_layer_is_opened(
    registry: Registry, tmp_path: Path, options: ObtainOptions
) -> None:
    kind = "application/vnd.oci.image.layer.v1.tar+gzip"
    layer = {**registry.push_blob("obtain/huge", b"x", kind), "size": 1 << 60}
    config = registry.push_blob("obtain/huge", b'{"rootfs": {}}', "application/vnd.oci.image.config.v1+json")
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}
    registry.push_manifest("obtain/huge", "1", manifest)
    with pytest.raises(NoSpaceError, match="the SIF at least"):
        get(f"docker://{registry.host}/obtain/huge:1", tmp_path / "x.sif", options)
    assert leftovers(tmp_path) == []
