"""Unit tests give the same results whatever the user who runs them has installed or configured."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from hypothesis import settings

from tests.conftest import LOADED
from tests.unit.render.test_quote import IN_MEMORY


def test_unit_tests_see_no_installations_of_the_caller() -> None:
    assert Path.home() != Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert not (Path.home() / ".local" / "easybuild").exists()


def test_unit_tests_see_no_catalogue_and_no_profile_of_the_caller() -> None:
    assert [name for name in ("HPCMOD_CATALOGUE", "HPCMOD_SITE") if not name.startswith(LOADED)] == []


def test_no_example_has_a_time_limit() -> None:
    assert (settings().deadline, IN_MEMORY.deadline) == (None, None)
