from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.catalogue.publishing.terms import set_terms
from hpcmod.catalogue.records.store import Catalogue
from tests.calls import hpcmod
from tests.catalogues import make_catalogue, make_record, put

TEXT = "Use it \x1b[2Jfor science.\n"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    """A catalogue with one container that has a licence and one that has none."""
    catalogue = make_catalogue(tmp_path / "shop", make_record("Free/1"))
    (tmp_path / "terms.txt").write_text(TEXT)
    put(catalogue, set_terms(catalogue, make_record("Solver/3.1"), readers="", licence=str(tmp_path / "terms.txt")))
    monkeypatch.setenv("HPCMOD_CATALOGUE", str(catalogue.directory))
    monkeypatch.setenv("HPCMOD_SITE", "generic")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return catalogue


def markers(tmp_path: Path) -> list[Path]:
    return list(tmp_path.glob("home/.local/state/hpcmod/accepted/*"))


@pytest.mark.parametrize("words", [("Solver",), ("Solver", "--json")])
def test_without_a_terminal_nothing_is_accepted(shop: Catalogue, tmp_path: Path, words: tuple[str, ...]) -> None:
    done = hpcmod("install", "--accept-licence", *words)
    assert (done.exit_code, markers(tmp_path)) == (7, [])
    assert "hpcmod install --accept-licence --yes Solver/3.1" in done.stderr


@pytest.mark.parametrize(("answer", "count"), [("y\n", 1), ("n\n", 0)])
def test_on_a_terminal_it_is_shown_and_asked(
    shop: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, count: int
) -> None:
    monkeypatch.setattr("hpcmod.catalogue.cli.accept.on_a_terminal", lambda: True)
    done = hpcmod("install", "--accept-licence", "Solver", answer=answer)
    assert done.stdout == TEXT.replace("\x1b", "?")
    assert len(markers(tmp_path)) == count


def test_it_is_accepted_once_and_again_if_the_text_changes(shop: Catalogue, tmp_path: Path) -> None:
    assert hpcmod("install", "--accept-licence", "Solver", "--yes").exit_code == 0
    assert "already accepted" in hpcmod("install", "--accept-licence", "Solver").stderr
    assert json.loads(hpcmod("install", "--accept-licence", "Solver", "--json").stdout)["licences"][0]["text"] == TEXT
    put(shop, replace(shop.read("Solver", "3.1"), licence="5" * 64))
    lost = hpcmod("install", "--accept-licence", "Solver")
    assert lost.exit_code == 3
    assert "licence of Solver/3.1 is missing" in lost.stderr


def test_a_container_is_not_used_before_its_licence_is_accepted(shop: Catalogue, tmp_path: Path) -> None:
    refused = hpcmod("exec", "Solver", "true")
    assert (refused.exit_code, "hpcmod install --accept-licence Solver/3.1" in refused.stderr) == (7, True)
    assert hpcmod("install", "--accept-licence", "Solver", "--yes").exit_code == 0
    assert "Solver/3.1 is not installed here" in hpcmod("exec", "Solver", "true").stderr


def test_info_says_whether_the_licence_is_accepted(shop: Catalogue) -> None:
    said = hpcmod("info", "Solver").stdout.splitlines()
    assert "licence: to read and accept it: hpcmod install --accept-licence Solver/3.1" in said
    hpcmod("install", "--accept-licence", "Solver", "--yes")
    assert "licence: accepted" in hpcmod("info", "Solver").stdout.splitlines()
    assert "licence" not in hpcmod("info", "Free").stdout


def test_a_container_without_a_licence_needs_nothing(shop: Catalogue, tmp_path: Path) -> None:
    assert "no licence" in hpcmod("install", "--accept-licence", "Free").stderr
    assert markers(tmp_path) == []


def test_install_refuses_a_container_with_an_unaccepted_licence(shop: Catalogue) -> None:
    done = hpcmod("install", "Solver")
    assert done.exit_code == 7
    assert "hpcmod install --accept-licence Solver/3.1" in done.stderr
