"""Fetching each kind of reference to a temporary path; test_obtain.py tests `obtain` as a whole."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.errors import UntrustedError
from hpcmod.core.values.facts import Provenance
from hpcmod.core.values.reference import ImageReference
from hpcmod.core.values.trust import TrustRule
from hpcmod.images.acquire.fetch_sif import FetchedSif, FetchTask, fetch_sif
from hpcmod.images.acquire.origin import ObtainOptions, Origin
from hpcmod.images.sif.reader import read_sif
from hpcmod.images.trust.provenance import remember, write_provenance
from tests.corpus import make_sif
from tests.oci_corpus import CASES, f, tar_bytes, write_case
from tests.registry import Registry
from tests.unit.images.file_server import serve

ANY = TrustRule("*")


@pytest.fixture
def options(tmp_path: Path) -> ObtainOptions:
    return ObtainOptions("amd64", environ={"HOME": str(tmp_path), "PATH": str(tmp_path / "nothing")})


def task(text: str, tmp_path: Path, options: ObtainOptions, rule: TrustRule = ANY) -> FetchTask:
    return FetchTask(ImageReference.parse(text), tmp_path / "out.sif", tmp_path / "staged.sif", rule, options, None)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_layout_is_converted_under_its_temporary_name(tmp_path: Path, options: ObtainOptions) -> None:
    wanted = task(f"oci:{write_case(tmp_path / 'layout', CASES['plain'])}", tmp_path, options)
    fetched = fetch_sif(wanted)
    assert fetched.sha256 == sha256(wanted.staged)
    assert fetched.digest.startswith("sha256:")
    assert read_sif(wanted.staged).architecture == "amd64"
    assert not wanted.out.exists()


@pytest.mark.parametrize("ours", [True, False])
def test_a_copy_keeps_its_origin_if_this_user_fetched_it(tmp_path: Path, options: ObtainOptions, ours: bool) -> None:
    sif = make_sif(tmp_path / "given.sif")
    known = Provenance("docker://h.io/x", "sha256:" + "a" * 64, sha256(sif), sif.stat().st_size, "t", "t")
    write_provenance(sif, known)
    if ours:
        remember(known, options.environ)
    wanted = task(str(sif), tmp_path, options)
    expected = FetchedSif(sha256(sif), known.digest, source=known.reference) if ours else FetchedSif(sha256(sif))
    assert fetch_sif(wanted) == expected
    assert wanted.staged.read_bytes() == sif.read_bytes()


def test_a_file_of_a_web_server_is_fetched_and_its_sum_is_reported(tmp_path: Path, options: ObtainOptions) -> None:
    said: list[str] = []
    body = make_sif(tmp_path / "given.sif").read_bytes()
    with serve(body) as server:
        wanted = task(server.url, tmp_path, replace(options, tell=said.append))
        assert fetch_sif(wanted) == FetchedSif(hashlib.sha256(body).hexdigest())
    assert wanted.staged.read_bytes() == body
    assert [hashlib.sha256(body).hexdigest() in line for line in said] == [True]


def test_an_image_of_a_registry_is_pinned_once_and_stays_pinned(
    registry: Registry, tmp_path: Path, options: ObtainOptions
) -> None:
    digest = registry.push_image("fetch/a", [tar_bytes([f("a")])])["digest"]
    reference = ImageReference.parse(f"docker://{registry.host}/fetch/a:1")
    pinned = Origin(reference, options).pin()
    assert (pinned.digest, Origin(pinned, options).pin()) == (digest, pinned)
    registry.push_image("fetch/a", [tar_bytes([f("b")])])
    wanted = FetchTask(pinned, tmp_path / "out.sif", tmp_path / "staged.sif", ANY, options, None)
    assert fetch_sif(wanted).digest == digest
    assert Origin(ImageReference.parse("oci:/srv/x"), options).pin().digest == ""


def test_a_signature_that_is_wanted_and_cannot_be_there_ends_it_before_anything_is_written(
    tmp_path: Path, options: ObtainOptions
) -> None:
    layout = write_case(tmp_path / "layout", CASES["plain"])
    wanted = task(f"oci:{layout}", tmp_path, options, TrustRule("*", ("signature",), ("k.pub",)))
    with pytest.raises(UntrustedError):
        fetch_sif(wanted)
    assert not wanted.staged.exists()
