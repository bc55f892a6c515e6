from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from tests import corpus
from tests.calls import hpcmod
from tests.catalogues import make_catalogue

pytestmark = pytest.mark.skipif(not corpus.HAS_MKSQUASHFS, reason="needs mksquashfs (package squashfs-tools)")

TITLE, VERSION = "org.opencontainers.image.title", "org.opencontainers.image.version"
TOLD = f"name hpcmod-tiny comes from its label {TITLE}, and the version 2.13.0 comes from its label {VERSION}"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    labels = json.dumps({TITLE: "hpcmod-tiny", VERSION: "2.13.0"})
    return corpus.make_image(tmp_path / "solver.sif", {"/.singularity.d/labels.json": labels})


@pytest.fixture(autouse=True)
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names passed to a fake of `publish`, which would need `eb`."""
    make_catalogue(tmp_path / "shop")
    monkeypatch.setenv("HPCMOD_CATALOGUE", str(tmp_path / "shop"))
    monkeypatch.setenv("HPCMOD_SITE", "generic")
    names: list[str] = []
    monkeypatch.setattr("hpcmod.catalogue.cli.publish.publish", lambda _, __, request, ___: names.append(request.what))
    monkeypatch.setattr("hpcmod.catalogue.cli.publish._show", lambda *_, **__: None)
    return names


def publish(image: Path, *more: str, answer: str = "") -> Result:
    return hpcmod("publish", str(image), *more, answer=answer)


def test_names_of_labels_are_refused_without_a_terminal(image: Path, published: list[str]) -> None:
    done = publish(image)
    assert (done.exit_code, published) == (2, [])
    assert "would be published as hpcmod-tiny/2.13.0" in done.stderr
    assert TOLD in " ".join(done.stderr.split())
    assert "--yes" in done.stderr


def test_asks_only_about_missing_values(image: Path, published: list[str]) -> None:
    done = publish(image, "--name", "Solver")
    assert (done.exit_code, published) == (2, [])
    assert "Solver/2.13.0" in done.stderr
    assert TITLE not in done.stderr


@pytest.mark.parametrize(("answer", "count"), [("y\n", 1), ("n\n", 0)])
def test_names_of_labels_are_asked_about_on_a_terminal(
    image: Path, published: list[str], monkeypatch: pytest.MonkeyPatch, answer: str, count: int
) -> None:
    monkeypatch.setattr("hpcmod.catalogue.cli.publish.on_a_terminal", lambda: True)
    done = publish(image, answer=answer)
    assert len(published) == count
    assert "Publish it?" in done.stderr


@pytest.mark.parametrize("more", [("--yes",), ("--name", "Solver", "--version", "3.1")])
def test_names_that_were_given_or_accepted_are_not_asked_about(
    image: Path, published: list[str], more: tuple[str, ...]
) -> None:
    assert publish(image, *more).exit_code == 0
    assert published == [str(image)]


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_missing_file_is_not_found(published: list[str], more: tuple[str, ...]) -> None:
    done = hpcmod("publish", "nosuch.sif", *more)
    assert (done.exit_code, published) == (3, []), done.output
    assert "nosuch.sif: no such file" in done.stderr
