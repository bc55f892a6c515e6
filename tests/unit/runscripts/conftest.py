"""Fixtures of the tests that run the rendered scripts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcmod.modules.values.plan import RunscriptSettings
from tests.unit.runscripts.scripts import SETTINGS, SYSTEM_PATH, Rank, Scripts, make_program


@pytest.fixture
def settings() -> RunscriptSettings:
    return SETTINGS


@pytest.fixture
def scripts(settings: RunscriptSettings, tmp_path: Path) -> Scripts:
    return Scripts(tmp_path).write(settings)


@pytest.fixture
def python_path(tmp_path: Path) -> str:
    """A PATH with a python that prints its arguments and environment."""
    return f"{make_program(tmp_path / 'python-bin' / 'python').parent}{os.pathsep}{SYSTEM_PATH}"


@pytest.fixture
def rank(scripts: Scripts, python_path: str) -> Rank:
    return Rank(scripts, python_path)
