from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from hpcmod.core.errors import BadInputError, HpcmodError, UnknownKeyError, VerificationError
from hpcmod.core.values.reference import ImageReference
from hpcmod.core.values.trust import TrustRule
from hpcmod.images.trust.cosign import Signature, check_signatures, fetch_signatures, parse_bundle
from hpcmod.images.web.credentials import Access
from tests.registry import Registry
from tests.signatures import KeyPair, make_bundle, make_key, push_bundle, push_signature, signed_text

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[KeyPair, KeyPair]:
    place = tmp_path_factory.mktemp("keys")
    return make_key(place, "one"), make_key(place, "two")


def sign(key: KeyPair, digest: str = DIGEST, *, text: bytes = b"") -> Signature:
    content = text or signed_text("h.io/x", digest)
    return Signature(content, key.private.sign(content, ec.ECDSA(hashes.SHA256())))


IMAGE = ImageReference.parse(f"docker://h.io/x:2.0@{DIGEST}")


def check(signatures: list[Signature], *keys: KeyPair | Path, identities: tuple[str, ...] = ()) -> str:
    names = tuple(str(key.public_file if isinstance(key, KeyPair) else key) for key in keys)
    return Path(check_signatures(IMAGE, DIGEST, signatures, TrustRule("*", (), names, identities))).name


def test_the_key_that_has_signed_is_reported(keys: tuple[KeyPair, KeyPair]) -> None:
    one, two = keys
    assert check([sign(one)], two, one) == "one.pub"
    assert check([sign(two), sign(one)], one) == "one.pub"


def test_distinguishes_unknown_and_swapped_images(keys: tuple[KeyPair, KeyPair]) -> None:
    one, two = keys
    with pytest.raises(UnknownKeyError, match=r"two\.pub"):
        check([sign(one)], two)
    with pytest.raises(VerificationError, match=r"one\.pub has signed sha256:bbb"):
        check([sign(one, OTHER)], one)
    with pytest.raises(UnknownKeyError, match=r"x:2\.0@.*: attestation:https://t: not signed by any key"):
        check([*parse_bundle(make_bundle(two, DIGEST, predicate="https://t"))], one)


def test_a_text_exchanged_after_signing_is_by_no_known_key(keys: tuple[KeyPair, KeyPair]) -> None:
    one, _ = keys
    with pytest.raises(UnknownKeyError):
        check([Signature(signed_text("h.io/x", DIGEST), sign(one, OTHER).value)], one)
    with pytest.raises(UnknownKeyError):
        check([Signature(signed_text("h.io/x", DIGEST), b"")], one)


def test_a_keyless_signature_is_refused_by_its_kind(keys: tuple[KeyPair, KeyPair]) -> None:
    """Unless one of the keys made it."""
    one, two = keys
    with pytest.raises(
        UnknownKeyError, match=r"signed without a key \(keyless\), but the policy names no sig"
    ) as caught:
        check([replace(sign(two), bundle=b"{}")], one)
    assert "signers = [" in caught.value.cure
    assert check([replace(sign(one), bundle=b"{}")], one) == "one.pub"


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"critical": {}}', b"\xff" * 20])
def test_a_signed_text_of_another_form_is_an_error_of_ours(keys: tuple[KeyPair, KeyPair], text: bytes) -> None:
    one, _ = keys
    with pytest.raises(HpcmodError):
        check([sign(one, text=text or b" ")], one)


def test_an_invalid_key_is_reported(keys: tuple[KeyPair, KeyPair], tmp_path: Path) -> None:
    (tmp_path / "text.pub").write_text("hello")
    with pytest.raises(BadInputError, match=r"text\.pub: not an ECDSA public key"):
        check([sign(keys[0])], tmp_path / "text.pub")
    with pytest.raises(BadInputError, match=r"none\.pub: the public key cannot be read"):
        check([sign(keys[0])], tmp_path / "none.pub")
    assert check([sign(keys[0])], tmp_path / "text.pub", keys[0]) == "one.pub"


def test_signatures_are_fetched_from_where_cosign_puts_them(registry: Registry, keys: tuple[KeyPair, KeyPair]) -> None:
    reference = ImageReference.parse(f"docker://{registry.host}/signed/unit@{DIGEST}")
    assert fetch_signatures(reference, DIGEST, access=Access()) == []
    push_signature(registry, "signed/unit", DIGEST, keys[0])
    push_bundle(registry, "signed/unit", DIGEST, make_bundle(keys[1], DIGEST))
    at_tag, in_bundle = fetch_signatures(reference, DIGEST, access=Access())
    assert check([at_tag], keys[0], identities=(f"{registry.host}/*",)) == "one.pub"
    assert check([in_bundle], keys[1]) == "two.pub"


def test_an_attestation_may_be_large_but_not_take_all_memory(registry: Registry, keys: tuple[KeyPair, KeyPair]) -> None:
    spdx, name = "https://spdx.dev/Document", "signed/large"
    reference = ImageReference.parse(f"docker://{registry.host}/{name}@{DIGEST}")
    push_bundle(registry, name, DIGEST, make_bundle(keys[0], DIGEST, predicate=spdx, says="x" * (2 << 20)))
    push_signature(registry, name, DIGEST, keys[0])
    needs = ["signature", f"attestation:{spdx}"]
    assert [signature.need for signature in fetch_signatures(reference, DIGEST, access=Access())] == needs
    small = fetch_signatures(reference, DIGEST, access=Access(), attestations=False)
    assert [signature.need for signature in small] == needs[:1]
    push_bundle(registry, name, DIGEST, make_bundle(keys[0], DIGEST, predicate=spdx, says="x" * (13 << 20)))
    assert [signature.need for signature in fetch_signatures(reference, DIGEST, access=Access())] == needs[:1]


def test_a_bundle_that_cosign_3_made_is_verified(tmp_path: Path) -> None:
    """By cosign 3.1.1: `cosign sign --key cosign.key --use-signing-config=false --tlog-upload=false IMAGE`."""
    (tmp_path / "cosign.pub").write_text(COSIGN_PUB)
    (signature,) = parse_bundle(COSIGN_BUNDLE)
    rule = TrustRule("*", (), (str(tmp_path / "cosign.pub"),))
    assert check_signatures(IMAGE, COSIGN_DIGEST, [signature], rule) == str(tmp_path / "cosign.pub")
    changed = replace(signature, text=signature.text.replace(b"sign/v1", b"sign/v2"))
    with pytest.raises(UnknownKeyError):
        check_signatures(IMAGE, COSIGN_DIGEST, [changed], rule)


@pytest.mark.parametrize("name", ["h.io/team/tool", "h.io/x:1.0", "h.io:5000/x", "", "x", "h.io/x/../x"])
def test_a_signature_for_another_name_is_not_a_signature_of_this_image(
    keys: tuple[KeyPair, KeyPair], name: str
) -> None:
    with pytest.raises(VerificationError, match="another name"):
        check([sign(keys[0], text=signed_text(name, DIGEST))], keys[0])


@pytest.mark.parametrize("name", ["h.io/x", "H.io:443/x:2.0", f"h.io/x@{DIGEST}"])
def test_a_signature_for_this_name_counts_among_others(keys: tuple[KeyPair, KeyPair], name: str) -> None:
    others = [sign(keys[0], text=signed_text("h.io/other", DIGEST)), sign(keys[0], OTHER)]
    assert check([*others, sign(keys[0], text=signed_text(name, DIGEST))], keys[0]) == "one.pub"


def test_a_rule_names_the_identities_that_a_mirror_has_signatures_of(keys: tuple[KeyPair, KeyPair]) -> None:
    signature = sign(keys[0], text=signed_text("ghcr.io/org/x:2.0", DIGEST))
    assert check([signature], keys[0], identities=("ghcr.io/org/*",)) == "one.pub"
    with pytest.raises(VerificationError):
        check([signature], keys[0], identities=("ghcr.io/other/*",))


COSIGN_DIGEST = "sha256:d873e73a0134c90d534ff7836aefb5060c67d53ac51e4cee361774c66ffe2ce0"
COSIGN_PUB = """-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE/rGlDBvUlc+AaekZb+HQW4X8WgVd
14vMmfbUP8t85AWPa+P66GgI3Saj4ZTO8dwT2o9k8SnfIC2tg+Z1gs7Mxw==
-----END PUBLIC KEY-----
"""
COSIGN_BUNDLE = (
    b'{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"publicKey":{"hint":'
    b'"0k2J0qHx1x/cpvlw1DRN5xvpI4JydRihAauoDOVyZUU="}},"dsseEnvelope":{"payload":"eyJfdHlwZSI6Imh0dHBzOi8vaW4td'
    b"G90by5pby9TdGF0ZW1lbnQvdjEiLCJzdWJqZWN0IjpbeyJkaWdlc3QiOnsic2hhMjU2IjoiZDg3M2U3M2EwMTM0YzkwZDUzNGZmNzgzNm"
    b"FlZmI1MDYwYzY3ZDUzYWM1MWU0Y2VlMzYxNzc0YzY2ZmZlMmNlMCJ9LCJhbm5vdGF0aW9ucyI6e319XSwicHJlZGljYXRlVHlwZSI6Imh"
    b'0dHBzOi8vc2lnc3RvcmUuZGV2L2Nvc2lnbi9zaWduL3YxIiwicHJlZGljYXRlIjp7fX0=","payloadType":"application/vnd.in-'
    b'toto+json","signatures":[{"sig":"MEUCIQC43QJlbTZchTtpGTfabH04ai9v/IWIIna7EVaqzDTuPgIgSn+bDhAzR54pyGuNgQ7B'
    b'gJALjHMXYTNHVQLLTo59GkE="}]}}'
)
