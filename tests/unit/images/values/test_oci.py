from __future__ import annotations

import json

import pytest

from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.images.values.oci import (
    MANIFEST_LIMIT,
    ImageConfig,
    Manifest,
    OciDescriptor,
    check_is_image,
    check_platform,
    choose_platform,
    parse_config,
    parse_manifest,
    parse_saved,
)

DIGEST = "sha256:" + "0123456789abcdef" * 4
CONFIG = "application/vnd.oci.image.config.v1+json"


def descriptor(**more: object) -> dict[str, object]:
    return {"mediaType": "x/y", "digest": DIGEST, "size": 7, **more}


def manifest(**more: object) -> bytes:
    return json.dumps({"schemaVersion": 2, "config": descriptor(), "layers": [descriptor()], **more}).encode()


def config(**more: object) -> bytes:
    return json.dumps({"architecture": "amd64", "os": "linux", "rootfs": {"diff_ids": [DIGEST]}, **more}).encode()


def entry(platform: str, digest: str = DIGEST) -> OciDescriptor:
    os_name, architecture, variant = (*platform.split("/"), "", "")[:3]
    return OciDescriptor("x/y", digest, 1, (), architecture, os_name, variant)


def test_a_manifest_gives_its_configuration_and_layers() -> None:
    layer = descriptor(annotations={"a": "b"})
    found = parse_manifest(manifest(layers=[layer], artifactType="t"))
    assert found == Manifest(OciDescriptor("x/y", DIGEST, 7), (OciDescriptor("x/y", DIGEST, 7, (("a", "b"),)),), "t")


def test_an_index_gives_its_entries_with_their_platforms() -> None:
    platform = {"architecture": "arm64", "os": "linux", "variant": "v8"}
    text = json.dumps({"schemaVersion": 2, "manifests": [descriptor(platform=platform)]}).encode()
    found = parse_manifest(text)
    assert isinstance(found, tuple)
    assert [one.platform for one in found] == ["linux/arm64/v8"]


def test_a_configuration_says_how_the_image_wants_to_be_run() -> None:
    inner = {
        "Env": ["A=b=c", "EMPTY="],
        "Entrypoint": None,
        "Cmd": ["sh"],
        "Labels": {"l": "m", "null": None},
    }
    assert parse_config(config(created="2024-05-06T07:08:09.5Z", config=inner)) == ImageConfig(
        *("amd64", "linux", 1714979289, (("A", "b=c"), ("EMPTY", "")), (), ("sh",)),
        labels=(("l", "m"), ("null", "")),
        diff_ids=(DIGEST,),
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:01Z", 1),
        ("1970-01-01T02:00:00+01:30", 1800),
        ("1970-01-01T00:00:00-00:30", 1800),
        ("0001-01-01T00:00:00Z", 0),
        ("2024-13-01T00:00:00Z", 0),
        ("yesterday", 0),
        ("", 0),
    ],
)
def test_a_time_is_unix_seconds_or_unknown(text: str, seconds: int) -> None:
    assert parse_config(config(created=text)).created == seconds


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"[]", b"null", b"{", b"\xff", b"[" * 100_000, b"9" * 5000, b'{"config": 1}', b'{"manifests": {}}'),
        b" " * (MANIFEST_LIMIT + 1),
        *(manifest(schemaVersion=1), manifest(schemaVersion=True), manifest(layers=1), manifest(layers=[1])),
        *(manifest(layers=[descriptor(size=size)]) for size in (-1, "7", 1.5, 1 << 70, True, None)),
        *(
            manifest(config=descriptor(digest=text))
            for text in ("", "sha256:0", DIGEST + "\n", "sha512:" + "0" * 128, 3)
        ),
        *(manifest(artifactType=text) for text in ("\ud800", "a\0b", ["x"], 0)),
        *(manifest(layers=[descriptor(annotations=value)]) for value in ([], {"a": 1}, {"a": []})),
        manifest(layers=[descriptor()] * 1001),
        json.dumps({"manifests": [descriptor(platform={"architecture": "\x1b[2J"})]}).encode(),
    ],
    ids=lambda text: repr(text[:70]),
)
def test_refuses_a_manifest_that_is_not_as_it_must_be(text: bytes) -> None:
    with pytest.raises(BadInputError):
        parse_manifest(text)


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"[]", b"{}" * 2, config(rootfs=[]), config(rootfs={"diff_ids": ["x"]}), config(architecture=[1])),
        *(
            config(config={key: value})
            for key in ("Env", "Cmd", "Entrypoint")
            for value in ("x", [1], {"a": "b"}, ["\0"])
        ),
        *(config(config={"Labels": value}) for value in (["a"], {"a": ["b"]})),
    ],
    ids=lambda text: repr(text[-50:]),
)
def test_refuses_a_configuration_that_is_not_as_it_must_be(text: bytes) -> None:
    with pytest.raises(BadInputError):
        parse_config(text)


@pytest.mark.parametrize(
    ("platforms", "architecture", "chosen"),
    [
        (["linux/amd64", "linux/arm64"], "arm64", "linux/arm64"),
        (["windows/amd64", "linux/amd64"], "amd64", "linux/amd64"),
        (["linux/amd64/v3", "linux/amd64/v2", "linux/amd64"], "amd64", "linux/amd64"),
        (["linux/arm/v5", "linux/arm/v7", "linux/arm/v6"], "arm", "linux/arm/v7"),
        (["linux/arm64", "linux/arm64/v8"], "arm64", "linux/arm64/v8"),
        (["linux/amd64", "unknown/unknown"], "amd64", "linux/amd64"),
        (["/"], "amd64", "?/?"),
    ],
)
def test_the_image_that_fits_the_machine_is_chosen(platforms: list[str], architecture: str, chosen: str) -> None:
    assert choose_platform([entry(one) for one in platforms], architecture).platform == chosen


@pytest.mark.parametrize("platforms", [[], ["linux/arm64"], ["windows/amd64"], ["unknown/unknown"], ["/", "/"]])
def test_refuses_a_missing_architecture_and_lists_those_available(platforms: list[str]) -> None:
    with pytest.raises(LackingError, match="no image for linux/amd64"):
        choose_platform([entry(one, f"sha256:{number:064}") for number, one in enumerate(platforms)], "amd64")


def test_the_platform_in_the_configuration_is_used() -> None:
    assert check_platform(parse_config(config()), "amd64").architecture == "amd64"
    assert check_platform(parse_config(config(architecture=None)), "arm64").architecture == "arm64"
    with pytest.raises(LackingError, match="available: linux/amd64"):
        check_platform(parse_config(config()), "arm64")
    with pytest.raises(LackingError, match="available: windows/amd64"):
        check_platform(parse_config(config(architecture="", os="windows")), "amd64")


def test_a_sif_in_a_registry_is_not_an_image_and_the_error_says_how_to_name_it() -> None:
    found = parse_manifest(manifest(config=descriptor(mediaType="application/vnd.sylabs.sif.config.v1+json")))
    assert isinstance(found, Manifest)
    with pytest.raises(BadInputError) as caught:
        check_is_image(found)
    assert "oras://" in caught.value.cure


def test_tells_images_from_other_artifacts() -> None:
    image, other = parse_manifest(manifest(config=descriptor(mediaType=CONFIG))), parse_manifest(manifest())
    assert isinstance(image, Manifest)
    assert isinstance(other, Manifest)
    check_is_image(image)
    with pytest.raises(BadInputError, match="'x/y'"):
        check_is_image(other)


def test_reads_the_image_list_of_docker_save() -> None:
    text = json.dumps([{"Config": "c.json", "RepoTags": None, "Layers": ["a/layer.tar"]}]).encode()
    assert [(one.config, one.tags, one.layers) for one in parse_saved(text)] == [("c.json", (), ("a/layer.tar",))]
