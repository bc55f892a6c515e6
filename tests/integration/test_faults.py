"""A fault in any system call that writes loses no data; a sample of what `python -m tests.faults` tries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.kinds import KILL
from tests.faults.trials import Choice, Done, try_verbs
from tests.stack import Stack

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(("verb", "both"), [("fetch", True), ("remove", False), ("catalogue promote --alias", False)])
def test_a_fault_loses_nothing_and_the_next_run_finishes(verb: str, both: bool, stack: Stack, tmp_path: Path) -> None:
    (report,) = try_verbs([verb], stack, tmp_path, Choice(most=4, both=both), Done())
    assert report.missed == 0
    assert report.points >= 3
    assert report.trials[KILL]
    assert report.bad == []
