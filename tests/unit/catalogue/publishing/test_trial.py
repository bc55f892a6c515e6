from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.catalogue.publishing.trial import CheckRun, run_checks
from hpcmod.core.errors import CheckFailedError, LackingError
from tests.programs import make_program


@pytest.fixture
def trial(tmp_path: Path) -> CheckRun:
    tool = tmp_path / "lmod"
    make_program(tool, "#!/bin/sh\necho :\n")
    return CheckRun("Toy/1.0", tmp_path, "0" * 64, {"LMOD_CMD": str(tool), "PATH": "/usr/bin:/bin"}, use_steps=False)


def test_a_missing_command_is_reported_with_a_cure(trial: CheckRun) -> None:
    with pytest.raises(CheckFailedError) as caught:
        list(run_checks(trial, ["mytool --version"]))
    assert "command not found: mytool (with the module loaded)" in caught.value.message
    assert "bash: line" not in caught.value.message
    assert "--command mytool" in caught.value.cure


def test_shows_the_output_of_a_check_without_its_script(trial: CheckRun) -> None:
    with pytest.raises(CheckFailedError, match=r"\(exit code 3\): nosuch; exit 3\n  nosuch: command not found"):
        list(run_checks(trial, ["nosuch; exit 3"]))


def test_without_a_module_tool_the_environment_lacks_something(tmp_path: Path) -> None:
    with pytest.raises(LackingError, match=r"no module tool: .* so Toy/1.0 cannot be loaded") as caught:
        list(run_checks(CheckRun("Toy/1.0", tmp_path, "", {"PATH": "/usr/bin:/bin"}, use_steps=False), ["true"]))
    assert caught.value.exit_code == 7


def test_a_slurm_that_does_not_answer_is_reported(trial: CheckRun, tmp_path: Path) -> None:
    for name in ("srun", "sinfo"):
        make_program(tmp_path / name, "#!/bin/sh\nexit 1\n")
    told: list[str] = []
    environ = {**trial.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    checks = list(run_checks(replace(trial, environ=environ, use_steps=True, tell=told.append), ["true"]))
    assert [check.under for check in checks] == [""]
    assert told == ["Slurm does not respond, so the checks ran on this machine only and not in a job step"]
