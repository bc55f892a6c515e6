"""Fixtures of all unit tests: a home directory without anything of the user who runs them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcmod import machine


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
