from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, UntrustedError, VerificationError
from hpcmod.core.values.facts import Provenance
from hpcmod.core.values.reference import ImageReference
from hpcmod.core.values.trust import ANYTHING, Signer, TrustPolicy, TrustRule
from hpcmod.images.trust.policy import LocalImage, is_met, verify_image_trust, verify_sif_trust
from hpcmod.images.trust.provenance import remember, write_provenance
from hpcmod.images.web.credentials import Access
from tests.corpus import make_sif

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
TAG = ImageReference.parse("docker://h.io/x:1")
PINNED = ImageReference.parse(f"docker://h.io/x@{DIGEST}")
FILE = ImageReference.parse("x.sif")
SPDX = "attestation:https://spdx.dev/Document"
KEYLESS = TrustRule("*", ("signature",), signers=(Signer("me@*", "https://i"),), trusted_root="/r")
ATTESTED = TrustRule("*", (SPDX,), ("a.pub",))
KNOWN = Provenance(PINNED.canonical, DIGEST, "c" * 64, 5, "2026-11-21T00:00:00Z", "t")


@pytest.fixture
def sif(tmp_path: Path) -> Path:
    return make_sif(tmp_path / "x.sif")


def found(sif: Path, reference: ImageReference, *rules: TrustRule, checksum: str | None = None) -> LocalImage:
    policy = TrustPolicy(rules=rules) if rules else ANYTHING
    return LocalImage.verify(sif, reference, policy, checksum=checksum, environ={"HOME": str(sif.parent)})


def note(sif: Path, provenance: Provenance, *, ours: bool) -> None:
    """Record next to a SIF where it came from; `ours`: this user fetched it."""
    write_provenance(sif, provenance)
    if ours:
        remember(provenance, {"HOME": str(sif.parent)})


def test_without_a_policy_a_file_is_accepted_and_its_checksum_recorded(sif: Path) -> None:
    assert found(sif, FILE) == LocalImage(sif, None, None, verified=found(sif, FILE).verified, place=str(sif))
    note(sif, KNOWN, ours=True)
    one = found(sif, FILE)
    assert (one.sha256, one.provenance, one.ours) == (KNOWN.sha256, KNOWN, True)


def test_a_file_fetched_from_another_image_than_requested_is_refused(sif: Path) -> None:
    note(sif, replace(KNOWN, digest=OTHER), ours=True)
    with pytest.raises(VerificationError, match="expected sha256:aaa"):
        found(sif, PINNED)


def test_a_digest_that_nothing_proves_is_not_accepted(sif: Path) -> None:
    with pytest.raises(UntrustedError, match="no record that this file is"):
        found(sif, PINNED)
    assert found(sif, PINNED, checksum="c" * 64).verified == ()


@pytest.mark.parametrize("ours", [True, False])
def test_another_users_provenance_satisfies_no_rule(sif: Path, ours: bool) -> None:
    rule = TrustRule("docker://h.io/*", ("digest",))
    note(sif, KNOWN, ours=ours)
    if ours:
        assert found(sif, TAG, rule).verified == (f"digest: {DIGEST}",)
    else:
        with pytest.raises(UntrustedError, match="you have not fetched this file"):
            found(sif, TAG, rule)


def test_a_rule_for_the_place_counts_before_that_for_the_source(sif: Path) -> None:
    note(sif, KNOWN, ours=False)
    place = TrustRule(f"{sif.parent}/*")
    assert found(sif, FILE, place, TrustRule("*", ("checksum",))).copy_rule == place
    with pytest.raises(UntrustedError, match="requires a checksum"):
        found(sif, FILE, TrustRule(f"{sif.parent}/*", ("checksum",)))


def test_a_local_file_fetched_from_a_registry_has_the_rule_of_that_registry(sif: Path) -> None:
    note(sif, KNOWN, ours=True)
    assert found(sif, FILE, TrustRule("docker://h.io/*", ("digest",))).verified == (f"digest: {DIGEST}",)


def test_a_rule_that_wants_a_signature_and_names_no_keys_is_a_mistake_of_the_profile(sif: Path) -> None:
    with pytest.raises(BadInputError, match="lists no keys"):
        verify_sif_trust(sif, TrustRule("*", ("signature",)), {})
    with pytest.raises(BadInputError, match="lists no keys"):
        found(sif, FILE, TrustRule("*", ("signature",)))


def test_a_signature_is_read_only_from_the_registry_of_the_image() -> None:
    rule = TrustRule("*", ("signature",), ("k.pub",))
    with pytest.raises(UntrustedError, match="which only a registry has"):
        verify_image_trust(ImageReference.parse("oci:/srv/x"), rule, [DIGEST], access=Access())
    assert verify_image_trust(TAG, TrustRule("*"), [DIGEST], access=Access()) == ()


def test_an_attestation_about_a_sif_counts_only_as_of_the_image_it_was_made_from(sif: Path) -> None:
    with pytest.raises(UntrustedError, match=f"requires an {SPDX}, which only a registry has"):
        found(sif, FILE, ATTESTED)
    note(sif, replace(KNOWN, verified=(f"{SPDX}: a.pub",)), ours=True)
    assert found(sif, FILE, ATTESTED).verified == (f"{SPDX}: a.pub",)
    with pytest.raises(UntrustedError):
        found(sif, FILE, ATTESTED._replace(needs=("signature", SPDX)))


@pytest.mark.parametrize(
    ("verified", "rule", "met"),
    [
        ((), TrustRule("*"), True),
        (("digest: d",), TrustRule("*", ("digest",)), True),
        (("digest: d",), TrustRule("*", ("digest", "checksum")), False),
        (("signature: a.pub",), TrustRule("*", ("signature",), ("a.pub", "b.pub")), True),
        (("signature: old.pub",), TrustRule("*", ("signature",), ("a.pub",)), False),
        (("signature: a.pub",), TrustRule("*", ("signature",)), False),
        (("signature: me@x of https://i (/r)",), KEYLESS, True),
        (("signature: me@x of https://i (/other)",), KEYLESS, False),
        (("signature: me@x of https://j (/r)",), KEYLESS, False),
        (("signature: you@x of https://i (/r)",), KEYLESS, False),
        (("signature: a.pub",), ATTESTED, False),
        ((f"{SPDX}: a.pub",), ATTESTED, True),
        ((f"{SPDX}: b.pub",), ATTESTED, False),
    ],
)
def test_an_earlier_verification_counts_while_the_rule_is_the_same(
    verified: tuple[str, ...], rule: TrustRule, met: bool
) -> None:
    assert is_met(replace(KNOWN, verified=verified), rule) == met


def test_a_rule_for_a_directory_is_not_bypassed_by_dots_or_a_link(sif: Path, tmp_path: Path) -> None:
    apps, evil = tmp_path / "apps", tmp_path / "evil"
    apps.mkdir()
    evil.mkdir()
    hidden = make_sif(evil / "evil.sif")
    (apps / "link.sif").symlink_to(hidden)
    policy = (TrustRule(f"{apps}/*"), TrustRule("*", ("checksum",)))
    for path in (apps / ".." / "evil" / "evil.sif", apps / "link.sif"):
        with pytest.raises(UntrustedError, match="requires a checksum"):
            found(path, ImageReference.parse(str(path)), *policy)


def test_a_rule_for_a_directory_holds_through_links_to_it(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    image = make_sif(real / "x.sif")
    (tmp_path / "apps").symlink_to(real)
    policy = (TrustRule(f"{tmp_path}/apps/*"), TrustRule("*", ("checksum",)))
    for path in (image, tmp_path / "apps" / "x.sif"):
        assert found(path, ImageReference.parse(str(path)), *policy).place == str(image)


def test_the_sites_policy_holds_next_to_that_of_another_profile(sif: Path) -> None:
    site = TrustPolicy(rules=(TrustRule(f"{sif.parent}/*", ("checksum",)),))
    own = TrustPolicy(rules=(TrustRule(f"{sif.parent}/*"),), also=site)
    with pytest.raises(UntrustedError, match="requires a checksum"):
        LocalImage.verify(sif, FILE, own, checksum=None, environ={"HOME": str(sif.parent)})
