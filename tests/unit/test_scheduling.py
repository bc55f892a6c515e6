"""Each worker process of a full test run prefers one kind of test files."""

from __future__ import annotations

from collections import OrderedDict
from unittest.mock import Mock

import pytest

from tests.scheduling import JOBS, MODULES, OTHERS, PREFERENCES, FilesByKind, kind_of


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


def test_processes_take_files_of_their_kind_and_then_any() -> None:
    files = [
        *("tests/e2e/test_job.py", "tests/e2e/test_stage.py"),
        *("tests/integration/test_install.py", "tests/integration/test_leaks.py", "tests/integration/test_swap.py"),
    ]
    tests = [f"{file}::test_one" for file in files]
    nodes = [Mock() for _ in PREFERENCES]
    scheduler = FilesByKind.__new__(FilesByKind)  # without the configuration of a run with several processes
    scheduler.assigned_work = {node: {} for node in nodes}
    scheduler.registered_collections = dict.fromkeys(nodes, tests)
    scheduler.workqueue = OrderedDict((file, {test: False}) for file, test in zip(files, tests))
    for node in nodes:
        scheduler._assign_work_unit(node)
    taken = [kind_of(*scheduler.assigned_work[node]) for node in nodes]
    assert taken == [JOBS, JOBS, MODULES, OTHERS, MODULES]
