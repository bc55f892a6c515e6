"""Fixtures of all unit tests: a home directory without anything of the user who runs them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def empty_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def home(empty_home: Path) -> Iterator[None]:
    """Hide the user's own installations, profile and cache, which would change what commands print."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", os.fspath(empty_home))
        yield
