"""Fixtures of all unit tests: a home directory without anything of the user who runs them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcmod.machine import machine
from tests.oci_corpus import CASES, write_case


@pytest.fixture(scope="session")
def empty_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True, scope="module")
def hidden_home(empty_home: Path) -> Iterator[None]:
    """Hide installations, profile and cache of the user and the profile of the machine, which commands print."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", os.fspath(empty_home))
        patch.setattr(machine, "SYSTEM_PROFILE", empty_home / "none")
        yield


@pytest.fixture
def image_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Images are converted and built in a temporary directory."""
    for variable, name in (("HOME", "home"), ("HPCMOD_CACHE", "cache"), ("HPCMOD_LOCK", "lock")):
        monkeypatch.setenv(variable, str(tmp_path / name))
    monkeypatch.setenv("HPCMOD_SITE", "generic")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """An OCI layout with one small image."""
    return write_case(tmp_path / "layout", CASES["plain"])
