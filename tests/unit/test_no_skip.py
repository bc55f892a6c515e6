"""Where tests must not skip, a skipped test is a failure with an explanation."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.stack import CHECKOUT, Done, run

HOOKS = "from tests.conftest import pytest_make_collect_report, pytest_runtest_makereport\n"
SKIPS = {
    "in_a_test": "import pytest\ndef test_one(): pytest.skip('no tool')\n",
    "in_a_fixture": "import pytest\n@pytest.fixture\ndef tool(): pytest.skip('no tool')\ndef test_one(tool): pass\n",
    "in_a_module": "import pytest\npytest.skip('no tool', allow_module_level=True)\n",
    "by_a_mark": "import pytest\n@pytest.mark.skipif(True, reason='no tool')\ndef test_one(): pass\n",
}
EXPECTED_FAILURE = "import pytest\n@pytest.mark.xfail\ndef test_one(): assert False\n"


def run_pytest(folder: Path, tests: dict[str, str], **env: str) -> Done:
    (folder / "conftest.py").write_text(HOOKS)
    for name, text in tests.items():
        (folder / f"test_{name}.py").write_text(text)
    base = {name: value for name, value in os.environ.items() if name not in ("CI", "HPCMOD_NO_SKIP")}
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors", "."]
    return run(argv, {**base, "PYTHONPATH": str(CHECKOUT), **env}, folder)


@pytest.mark.parametrize("variable", ["CI", "HPCMOD_NO_SKIP"])
@pytest.mark.slow
def test_every_kind_of_skip_fails_with_its_reason(tmp_path: Path, variable: str) -> None:
    done = run_pytest(tmp_path, SKIPS, **{variable: "true"})
    assert done.returncode != 0
    summary = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR "))]
    assert len(summary) == len(SKIPS), done.stdout
    assert done.stdout.count("skipped where nothing may skip: Skipped: no tool") >= len(SKIPS), done.stdout


@pytest.mark.slow
def test_elsewhere_skips_are_skips_and_an_expected_failure_is_always_one(tmp_path: Path) -> None:
    assert run_pytest(tmp_path, SKIPS).returncode == 0
    (tmp_path / "other").mkdir()
    assert run_pytest(tmp_path / "other", {"xfail": EXPECTED_FAILURE}, CI="true").returncode == 0
