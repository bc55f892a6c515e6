"""`hpcmod push` to a real registry: pushed images can be fetched and verified, and are not uploaded twice."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hpcmod.core.cli.main import main
from hpcmod.core.errors import BadInputError, RemoteError, UnknownKeyError, UntrustedError
from hpcmod.images.web.upload import WritableRepository
from tests.registry import INDEX, MANIFEST, PASSWORD, USER, Registry, run_registry
from tests.signatures import KeyPair, make_key
from tests.stack import CHECKOUT, Stack

pytestmark = pytest.mark.stack


def hpcmod(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, words)])


def pushed(*words: str | Path) -> dict[str, Any]:
    done = hpcmod("push", *words, "--json")
    assert done.exit_code == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> KeyPair:
    return make_key(tmp_path_factory.mktemp("keys"), "ours")


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """An OCI image layout whose tag v1 is an index with two architectures."""
    blobs = tmp_path / "layout/blobs/sha256"
    blobs.mkdir(parents=True)

    def put(content: bytes, kind: str) -> dict[str, Any]:
        name = hashlib.sha256(content).hexdigest()
        (blobs / name).write_bytes(content)
        return {"mediaType": kind, "digest": f"sha256:{name}", "size": len(content)}

    def image(architecture: str) -> dict[str, Any]:
        about = json.dumps({"architecture": architecture, "os": "linux"}).encode()
        config = put(about, "application/vnd.oci.image.config.v1+json")
        layer = put(f"for {architecture}".encode(), "application/vnd.oci.image.layer.v1.tar")
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}
        return {
            **put(json.dumps(manifest).encode(), MANIFEST),
            "platform": {"architecture": architecture, "os": "linux"},
        }

    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [image("amd64"), image("arm64")]}
    named = {**put(json.dumps(index).encode(), INDEX), "annotations": {"org.opencontainers.image.ref.name": "v1"}}
    (tmp_path / "layout/index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [named]}))
    return tmp_path / "layout"


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Registry]:
    """A registry that requires a login, and the user's credentials for it."""
    with run_registry(tmp_path / "login", login=True) as running:
        known = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        (tmp_path / "config.json").write_text(json.dumps({"auths": {running.host: {"auth": known}}}))
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        yield running


def test_a_sif_is_pushed_and_fetched_unchanged(registry: Registry, stack: Stack, tmp_path: Path) -> None:
    target = f"oras://{registry.host}/lab/pushed:1"
    found = pushed(stack.tiny_sif, target)
    assert (found["changed"], found["reference"]) == (True, f"{target}@{found['digest']}")
    fetched = hpcmod("fetch", found["reference"], "-o", tmp_path / "a.sif", "--no-cache")
    assert fetched.exit_code == 0, fetched.stderr
    assert (tmp_path / "a.sif").read_bytes() == stack.tiny_sif.read_bytes()


def test_the_same_image_is_not_pushed_twice(registry: Registry, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    target = f"oras://{registry.host}/lab/twice:1"
    assert pushed(stack.tiny_sif, target)["changed"]
    sent: list[str] = []
    monkeypatch.setattr(WritableRepository, "upload", lambda *words: sent.append(words[1]))
    assert not pushed(stack.tiny_sif, target)["changed"]
    assert pushed(stack.tiny_sif, f"oras://{registry.host}/lab/twice:2")["changed"]
    assert sent == []


def test_a_tag_that_means_another_image_is_replaced_only_with_force(
    registry: Registry, layout: Path, key: KeyPair
) -> None:
    registry.push_image("lab/forced", [b"old"], tag="v1")
    target = f"docker://{registry.host}/lab/forced:v1"
    refused = hpcmod("push", f"oci:{layout}:v1", target)
    assert refused.exit_code == BadInputError.exit_code
    assert "is another image" in refused.stderr
    assert pushed(f"oci:{layout}:v1", target, "--force")["changed"]


def test_all_architectures_of_a_layout_are_pushed(registry: Registry, layout: Path) -> None:
    pushed(f"oci:{layout}:v1", f"docker://{registry.host}/lab/several:v1")
    index = registry.ask("GET", "/v2/lab/several/manifests/v1", headers={"Accept": INDEX}).json()
    assert sorted(entry["platform"]["architecture"] for entry in index["manifests"]) == ["amd64", "arm64"]


def test_a_signature_of_a_pushed_sif_has_one_answer_of_all_verbs(
    registry: Registry, stack: Stack, key: KeyPair, tmp_path: Path
) -> None:
    target, other = f"oras://{registry.host}/lab/signed:v1", make_key(tmp_path, "other")

    def answers(known: KeyPair) -> set[int]:
        site = tmp_path / "site.toml"
        site.write_text(f'name = "x"\ntrust = {{ needs = ["signature"], keys = ["{known.public_file}"] }}\n')
        fetch = ("fetch", "--force", "-o", tmp_path / "a.sif")
        verbs = [("verify", "--key", known.public_file), ("verify", "--site", site), (*fetch, "--site", site)]
        return {hpcmod(*verb, target).exit_code for verb in verbs}

    pushed(stack.tiny_sif, target)
    assert answers(key) == {UntrustedError.exit_code}
    pushed(stack.tiny_sif, target, "--key", key.private_file)
    assert (answers(key), answers(other)) == ({0}, {UnknownKeyError.exit_code})
    pushed(stack.tiny_sif, target, "--key", other.private_file)
    assert answers(key) == answers(other) == {0}


def test_a_login_is_sent_when_the_registry_asks(login: Registry, stack: Stack) -> None:
    assert pushed(stack.tiny_sif, f"oras://{login.host}/lab/private:1")["changed"]


def test_without_the_right_login_nothing_is_pushed(
    login: Registry, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCKER_CONFIG")
    monkeypatch.setenv("HOME", str(login.directory))
    refused = hpcmod("push", stack.tiny_sif, f"oras://{login.host}/lab/none:1")
    assert refused.exit_code == RemoteError.exit_code
    assert "requires a login" in refused.stderr


def test_a_dry_run_sends_nothing(registry: Registry, stack: Stack) -> None:
    found = hpcmod("push", "--dry-run", stack.tiny_sif, f"oras://{registry.host}/lab/dry:1")
    assert found.exit_code == 0
    assert hpcmod("search", f"docker://{registry.host}/lab/dry").exit_code != 0


def test_the_commands_of_the_page_work(
    registry: Registry, stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "image.sif").write_bytes(stack.tiny_sif.read_bytes())
    page = (CHECKOUT / "docs/how-to/images.md").read_text()
    block = page.partition("## Push an image to a registry")[2].partition("```console\n")[2].partition("```")[0]
    for line in block.splitlines():
        program, *words = line.replace("ghcr.io", registry.host).split()
        if program == "hpcmod":
            assert hpcmod(*words).exit_code == 0, line
        else:
            subprocess.run([program, *words], check=True, capture_output=True)
