"""Packages that a user added are listed without starting the image."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.values.facts import Package
from hpcmod.modules.python_packages import read_packages, read_packages_in
from tests import corpus

PACKAGES = Path("venv/pytorch/lib/python3.12/site-packages")


@pytest.fixture
def installation(tmp_path: Path) -> Path:
    """An installation with two added packages, one for each kind of metadata."""
    packages = tmp_path / "user-software" / PACKAGES
    (packages / "einops-0.8.1.dist-info").mkdir(parents=True)
    (packages / "einops-0.8.1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: einops\nVersion: 0.8.1\n")
    (packages / "Zope.Thing-2.0.egg-info").mkdir()
    return tmp_path


BOTH = (Package("einops", "0.8.1"), Package("Zope.Thing", "2.0"))


def test_packages_in_a_directory_are_read(installation: Path) -> None:
    assert read_packages(installation / "user-software") == BOTH
    assert read_packages_in(installation / "user-software" / PACKAGES) == BOTH


@pytest.mark.slow
def test_packed_packages_are_read(installation: Path) -> None:
    corpus.pack(installation / "user-software", installation / "user-software.squashfs")
    assert read_packages(installation / "user-software.squashfs") == BOTH


def test_an_installation_without_packages_has_none(tmp_path: Path) -> None:
    assert read_packages(tmp_path / "user-software") == read_packages_in(tmp_path / "missing") == ()


def test_only_the_named_packages_are_read(installation: Path) -> None:
    packages = installation / "user-software" / PACKAGES
    assert read_packages_in(packages, only={"einops-0.8.1.dist-info"}) == BOTH[:1]
