"""Building states without a container; tests/integration/test_user_packages.py runs the real pip in containers."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.errors import CheckFailedError
from hpcmod.packages import building
from hpcmod.packages.builder import Builder
from hpcmod.packages.building import build_state, resolve_packages
from hpcmod.packages.values.plan import PackageChange, PipOptions, StatePlan, make_state_plan
from hpcmod.packages.values.requirement import Requirements
from hpcmod.packages.values.state import State
from tests.package_states import TARGET, write_set
from tests.programs import make_program

LISTS = """#!/bin/sh
printf '%s\\n' "$@" >"$ARGUMENTS"
env >>"$ARGUMENTS"
exit 7
"""
"""A fake runtime that records how it is called."""


def plan_of(*lines: str) -> StatePlan:
    pip = PipOptions(("--no-index", "--find-links=/wheels, with: signs"))
    change = PackageChange(added=Requirements(lines), pip=pip, action="add")
    return make_state_plan(TARGET, change, number=1, parent=None)


@pytest.fixture
def builder(builder: Builder, tmp_path: Path) -> Builder:
    make_program(tmp_path / "runtime", LISTS)
    environ = {
        "PATH": os.defpath,
        "ARGUMENTS": str(tmp_path / "arguments"),
        "PIP_INDEX_URL": "https://example.org",
        "PIP_TARGET": "/x",
        "PYTHONPATH": "/host",
        "SINGULARITY_BINDPATH": "/other:/user-software",
    }
    return replace(builder, runtime=str(tmp_path / "runtime"), environ=environ)


def test_pip_gets_its_own_settings_and_none_of_the_host(tmp_path: Path, builder: Builder) -> None:
    with pytest.raises(CheckFailedError):
        resolve_packages(plan_of("x"), builder)
    called = (tmp_path / "arguments").read_text().splitlines()
    assert called[:4] == ["exec", "--pwd", "/", "--bind"]
    assert called[4].startswith(str(builder.temporary)) and called[4].endswith(":/user-software")
    assert called[5:7] == ["--bind", r"/wheels\, with\: signs:/wheels\, with\: signs:ro"]
    assert "--dry-run" in called
    assert "PIP_INDEX_URL=https://example.org" in called
    assert "APPTAINERENV_PYTHONNOUSERSITE=1" in called
    assert not [line for line in called if line.startswith(("PIP_TARGET", "PYTHONPATH", "SINGULARITY_BINDPATH"))]


def test_pip_sees_the_files_that_its_settings_name(tmp_path: Path, builder: Builder) -> None:
    certificates = tmp_path / "site.pem"
    certificates.touch()
    settings = {"PIP_CERT": str(certificates), "SSL_CERT_FILE": str(certificates), "PIP_CONFIG_FILE": "/missing"}
    with pytest.raises(CheckFailedError):
        resolve_packages(plan_of("x"), replace(builder, environ={**builder.environ, **settings}))
    called = (tmp_path / "arguments").read_text().splitlines()
    assert f"{certificates}:{certificates}:ro" in called and "/missing" not in called


def test_nothing_is_left_of_a_state_that_fails(tmp_path: Path, builder: Builder) -> None:
    found = write_set(tmp_path / "default")
    with pytest.raises(CheckFailedError, match="pip failed"):
        build_state(plan_of("x"), found, builder)
    assert list((found.directory / "states").iterdir()) == []
    assert list(builder.temporary.iterdir()) == []


def test_what_a_killed_run_left_in_the_temporary_directory_is_removed(
    tmp_path: Path, builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = write_set(tmp_path / "default")
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(building, "follow", lambda *_, **__: os._exit(9))
        build_state(plan_of("x"), found, builder)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert list(builder.temporary.iterdir())
    build_state(plan_of(), found, builder)
    assert list(builder.temporary.iterdir()) == []


def test_a_state_is_active_before_the_temporary_directory_is_removed(tmp_path: Path, builder: Builder) -> None:
    """Removing it takes seconds; a process killed during that time must not leave an unused state."""
    found = write_set(tmp_path / "default")
    during = []

    def settle(state: State) -> State:
        during.extend(builder.temporary.iterdir())
        return found.settle(None, state)

    state = build_state(plan_of(), found, builder, settle=settle)
    assert during and found.active(state.tag) == state


def test_an_image_without_pip_gets_ours(tmp_path: Path, builder: Builder) -> None:
    plan = plan_of("x")
    with pytest.raises(CheckFailedError):
        resolve_packages(replace(plan, target=replace(TARGET, packages=())), builder)
    called = (tmp_path / "arguments").read_text()
    assert "/pip:/user-software/.hpcmod/pip:ro\n" in called
    assert "\n/user-software/venv/pytorch/bin/python\n/user-software/.hpcmod/pip\ninstall\n" in called
