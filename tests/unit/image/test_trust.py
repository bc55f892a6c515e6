from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.errors import BadInputError, UntrustedError, VerificationError
from hpcmod.image.provenance import Provenance, remember, write_provenance
from hpcmod.image.trust import Found, is_met, vouch_for_found, vouch_for_image, vouch_for_sif
from hpcmod.image.web.repository import Access
from hpcmod.model.reference import ImageReference
from hpcmod.model.trust import ANYTHING, Rule, TrustPolicy
from tests.corpus import make_sif

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
TAG = ImageReference.parse("docker://h.io/x:1")
PINNED = ImageReference.parse(f"docker://h.io/x@{DIGEST}")
FILE = ImageReference.parse("x.sif")
KNOWN = Provenance(PINNED.canonical, DIGEST, "c" * 64, 5, "2026-11-21T00:00:00Z", "t")


@pytest.fixture
def sif(tmp_path: Path) -> Path:
    return make_sif(tmp_path / "x.sif")


def found(sif: Path, reference: ImageReference, *rules: Rule, checksum: str | None = None) -> Found:
    policy = TrustPolicy(rules=rules) if rules else ANYTHING
    return vouch_for_found(sif, reference, policy, checksum=checksum, environ={"HOME": str(sif.parent)})


def note(sif: Path, provenance: Provenance, *, ours: bool) -> None:
    """Leave beside a SIF where it came from; `ours`: a run of this user has got it."""
    write_provenance(sif, provenance)
    if ours:
        remember(provenance, {"HOME": str(sif.parent)})


def test_without_a_policy_a_file_is_taken_and_its_sum_is_what_was_noted(sif: Path) -> None:
    assert found(sif, FILE) == Found(found(sif, FILE).vouched, None, None, Rule("*"), place=str(sif))
    note(sif, KNOWN, ours=True)
    one = found(sif, FILE)
    assert (one.sha256, one.provenance, one.ours) == (KNOWN.sha256, KNOWN, True)


def test_a_file_got_from_another_image_than_the_one_asked_for_is_refused(sif: Path) -> None:
    note(sif, replace(KNOWN, digest=OTHER), ours=True)
    with pytest.raises(VerificationError, match="expected sha256:aaa"):
        found(sif, PINNED)


def test_a_digest_that_nothing_vouches_for_is_no_digest(sif: Path) -> None:
    with pytest.raises(UntrustedError, match="nothing tells that this file is"):
        found(sif, PINNED)
    assert found(sif, PINNED, checksum="c" * 64).vouched.needs == ()


@pytest.mark.parametrize("ours", [True, False])
def test_what_somebody_else_noted_meets_no_rule(sif: Path, ours: bool) -> None:
    rule = Rule("docker://h.io/*", ("digest",))
    note(sif, KNOWN, ours=ours)
    if ours:
        assert str(found(sif, TAG, rule).vouched) == f"digest: {DIGEST}"
    else:
        with pytest.raises(UntrustedError, match="you have not fetched this file"):
            found(sif, TAG, rule)


def test_a_rule_for_the_place_counts_before_that_for_the_source(sif: Path) -> None:
    note(sif, KNOWN, ours=False)
    place = Rule(f"{sif.parent}/*")
    assert found(sif, FILE, place, Rule("*", ("checksum",))).copy_rule == place
    with pytest.raises(UntrustedError, match="wants a checksum"):
        found(sif, FILE, Rule(f"{sif.parent}/*", ("checksum",)))


def test_a_local_file_that_we_got_from_a_registry_has_the_rule_of_that_registry(sif: Path) -> None:
    note(sif, KNOWN, ours=True)
    assert str(found(sif, FILE, Rule("docker://h.io/*", ("digest",))).vouched) == f"digest: {DIGEST}"


def test_a_rule_that_wants_a_signature_and_names_no_keys_is_a_mistake_of_the_profile(sif: Path) -> None:
    with pytest.raises(BadInputError, match="names no keys"):
        vouch_for_sif(sif, Rule("*", ("signature",)), {})
    with pytest.raises(BadInputError, match="names no keys"):
        found(sif, FILE, Rule("*", ("signature",)))


def test_a_signature_of_an_image_lies_in_its_registry_only() -> None:
    rule = Rule("*", ("signature",), ("k.pub",))
    with pytest.raises(UntrustedError, match="which only a registry keeps"):
        vouch_for_image(ImageReference.parse("oci:/srv/x"), rule, [DIGEST], access=Access())
    assert vouch_for_image(TAG, Rule("*"), [DIGEST], access=Access()).needs == ()


@pytest.mark.parametrize(
    ("vouched", "rule", "met"),
    [
        ((), Rule("*"), True),
        (("digest: d",), Rule("*", ("digest",)), True),
        (("digest: d",), Rule("*", ("digest", "checksum")), False),
        (("signature: a.pub",), Rule("*", ("signature",), ("a.pub", "b.pub")), True),
        (("signature: old.pub",), Rule("*", ("signature",), ("a.pub",)), False),
        (("signature: a.pub",), Rule("*", ("signature",)), False),
    ],
)
def test_what_was_vouched_for_once_counts_while_the_rule_still_says_so(
    vouched: tuple[str, ...], rule: Rule, met: bool
) -> None:
    assert is_met(replace(KNOWN, vouched=vouched), rule) == met


def test_a_rule_for_a_place_is_not_passed_by_dots_or_a_link(sif: Path, tmp_path: Path) -> None:
    apps, evil = tmp_path / "apps", tmp_path / "evil"
    apps.mkdir()
    evil.mkdir()
    hidden = make_sif(evil / "evil.sif")
    (apps / "link.sif").symlink_to(hidden)
    policy = (Rule(f"{apps}/*"), Rule("*", ("checksum",)))
    for path in (apps / ".." / "evil" / "evil.sif", apps / "link.sif"):
        with pytest.raises(UntrustedError, match="wants a checksum"):
            found(path, ImageReference.parse(str(path)), *policy)


def test_a_rule_for_a_directory_holds_through_links_to_it(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    image = make_sif(real / "x.sif")
    (tmp_path / "apps").symlink_to(real)
    policy = (Rule(f"{tmp_path}/apps/*"), Rule("*", ("checksum",)))
    for path in (image, tmp_path / "apps" / "x.sif"):
        assert found(path, ImageReference.parse(str(path)), *policy).place == str(image)


def test_the_sites_policy_holds_beside_that_of_another_profile(sif: Path) -> None:
    site = TrustPolicy(rules=(Rule(f"{sif.parent}/*", ("checksum",)),))
    own = TrustPolicy(rules=(Rule(f"{sif.parent}/*"),), also=site)
    with pytest.raises(UntrustedError, match="wants a checksum"):
        vouch_for_found(sif, FILE, own, checksum=None, environ={"HOME": str(sif.parent)})
