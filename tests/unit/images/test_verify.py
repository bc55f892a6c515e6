from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.errors import (
    BadInputError,
    HpcmodError,
    NotFoundError,
    UnknownKeyError,
    UntrustedError,
    VerificationError,
)
from hpcmod.core.values.facts import Provenance
from hpcmod.core.values.reference import ImageReference
from hpcmod.core.values.trust import TrustPolicy, TrustRule
from hpcmod.images.acquire.origin import ObtainOptions
from hpcmod.images.trust.provenance import write_provenance
from hpcmod.images.verify import Verified, verify_image
from hpcmod.images.web.credentials import Access
from tests.corpus import make_sif
from tests.oci_corpus import f, tar_bytes
from tests.registry import Registry
from tests.signatures import KeyPair, make_key, push_signature

LAYERS = [tar_bytes([f("a", "x")])]
STRICT = TrustPolicy(("digest", "checksum"))


@pytest.fixture
def options(tmp_path: Path) -> ObtainOptions:
    return ObtainOptions("amd64", environ={"HOME": str(tmp_path), "PATH": os.defpath}, access=Access())


@pytest.fixture
def sif(tmp_path: Path) -> Path:
    return make_sif(tmp_path / "x.sif")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[KeyPair, KeyPair]:
    place = tmp_path_factory.mktemp("keys")
    return make_key(place, "one"), make_key(place, "two")


def sum_of(sif: Path) -> str:
    return hashlib.sha256(sif.read_bytes()).hexdigest()


def verify(image: object, options: ObtainOptions, *keys: KeyPair) -> Verified:
    names = tuple(str(key.public_file) for key in keys)
    return verify_image(ImageReference.parse(str(image)), options=options, keys=names)


def refusal(image: object, options: ObtainOptions, *keys: KeyPair) -> HpcmodError:
    with pytest.raises(HpcmodError) as caught:
        verify(image, options, *keys)
    assert caught.value.cure
    return caught.value


def test_a_sif_of_which_nothing_is_known_has_a_sum_and_nothing_more(sif: Path, options: ObtainOptions) -> None:
    assert verify(sif, options) == Verified(str(sif), sum_of(sif), "", "", ())


def test_where_a_sif_came_from_is_reported(sif: Path, options: ObtainOptions) -> None:
    digest = "sha256:" + "a" * 64
    write_provenance(sif, Provenance("docker://h.io/x:1", digest, sum_of(sif), sif.stat().st_size, "now", "t"))
    found = verify(sif, options)
    assert (found.digest, found.source) == (digest, "docker://h.io/x:1")


def test_reports_how_the_policy_was_met(sif: Path, options: ObtainOptions) -> None:
    found = verify(sif, replace(options, policy=STRICT, checksum=sum_of(sif)))
    assert found.verified == tuple(f"{need}: sha256:{sum_of(sif)}" for need in ("digest", "checksum"))


def test_a_sum_other_than_the_one_given_or_noted_is_tampering(sif: Path, options: ObtainOptions) -> None:
    given = refusal(sif, replace(options, checksum="0" * 64))
    assert (given.exit_code, given.message) == (4, f"{sif}: sha256 is {sum_of(sif)}, expected {'0' * 64}")
    write_provenance(sif, Provenance("docker://h.io/x:1", "", "1" * 64, 1, "now", "t"))
    noted = refusal(sif, options)
    assert (type(noted), f"expected {'1' * 64}" in noted.message) == (VerificationError, True)


def test_a_truncated_sif_is_tampering_and_any_other_file_is_bad_input(
    sif: Path, tmp_path: Path, options: ObtainOptions
) -> None:
    os.truncate(sif, 38_000)
    assert (refusal(sif, options).exit_code, str(sif) in refusal(sif, options).message) == (4, True)
    (tmp_path / "text.sif").write_text("hello")
    assert isinstance(refusal(tmp_path / "text.sif", options), (BadInputError, VerificationError))
    assert isinstance(refusal(tmp_path / "none.sif", options), NotFoundError)


def test_a_policy_that_needs_more_evidence_names_the_option_to_give(sif: Path, options: ObtainOptions) -> None:
    fault = refusal(sif, replace(options, policy=TrustPolicy(("checksum",))))
    assert (type(fault), fault.exit_code) == (UntrustedError, 9)
    assert "--checksum" in fault.cure


def test_a_key_wants_a_signature_regardless_of_the_policy(
    sif: Path, options: ObtainOptions, keys: tuple[KeyPair, KeyPair]
) -> None:
    lenient = TrustPolicy(rules=(TrustRule("*"),))
    assert verify(sif, replace(options, policy=lenient)).verified == ()
    assert refusal(sif, replace(options, policy=lenient), keys[0]).exit_code == 9


def test_only_a_sif_or_an_image_of_a_registry_can_be_verified(options: ObtainOptions) -> None:
    for text in ("https://h.io/x.sif", "oci:x"):
        fault = refusal(text, options)
        assert (type(fault), "not a SIF, docker://" in fault.message) == (BadInputError, True)


def test_an_image_of_a_registry_has_a_digest_and_nothing_is_written(
    registry: Registry, options: ObtainOptions, tmp_path: Path
) -> None:
    digest = registry.push_image("verify/plain", LAYERS)["digest"]
    text = f"docker://{registry.host}/verify/plain:1"
    assert verify(text, options) == Verified(text, "", digest, "", ())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_image_of_a_registry_is_signed_unsigned_or_signed_by_another(
    registry: Registry, options: ObtainOptions, keys: tuple[KeyPair, KeyPair]
) -> None:
    digest = registry.push_image("verify/signed", LAYERS)["digest"]
    text = f"docker://{registry.host}/verify/signed@{digest}"
    unsigned = refusal(text, options, keys[0])
    assert (type(unsigned), unsigned.exit_code) == (UntrustedError, 9)
    push_signature(registry, "verify/signed", digest, keys[0])
    assert verify(text, options, *reversed(keys)).verified == (f"signature: {keys[0].public_file}",)
    unknown = refusal(text, options, keys[1])
    assert (type(unknown), unknown.exit_code) == (UnknownKeyError, 10)


def test_an_image_that_no_registry_has_is_not_found(registry: Registry, options: ObtainOptions) -> None:
    assert refusal(f"docker://{registry.host}/verify/none:1", options).exit_code == 3


def test_a_checksum_of_a_sif_is_not_used_for_a_registry_image(registry: Registry, options: ObtainOptions) -> None:
    registry.push_image("verify/sum", LAYERS)
    text = f"docker://{registry.host}/verify/sum:1"
    fault = refusal(text, replace(options, policy=STRICT, checksum="0" * 64))
    assert (type(fault), "a checksum is for a SIF" in fault.message) == (BadInputError, True)
