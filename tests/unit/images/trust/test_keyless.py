"""Signatures without a key, by a stand-in for Sigstore whose roots of trust are in a file."""

from __future__ import annotations

import json
import socket
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, LackingError, UnknownKeyError, VerificationError
from hpcmod.core.values.reference import ImageReference
from hpcmod.core.values.trust import Signer, TrustRule
from hpcmod.images.trust.cosign import Signature, check_signatures, fetch_signatures, parse_bundle
from hpcmod.images.web.credentials import Access
from tests.registry import Registry
from tests.signatures import Authority, make_bundle, push_signature

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
SIGSTORE = Authority()
ME = Signer("me@*.org", SIGSTORE.issuer)
SIGNERS = {
    "good": SIGSTORE,
    "wrong root": Authority(),
    "wrong log": replace(SIGSTORE, signatures=Authority().signatures),
    "wrong log of certificates": replace(SIGSTORE, certificates=Authority().certificates),
    "expired": replace(SIGSTORE, late=timedelta(minutes=10)),
    "not yet valid": replace(SIGSTORE, late=-timedelta(minutes=2)),
    "wrong identity": replace(SIGSTORE, identity="you@example.org"),
    "longer identity": replace(SIGSTORE, identity="me@example.org.invalid"),
    "wrong issuer": replace(SIGSTORE, issuer="https://other.example.org"),
}


@pytest.fixture
def rule(tmp_path: Path) -> TrustRule:
    return TrustRule("*", ("signature",), signers=(ME,), trusted_root=str(SIGSTORE.write_root(tmp_path / "root.json")))


def check(signature: Signature, rule: TrustRule, image: str = "docker://h.io/x") -> str:
    return check_signatures(ImageReference.parse(f"{image}@{DIGEST}"), DIGEST, [signature], rule)


def in_bundle(signer: Authority, digest: str = DIGEST) -> Signature:
    (signature,) = parse_bundle(make_bundle(signer, digest))
    return signature


@pytest.mark.parametrize("form", ["cosign 2", "bundle"])
@pytest.mark.parametrize("who", SIGNERS)
def test_only_a_signer_of_the_rule_within_the_time_of_the_certificate_counts(
    registry: Registry, rule: TrustRule, form: str, who: str
) -> None:
    image, signature = "docker://h.io/x", in_bundle(SIGNERS[who])
    if form == "cosign 2":
        name = f"keyless/{who.replace(' ', '-')}"
        image = f"docker://{registry.host}/{name}"
        push_signature(registry, name, DIGEST, SIGNERS[who])
        reference = ImageReference.parse(f"{image}@{DIGEST}")
        (signature,) = fetch_signatures(reference, DIGEST, access=Access())
    if who == "good":
        assert check(signature, rule, image) == f"me@example.org of {ME.issuer} ({rule.trusted_root})"
        assert rule.accepts(check(signature, rule, image))
        return
    with pytest.raises(UnknownKeyError, match=r"by any key or signer of the policy: me@\*\.org of .*; without a key: "):
        check(signature, rule, image)


@pytest.mark.parametrize("change", ["payload", "sig", "canonicalizedBody", "signedEntryTimestamp", "rootHash"])
def test_a_bundle_that_was_changed_is_by_nobody(rule: TrustRule, change: str) -> None:
    ours, other = make_bundle(SIGSTORE, DIGEST).decode(), json.loads(make_bundle(SIGSTORE, OTHER))
    entry, envelope = other["verificationMaterial"]["tlogEntries"][0], other["dsseEnvelope"]
    parts = {**envelope, **envelope["signatures"][0], **entry, **entry["inclusionPromise"], **entry["inclusionProof"]}
    mine = json.loads(ours)
    entry, envelope = mine["verificationMaterial"]["tlogEntries"][0], mine["dsseEnvelope"]
    kept = {**envelope, **envelope["signatures"][0], **entry, **entry["inclusionPromise"], **entry["inclusionProof"]}
    (signature,) = parse_bundle(ours.replace(kept[change], parts[change]).encode())
    with pytest.raises(UnknownKeyError):
        check(signature, rule)


def test_a_signer_who_has_signed_another_image_is_an_error_of_its_own(rule: TrustRule) -> None:
    with pytest.raises(VerificationError, match=r"me@example\.org of .* has signed sha256:bbb"):
        check(in_bundle(SIGSTORE, OTHER), rule)


def test_nothing_is_asked_of_the_network(rule: TrustRule, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert check(in_bundle(SIGSTORE), rule).startswith("me@")


def test_without_the_library_the_command_that_installs_it_is_named(
    rule: TrustRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "hpcmod.images.trust.keyless", raising=False)
    monkeypatch.setitem(sys.modules, "sigstore.errors", None)
    with pytest.raises(LackingError, match="need the Python package sigstore") as caught:
        check(in_bundle(SIGSTORE), rule)
    assert "pip install 'hpcmod[sigstore]'" in caught.value.cure


@pytest.mark.parametrize("text", [None, "", "{}", '{"mediaType": 1}'])
def test_roots_of_trust_that_cannot_be_used_are_a_mistake_of_the_profile(
    rule: TrustRule, tmp_path: Path, text: str | None
) -> None:
    place = tmp_path / "other.json"
    if text is not None:
        place.write_text(text)
    with pytest.raises(BadInputError, match=r"trusted_root: .*other\.json: not roots of trust") as caught:
        check(in_bundle(SIGSTORE), rule._replace(trusted_root=str(place)))
    assert "cosign trusted-root create" in caught.value.cure
