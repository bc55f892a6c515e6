from __future__ import annotations

import json
from typing import Any

import pytest

from hpcmod.cli.use import tags as module
from hpcmod.cli.use.tags import show_tags
from hpcmod.image.tags import Tag, TagList
from hpcmod.model.images.reference import ImageReference

FOUND = TagList((Tag("2.0", "sha256:0", 2 << 30, "2026-11-01", ("amd64", "arm64")), Tag("bad", problem="no answer")), 9)


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ImageReference, dict[str, Any]]]:
    """The requests to the registry."""
    found: list[tuple[ImageReference, dict[str, Any]]] = []

    def answer(reference: ImageReference, **options: Any) -> TagList:
        found.append((reference, options))
        return FOUND

    monkeypatch.setattr(module, "list_tags", answer)
    monkeypatch.setattr(module.platform, "machine", lambda: "x86_64")
    return found


def test_a_row_has_date_size_and_architectures(capsys: pytest.CaptureFixture[str]) -> None:
    show_tags("docker://ghcr.io/lab/tool", most=2, allow_http=False, as_json=False)
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split("  ")[0] == "2.0"
    assert "2026-11-01" in out
    assert "amd64, arm64" in out
    assert "no answer" in out
    assert "2 of 9 tags" in err
    assert "hpcmod fetch docker://ghcr.io/lab/tool:2.0" in err


def test_programs_get_all_values(capsys: pytest.CaptureFixture[str]) -> None:
    show_tags("docker://ghcr.io/lab/tool", most=0, allow_http=False, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["repository"], found["total"]) == ("docker://ghcr.io/lab/tool", 9)
    assert found["tags"][0]["architectures"] == ["amd64", "arm64"]


@pytest.mark.parametrize(
    ("text", "only"),
    [("docker://localhost:5000/a", ""), ("docker://localhost:5000/a:1", "1"), ("oras://ghcr.io/a/b", "")],
)
def test_a_tag_in_the_reference_is_the_only_one(
    text: str, only: str, asked: list[tuple[ImageReference, dict[str, Any]]]
) -> None:
    show_tags(text, most=0, allow_http=False, as_json=True)
    assert asked[0][1]["only"] == only
