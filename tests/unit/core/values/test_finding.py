from __future__ import annotations

import pytest

from hpcmod.core.values.finding import FAIL, OK, UNKNOWN, WARN, Finding, worst_level


def test_the_subject_of_a_finding_is_its_rule_by_default() -> None:
    assert Finding(OK, "runtime", "apptainer").subject == "runtime"
    assert Finding(OK, "images", "3 files", subject="images /appl").subject == "images /appl"


@pytest.mark.parametrize(
    ("levels", "worst"), [((), OK), ((OK, UNKNOWN), OK), ((WARN, UNKNOWN, OK), WARN), ((WARN, FAIL, OK), FAIL)]
)
def test_the_worst_level_ignores_unknown_findings(levels: tuple[str, ...], worst: str) -> None:
    assert worst_level(Finding(level, "x", "y") for level in levels) == worst
