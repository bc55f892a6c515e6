"""The kinds of test files that the processes of a whole run prefer."""

from __future__ import annotations

import pytest

from tests.scheduling import JOBS, MODULES, OTHERS, PREFERENCES, kind_of


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("tests/e2e/test_job.py", JOBS),
        ("tests/integration/test_module_environment.py", MODULES),
        ("tests/integration/test_install.py", OTHERS),
        ("tests/unit/test_scheduling.py", OTHERS),
    ],
)
def test_a_file_is_of_the_kind_whose_set_up_it_shares(file: str, kind: str) -> None:
    assert kind_of(file) == kind


def test_each_kind_is_preferred_by_a_process() -> None:
    assert set(PREFERENCES) == {JOBS, MODULES, OTHERS}
