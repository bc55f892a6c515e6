"""Signatures: valid, tampered, missing, by an unknown key; for SIFs by the real runtime, for images as by cosign."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcmod.core.cli.main import main
from hpcmod.core.errors import BadInputError, HpcmodError, UntrustedError
from hpcmod.core.values.reference import ImageReference
from hpcmod.core.values.trust import TrustPolicy, TrustRule
from hpcmod.images.acquire import obtain as obtain_module
from hpcmod.images.acquire.fetch_sif import FetchedSif, FetchTask
from hpcmod.images.acquire.obtain import obtain
from hpcmod.images.acquire.origin import ObtainOptions
from hpcmod.images.sif.reader import read_sif
from hpcmod.images.trust.policy import verify_sif_trust
from hpcmod.images.verify import verify_image
from hpcmod.modules.image_source import ImageSource
from tests.oci_corpus import CASES, f, tar_bytes, write_case
from tests.registry import Registry
from tests.signatures import (
    SIGNS,
    Authority,
    KeyPair,
    make_bundle,
    make_key,
    push_attestation,
    push_bundle,
    push_signature,
)
from tests.stack import Stack, run

pytestmark = pytest.mark.stack

VERIFIED, TAMPERED, UNSIGNED, UNKNOWN = 0, 4, 9, 10
STATES = {"good": VERIFIED, "tampered": TAMPERED, "unsigned": UNSIGNED, "unknown key": UNKNOWN}


@pytest.fixture(scope="module")
def signed(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """SIFs by form of key and state, and the keys listed in the policy."""
    place = tmp_path_factory.mktemp("signed")
    layout = write_case(place / "layout", CASES["plain"])
    plain = place / "plain.sif"
    options = ObtainOptions("amd64", environ={"HOME": str(place)})
    obtain(ImageReference.parse(f"oci:{layout}"), plain, options=options)
    key, other = make_key(place, "key"), make_key(place, "other")
    env = stack.environment(place, APPTAINER_KEYSDIR=str(place / "ring"))
    other_env = {**env, "APPTAINER_KEYSDIR": str(place / "other-ring")}
    found = {"pem": key.public_file, "pgp": _make_pgp(stack, env, place / "pgp.asc")}
    _make_pgp(stack, other_env, place / "other.asc")
    for form, state, flags, used in (
        *(
            ("pem", "good", ["--key", str(key.private_file)], env),
            ("pem", "unknown key", ["--key", str(other.private_file)], env),
        ),
        *(("pgp", "good", [], env), ("pgp", "unknown key", [], other_env)),
    ):
        sif = place / f"{form}-{state}.sif"
        shutil.copy(plain, sif)
        done = run([str(stack.apptainer), "sign", *flags, str(sif)], used)
        assert done.returncode == 0, done.stderr
        found[f"{form} {state}"] = sif
    for form in ("pem", "pgp"):
        found[f"{form} unsigned"] = plain
        found[f"{form} tampered"] = _change(found[f"{form} good"], place / f"{form}-tampered.sif")
        for name, group in (("group", "1"), ("own group", "2"), ("no group", "")):
            found[f"{form} {name}"] = _add(stack, env, found[f"{form} good"], place / f"{form}-{name}.sif", group)
        found[f"{form} header"] = _change(found[f"{form} good"], place / f"{form}-header.sif", at=5)
    yield found


def _make_pgp(stack: Stack, env: dict[str, str], public: Path) -> Path:
    """Create a PGP key in a separate keyring, and export its public key."""
    Path(env["APPTAINER_KEYSDIR"]).mkdir(mode=0o700)
    who = ["--name", "test", "--email", "test@example.org", "--comment", "test", "--password", "", "--push=false"]
    made = run([str(stack.apptainer), "key", "newpair", "--bit-length=2048", *who], env)  # not 4096: takes seconds
    assert made.returncode == 0, made.stderr
    shutil.copy(Path(env["APPTAINER_KEYSDIR"], "pgp-public"), public)
    return public


def _change(sif: Path, changed: Path, at: int | None = None) -> Path:
    """Copy a SIF with one byte changed: at offset `at`, or in the middle of the root file system if None."""
    data = bytearray(sif.read_bytes())
    root = next(one for one in read_sif(sif).descriptors if one.primary)
    data[root.offset + root.size // 2 if at is None else at] ^= 1
    changed.write_bytes(data)
    return changed


def _add(stack: Stack, env: dict[str, str], sif: Path, changed: Path, group: str) -> Path:
    """Copy a SIF and add an object to it, in this object group or in none."""
    shutil.copy(sif, changed)
    added = changed.with_suffix(".txt")
    added.write_text("added after signing")
    where = ["--groupid", group] if group else []
    done = run([str(stack.apptainer), "sif", "add", "--datatype", "6", *where, str(changed), str(added)], env)
    assert done.returncode == 0, done.stderr
    return changed


@pytest.fixture
def options(stack: Stack, tmp_path: Path) -> ObtainOptions:
    return ObtainOptions("amd64", environ=stack.environment(tmp_path))


def code_of(action: object) -> int:
    """Return the exit code that the command line would return."""
    try:
        action()  # type: ignore[operator]
    except HpcmodError as err:
        assert err.message
        return err.exit_code
    return 0


def policies(key: Path) -> dict[str, TrustPolicy]:
    return {
        "signature": TrustPolicy(("signature",), (str(key),)),
        "another source": TrustPolicy((), (str(key),), (TrustRule("docker://other.io/*", ("signature",)),)),
    }


@pytest.mark.parametrize("policy", ["signature", "another source"])
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("form", ["pem", "pgp"])
def test_a_sif_has_the_outcome_of_its_state_where_the_policy_wants_a_signature(
    signed: dict[str, Path], options: ObtainOptions, tmp_path: Path, form: str, state: str, policy: str
) -> None:
    expected = STATES[state] if policy == "signature" else 0
    options = replace(options, policy=policies(signed[form])[policy])
    reference = ImageReference.parse(str(signed[f"{form} {state}"]))
    assert code_of(lambda: verify_image(reference, options=options)) == expected
    out = tmp_path / "got.sif"
    assert code_of(lambda: obtain(reference, out, options=options)) == expected
    assert out.exists() == (expected == 0)


def test_a_file_exchanged_after_its_signature_was_checked_is_not_used(
    signed: dict[str, Path], options: ObtainOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = replace(options, policy=policies(signed["pem"])["signature"])
    source, out = tmp_path / "in" / "s.sif", tmp_path / "out.sif"
    source.parent.mkdir()
    shutil.copy(signed["pem good"], source)
    fetch_sif = obtain_module.fetch_sif

    def exchange(task: FetchTask) -> FetchedSif:
        shutil.copy(signed["pem unsigned"], source)
        return fetch_sif(task)

    monkeypatch.setattr(obtain_module, "fetch_sif", exchange)
    with pytest.raises(UntrustedError, match=f"{out}: not signed"):
        obtain(ImageReference.parse(str(source)), out, options=options)
    assert list(tmp_path.glob("*out.sif*")) == []
    monkeypatch.undo()
    shutil.copy(signed["pem good"], source)
    got = obtain(ImageReference.parse(str(source)), out, options=options)
    assert got.provenance.verified == (f"signature: {signed['pem']}",)


def test_an_easyconfigs_file_is_checked_again_as_the_copy_it_becomes(
    signed: dict[str, Path], options: ObtainOptions, tmp_path: Path
) -> None:
    policy = policies(signed["pem"])["signature"]
    shutil.copy(signed["pem good"], tmp_path / "s.sif")
    found = ImageSource.make("s.sif", [], None).find([str(tmp_path)], policy=policy, environ=options.environ)
    assert found is not None
    assert verify_sif_trust(signed["pem good"], found.copy_rule, options.environ)
    with pytest.raises(UntrustedError):
        verify_sif_trust(signed["pem unsigned"], found.copy_rule, options.environ)


@pytest.mark.parametrize("change", ["header", "group", "own group", "no group"])
@pytest.mark.parametrize("form", ["pem", "pgp"])
def test_a_changed_header_and_an_added_object_are_tampering(
    signed: dict[str, Path], options: ObtainOptions, form: str, change: str
) -> None:
    options = replace(options, policy=policies(signed[form])["signature"])
    reference = ImageReference.parse(str(signed[f"{form} {change}"]))
    assert code_of(lambda: verify_image(reference, options=options)) == TAMPERED


def test_any_of_several_keys_will_do(signed: dict[str, Path], options: ObtainOptions) -> None:
    keys = (str(signed["pgp"]), str(signed["pem"]))
    for form in ("pem", "pgp"):
        found = verify_image(ImageReference.parse(str(signed[f"{form} good"])), options=options, keys=keys)
        assert found.verified == (f"signature: {signed[form]}",)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[KeyPair, KeyPair]:
    place = tmp_path_factory.mktemp("cosign")
    return make_key(place, "key"), make_key(place, "other")


def push(registry: Registry, name: str) -> str:
    return str(registry.push_image(name, [tar_bytes([f("etc/motd", name)])])["digest"])


CODES = {
    "unsigned": UNSIGNED,
    "good": VERIFIED,
    "unknown key": UNKNOWN,
    "tampered": TAMPERED,
    "another name": TAMPERED,
    "good bundle": VERIFIED,
    "unknown key bundle": UNKNOWN,
    "tampered bundle": TAMPERED,
    "spdx bundle": UNSIGNED,
    "keyless": VERIFIED,
    "keyless bundle": VERIFIED,
    "keyless wrong-identity": UNKNOWN,
    "keyless wrong-identity bundle": UNKNOWN,
    "keyless wrong-root bundle": UNKNOWN,
    "keyless expired": UNKNOWN,
    "keyless expired bundle": UNKNOWN,
    "keyless tampered bundle": TAMPERED,
    "wanted spdx": VERIFIED,
    "wanted spdx bundle": VERIFIED,
    "wanted spdx keyless bundle": VERIFIED,
    "wanted cyclonedx bundle": UNSIGNED,
    "wanted good": UNSIGNED,
    "wanted spdx unknown key bundle": UNKNOWN,
    "wanted spdx tampered bundle": TAMPERED,
}
"""Exit code by the state of an image's signature: at cosign 2's tag, or in a bundle of cosign 3; without a key; of an
attestation (`wanted`: the policy requires one of SPDX)."""

SIGSTORE = Authority()
SIGNERS = {
    "wrong-identity": replace(SIGSTORE, identity="you@example.org"),
    "wrong-root": Authority(),
    "expired": replace(SIGSTORE, late=timedelta(minutes=10)),
}
TYPES = {"spdx": "https://spdx.dev/Document", "cyclonedx": "https://cyclonedx.org/bom"}


def push_in_state(registry: Registry, state: str, keys: tuple[KeyPair, KeyPair]) -> ImageReference:
    """Push an image whose signature has this state, and return its reference by digest."""
    name, words = f"trust/{state.replace(' ', '-')}", state.split()
    digest = push(registry, name)
    by = next((SIGNERS[word] for word in words if word in SIGNERS), SIGSTORE)
    signer = by if "keyless" in words else keys["unknown" in words]
    signed = push(registry, f"{name}-other") if "tampered" in words else digest
    kind = next((TYPES[word] for word in words if word in TYPES), SIGNS)
    if "bundle" in words:
        push_bundle(registry, name, digest, make_bundle(signer, signed, predicate=kind))
    elif kind != SIGNS:
        push_attestation(registry, name, digest, make_bundle(signer, signed, predicate=kind))
    elif state != "unsigned":
        named = "elsewhere/image" if state == "another name" else name
        push_signature(registry, name, digest, signer, signs=signed, named=named)
    return ImageReference.parse(f"docker://{registry.host}/{name}@{digest}")


@pytest.mark.parametrize("state", CODES)
def test_one_policy_has_one_answer_of_all_verbs_for_an_image_of_a_registry(
    *,
    registry: Registry,
    keys: tuple[KeyPair, KeyPair],
    options: ObtainOptions,
    tmp_path: Path,
    state: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected, image = CODES[state], push_in_state(registry, state, keys).canonical
    root = SIGSTORE.write_root(tmp_path / "root.json")
    need = "attestation:spdx" if "wanted" in state else "signature"
    (tmp_path / "site.toml").write_text(
        f'name = "x"\n[trust]\nneeds = ["{need}"]\nkeys = ["{keys[0].public_file}"]\ntrusted_root = "{root}"\n'
        f'signers = [{{ identity = "me@*", issuer = "{SIGSTORE.issuer}" }}]\n'
    )
    places = {"HPCMOD_CATALOGUE": tmp_path / "shop", "EASYBUILD_PREFIX": tmp_path / "eb"}
    for name, value in {**options.environ, **places, "HPCMOD_SITE": tmp_path / "site.toml"}.items():
        monkeypatch.setenv(name, str(value))

    def answer(*words: str | Path) -> int:
        done = CliRunner().invoke(main, [*map(str, words)])
        assert done.exit_code == 0 or len(done.stderr.splitlines()) > 1, "a message and its cure"
        return done.exit_code

    out = tmp_path / "got.sif"
    assert answer("catalogue", "init", tmp_path / "shop") == 0
    named = ("--name", "Toy", "--version", "1")
    verbs = [("verify", image), ("fetch", image, "-o", out)]
    if expected:  # tests/integration/test_registry_install.py has what an image becomes
        verbs += [("install", image, *named), ("publish", image, *named)]
    assert {words[0]: answer(*words) for words in verbs} == {words[0]: expected for words in verbs}
    assert out.exists() == (expected == 0)
    if expected == 0:  # the verification is recorded with the checksum of the SIF
        assert answer("verify", out) == 0
        who = f"me@example.org of {SIGSTORE.issuer} ({root})" if "keyless" in state else keys[0].public_file
        met = f"{'attestation:' + TYPES['spdx'] if 'wanted' in state else 'signature'}: {who}"
        assert json.loads(Path(f"{out}.provenance.json").read_text())["verified"] == [met]
    another = replace(options, policy=policies(keys[0].public_file)["another source"])
    assert code_of(lambda: verify_image(ImageReference.parse(image), options=another)) == 0


def test_keys_for_sifs_among_the_policys_do_not_matter_to_an_image(
    registry: Registry, keys: tuple[KeyPair, KeyPair], signed: dict[str, Path], options: ObtainOptions
) -> None:
    reference = push_in_state(registry, "good", keys)
    mixed = (str(signed["pgp"]), str(keys[0].public_file))
    assert code_of(lambda: verify_image(reference, options=options, keys=mixed)) == 0
    with pytest.raises(BadInputError, match="not an ECDSA public key"):
        verify_image(reference, options=options, keys=(str(signed["pgp"]),))


def test_a_signature_of_the_index_covers_the_image_chosen_from_it(
    registry: Registry, keys: tuple[KeyPair, KeyPair], options: ObtainOptions
) -> None:
    name = "trust/index"
    entry = registry.push_image(name, [tar_bytes([f("a")])])
    entry["platform"] = {"os": "linux", "architecture": "amd64"}
    kind = "application/vnd.oci.image.index.v1+json"
    index = registry.push_manifest(name, "many", {"schemaVersion": 2, "mediaType": kind, "manifests": [entry]})
    push_signature(registry, name, index["digest"], keys[0])
    reference = ImageReference.parse(f"docker://{registry.host}/{name}:many")
    assert verify_image(reference, options=options, keys=(str(keys[0].public_file),)).digest == index["digest"]
