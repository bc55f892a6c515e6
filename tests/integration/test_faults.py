"""A fault at any system call that writes loses nothing: some of what `python -m tests.faults` tries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.trials import Choice, Done, try_verb
from tests.stack import Stack

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("verb", ["fetch", "alias", "job"])
def test_a_fault_loses_nothing_and_the_next_run_finishes(verb: str, stack: Stack, tmp_path: Path) -> None:
    report = try_verb(verb, stack, tmp_path, Choice(most=6), Done())
    assert report.points >= 3
    assert report.bad == []
