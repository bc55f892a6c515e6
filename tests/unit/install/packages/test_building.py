"""What does not need a container; tests/integration/test_user_packages.py runs the real pip in real ones."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.errors import CheckFailedError, LackingError
from hpcmod.install.packages import building
from hpcmod.install.packages.building import Builder, build_state, resolve_packages
from hpcmod.model.packages.plan import PipOptions, StatePlan, make_state_plan
from hpcmod.model.packages.requirement import Requirements
from tests.package_states import TARGET, write_set

LISTS = """#!/bin/sh
printf '%s\\n' "$@" >"$ARGUMENTS"
env >>"$ARGUMENTS"
exit 7
"""
"""Stands for a runtime: it writes down how it is called."""


def plan_of(directory: Path, *lines: str) -> StatePlan:
    pip = PipOptions(("--no-index",), places=("/wheels, with: signs",))
    return make_state_plan(
        TARGET, directory=str(directory), number=1, parent=None, added=Requirements(lines), pip=pip, action="add"
    )


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    runtime = tmp_path / "runtime"
    runtime.write_text(LISTS)
    runtime.chmod(0o755)
    (tmp_path / "tmp").mkdir()
    environ = {
        "PATH": os.defpath,
        "ARGUMENTS": str(tmp_path / "arguments"),
        "PIP_INDEX_URL": "https://example.org",
        "PIP_TARGET": "/x",
        "PYTHONPATH": "/host",
        "SINGULARITY_BINDPATH": "/other:/user-software",
    }
    return Builder(str(runtime), environ, tmp_path / "tmp", "2026-02-02T00:00:00Z", "alice")


def test_pip_sees_its_own_settings_and_nothing_of_the_host_or_another_container(
    tmp_path: Path, builder: Builder
) -> None:
    with pytest.raises(CheckFailedError):
        resolve_packages(plan_of(tmp_path, "x"), builder)
    called = (tmp_path / "arguments").read_text().splitlines()
    assert called[:2] == ["exec", "--bind"]
    assert called[2].startswith(str(builder.temporary)) and called[2].endswith(":/user-software")
    assert called[3:6] == ["--bind", r"/wheels\, with\: signs:/wheels\, with\: signs:ro", "/images/torch.sif"]
    assert "--dry-run" in called
    assert "PIP_INDEX_URL=https://example.org" in called
    assert "APPTAINERENV_PYTHONNOUSERSITE=1" in called
    assert not [line for line in called if line.startswith(("PIP_TARGET", "PYTHONPATH", "SINGULARITY_BINDPATH"))]


def test_nothing_is_left_of_a_state_that_fails(tmp_path: Path, builder: Builder) -> None:
    found = write_set(tmp_path / "default")
    with pytest.raises(CheckFailedError, match="pip failed"):
        build_state(plan_of(found.directory, "x"), found, builder)
    assert list((found.directory / "states").iterdir()) == []
    assert list(builder.temporary.iterdir()) == []


def test_what_a_killed_run_left_in_the_temporary_directory_is_removed(
    tmp_path: Path, builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = write_set(tmp_path / "default")
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(building, "run", lambda *_, **__: os._exit(9))
        build_state(plan_of(found.directory, "x"), found, builder)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert list(builder.temporary.iterdir())
    build_state(plan_of(found.directory), found, builder)
    assert list(builder.temporary.iterdir()) == []


def test_a_missing_temporary_directory_is_named(tmp_path: Path, builder: Builder) -> None:
    builder.temporary.rmdir()
    with pytest.raises(LackingError, match="no such directory"):
        resolve_packages(plan_of(tmp_path, "x"), builder)


def test_an_image_without_pip_gets_ours(tmp_path: Path, builder: Builder) -> None:
    plan = plan_of(tmp_path, "x")
    with pytest.raises(CheckFailedError):
        resolve_packages(replace(plan, target=replace(TARGET, packages=())), builder)
    called = (tmp_path / "arguments").read_text()
    assert "/pip:/user-software/.hpcmod/pip:ro\n" in called
    assert "\n/user-software/venv/pytorch/bin/python\n/user-software/.hpcmod/pip\ninstall\n" in called
