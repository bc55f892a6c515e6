"""`hpcmod search docker://...` and `hpcmod outdated --registry` with a real registry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hpcmod.catalogue.finding.outdated import find_changed_in_registry
from hpcmod.cli.main import main
from hpcmod.errors import NotFoundError
from hpcmod.image.tags import find_newer, list_tags
from hpcmod.install.installed import Installed
from hpcmod.model.images.reference import ImageReference
from tests.registry import INDEX, Registry
from tests.stack import CHECKOUT

LAYER = b"x" * 4096


@pytest.fixture(scope="module")
def pushed(registry: Registry) -> dict[str, str]:
    """Digests by tag, for a repository with images of several versions, one of them for two architectures."""
    found = {tag: registry.push_image("lab/tool", [LAYER], tag=tag) for tag in ("1.9", "1.10", "latest")}
    arm = registry.push_image("lab/tool", [LAYER, b"more"], tag="arm", architecture="arm64")
    entries = [
        {**found["1.10"], "platform": {"architecture": "amd64", "os": "linux"}},
        {**arm, "platform": {"architecture": "arm64", "os": "linux"}},
    ]
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}
    found["2.0"] = registry.push_manifest("lab/tool", "2.0", index)
    return {tag: one["digest"] for tag, one in found.items()}


def search(registry: Registry, *words: str, repository: str = "lab/tool") -> dict[str, Any]:
    done = CliRunner().invoke(main, ["search", f"docker://{registry.host}/{repository}", "--json", *words])
    assert done.exit_code == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_the_tags_of_a_repository_are_listed(registry: Registry, pushed: dict[str, str]) -> None:
    found = search(registry)
    assert found["total"] == 5
    names = [one["name"] for one in found["tags"]]
    assert names[:3] == ["2.0", "1.10", "1.9"]
    assert found["tags"][0]["architectures"] == ["amd64", "arm64"]
    assert found["tags"][1] == {
        "name": "1.10",
        "digest": pushed["1.10"],
        "size": len(LAYER),
        "created": "",
        "architectures": ["amd64"],
        "problem": "",
    }


def test_people_see_a_table_and_the_next_command(registry: Registry, pushed: dict[str, str]) -> None:
    done = CliRunner().invoke(main, ["search", f"docker://{registry.host}/lab/tool", "--limit", "2"])
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["2.0", "1.10"]
    assert "2 of 5 tags" in done.stderr
    assert f"hpcmod fetch docker://{registry.host}/lab/tool:2.0" in done.stderr


def test_more_tags_than_one_answer_has_are_all_listed(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, pushed: dict[str, str]
) -> None:
    monkeypatch.setattr("hpcmod.image.web.repository._PAGE", 2)
    assert search(registry, "--limit", "1")["total"] == 5


def test_a_missing_repository_and_a_missing_tag_are_errors(registry: Registry, pushed: dict[str, str]) -> None:
    with pytest.raises(NotFoundError, match="no such repository"):
        list_tags(ImageReference.parse(f"docker://{registry.host}/lab/none"), architecture="amd64")
    done = CliRunner().invoke(main, ["search", f"docker://{registry.host}/lab/tool:7"])
    assert done.exit_code == NotFoundError.exit_code
    assert "hpcmod search docker://" in done.stderr


def test_the_commands_of_the_page_work(
    registry: Registry, pushed: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MODULEPATH", raising=False)
    page = (CHECKOUT / "docs/how-to/images.md").read_text()
    block = page.partition("## Which tags a registry has")[2].partition("```console\n")[2].partition("```")[0]
    for line in block.splitlines():
        words = line.replace("ghcr.io/org/image", f"{registry.host}/lab/tool").split()[1:]
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.stderr


def test_an_installation_whose_tag_changed_is_outdated(registry: Registry, pushed: dict[str, str]) -> None:
    def installed(reference: str, digest: str) -> Installed:
        known = {"reference": f"docker://{registry.host}/{reference}", "digest": digest}
        return Installed("Tool/1.9", Path("/x.lua"), Path("/x"), {"provenance": known})

    told: list[str] = []
    images = [
        installed("lab/tool:1.9", pushed["1.9"]),
        installed("lab/tool:latest", "sha256:" + "0" * 64),
        installed("lab/tool:gone", pushed["1.9"]),
        installed(f"lab/tool@{pushed['1.9']}", pushed["1.9"]),
        installed("lab/none:1", pushed["1.9"]),
    ]
    found = [(one.kind, one.found) for one in find_changed_in_registry(images, find_newer, tell=told.append)]
    assert found == [
        ("newer", "newer in the registry: 2.0, 1.10"),
        ("tag", f"the tag latest means another image now: {pushed['latest']}"),
        ("tag", "the tag gone is gone from the registry"),
    ]
    assert [line.startswith("Tool/1.9: ") for line in told] == [True]
