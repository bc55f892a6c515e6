from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from hpcmod.core.errors import RemoteError, UntrustedError, VerificationError
from hpcmod.core.values.reference import ImageReference
from hpcmod.core.values.trust import ANYTHING, TrustPolicy, TrustRule
from hpcmod.images.acquire.obtain import obtain
from hpcmod.images.acquire.origin import ObtainOptions
from hpcmod.modules.image_source import ImageSource, image_directories
from tests.corpus import make_sif
from tests.oci_corpus import CASES, f, tar_bytes, write_case
from tests.registry import Registry
from tests.unit.images.file_server import Answer, serve

DIGEST = "sha256:" + "0" * 64
OTHER = "sha256:" + "1" * 64


@pytest.fixture
def options(tmp_path: Path) -> ObtainOptions:
    return ObtainOptions("amd64", environ={"HOME": str(tmp_path / "home"), "PATH": os.defpath})


@pytest.fixture
def body(tmp_path: Path) -> bytes:
    return make_sif(tmp_path / "given.sif").read_bytes()


@pytest.mark.parametrize(
    ("text", "urls", "origins", "pinned"),
    [
        ("a.sif", [], [], False),
        ("/x/a.sif", ["https://h/d"], [], False),
        ("a.sif", ["https://h/d/", "https://g"], ["https://h/d/a.sif", "https://g/a.sif"], False),
        ("https://h/a.sif", [], ["https://h/a.sif"], False),
        (f"docker://h.io/x@{DIGEST}", [], [f"docker://h.io/x@{DIGEST}"], True),
        ("a.sif", [f"docker://h.io/x@{DIGEST}"], [f"docker://h.io/x@{DIGEST}"], True),
        ("a.sif", [f"docker://h.io/x@{DIGEST}", "https://h"], [f"docker://h.io/x@{DIGEST}", "https://h/a.sif"], False),
        ("a.sif", ["oras://h.io/x:1"], ["oras://h.io/x:1"], False),
    ],
)
def test_an_easyconfig_says_what_the_sif_is_called_and_where_it_is_got(
    text: str, urls: list[str], origins: list[str], pinned: bool
) -> None:
    source = ImageSource.make(text, urls, None)
    assert [one.canonical for one in source.origins] == origins
    assert source.pinned == pinned
    assert ImageSource.make(text, urls, "0" * 64).pinned
    assert {one.file_name for one in source.origins} <= {source.reference.file_name}


def test_an_image_from_the_second_address_gets_its_name_and_no_part_stays(
    tmp_path: Path, options: ObtainOptions, body: bytes
) -> None:
    place = tmp_path / "to"
    place.mkdir()
    with serve(body) as gone, serve(body) as server:
        gone.answers = [Answer(404)]
        urls = [one.url.rpartition("/")[0] for one in (gone, server)]
        got = ImageSource.make("image.sif", urls, hashlib.sha256(body).hexdigest()).fetch(place, options=options)
    assert got.path.read_bytes() == body
    assert sorted(path.name for path in place.iterdir()) == ["image.sif", "image.sif.provenance.json"]


def test_a_different_image_gets_no_final_name(tmp_path: Path, options: ObtainOptions, body: bytes) -> None:
    place = tmp_path / "to"
    place.mkdir()
    with serve(body) as server, pytest.raises(VerificationError):
        ImageSource.make(server.url, [], "0" * 64).fetch(place, options=options)
    assert list(place.iterdir()) == []


def test_a_missing_image_is_reported_with_every_address(tmp_path: Path, options: ObtainOptions, body: bytes) -> None:
    with serve(body) as server:
        server.answers = [Answer(404), Answer(403)]
        url = server.url.rpartition("/")[0]
        with pytest.raises(RemoteError, match=r"image\.sif could not be fetched from any address:\n.*404.*\n.*403"):
            ImageSource.make("image.sif", [url, url], None).fetch(tmp_path, options=options)


def test_finds_a_file_fetched_by_an_earlier_run_by_its_checksum(
    registry: Registry, tmp_path: Path, options: ObtainOptions
) -> None:
    digest = registry.push_image("source/found", [tar_bytes([f("a")])])["digest"]
    source = ImageSource.make(f"docker://{registry.host}/source/found@{digest}", [], None)
    got = source.fetch(tmp_path, options=options)
    found = source.find([str(tmp_path)], policy=TrustPolicy(("digest",)), environ=options.environ)
    assert found and found.ours
    assert (found.path, found.sha256, found.provenance) == (got.path, got.sha256, got.provenance)
    strangers = {"HOME": str(tmp_path / "another")}
    with pytest.raises(UntrustedError, match="you have not fetched this file"):
        source.find([str(tmp_path)], policy=TrustPolicy(("digest",)), environ=strangers)
    trusted_place = TrustPolicy(("digest",), rules=(TrustRule(f"{tmp_path}/*"),))
    there = source.find([str(tmp_path)], policy=trusted_place, environ=strangers)
    assert there is not None
    assert (there.sha256, there.ours) == (got.sha256, False)


def test_an_archive_next_to_the_easyconfig_is_converted(tmp_path: Path, options: ObtainOptions) -> None:
    write_case(tmp_path / "recipes" / "layout", CASES["plain"])
    source = ImageSource.make("oci:layout", [], None)
    got = source.fetch(tmp_path, options=options, beside=["/nowhere", str(tmp_path / "recipes")])
    assert got.path == tmp_path / "layout.sif"
    assert got.provenance is not None
    assert got.provenance.reference == f"oci:{tmp_path}/recipes/layout"


def test_a_file_fetched_by_another_digest_is_not_used(tmp_path: Path, options: ObtainOptions, body: bytes) -> None:
    reference = ImageReference.parse(str(tmp_path / "given.sif"))
    source = ImageSource.make("x.sif", [f"docker://h.io/x@{OTHER}"], None)
    obtain(reference, tmp_path / "x.sif", options=options)
    with pytest.raises(VerificationError, match=f"expected {OTHER}"):
        source.find([str(tmp_path)], policy=ANYTHING, environ=options.environ)


def test_a_file_without_provenance_is_used_for_a_digest_only_with_its_checksum(
    tmp_path: Path, options: ObtainOptions, body: bytes
) -> None:
    for urls, text in (([f"docker://h.io/x@{DIGEST}"], "given.sif"), ([], f"docker://h.io/x@{DIGEST}")):
        source = ImageSource.make(text, urls, None)
        (tmp_path / source.reference.file_name).write_bytes(body)
        with pytest.raises(UntrustedError, match="no record that this file is"):
            source.find([str(tmp_path)], policy=ANYTHING, environ=options.environ)
        known = ImageSource.make(text, urls, hashlib.sha256(body).hexdigest())
        found = known.find([str(tmp_path)], policy=ANYTHING, environ=options.environ)
        assert found is not None
        assert found.sha256 == known.checksum


def test_a_file_from_another_user_is_used_if_no_digest_is_required(
    tmp_path: Path, options: ObtainOptions, body: bytes
) -> None:
    source = ImageSource.make("given.sif", ["docker://h.io/x:1"], None)
    found = source.find([str(tmp_path)], policy=ANYTHING, environ=options.environ)
    assert found is not None
    assert (found.path, found.sha256, found.ours) == (tmp_path / "given.sif", None, False)


def test_an_image_is_looked_for_below_each_parent_by_letter_and_name_and_at_the_sites_places_last() -> None:
    found = image_directories(["/recipes/", "/sources"], "PyTorch", ["/site/images"])
    assert found == [
        *("/recipes/p/PyTorch", "/recipes/PyTorch", "/recipes"),
        *("/sources/p/PyTorch", "/sources/PyTorch", "/sources"),
        "/site/images",
    ]
