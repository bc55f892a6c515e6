from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hpcmod import machine, resources
from hpcmod.cli import user
from hpcmod.cli.main import main
from tests import corpus

needs_mksquashfs = pytest.mark.skipif(not corpus.HAS_MKSQUASHFS, reason="needs mksquashfs (package squashfs-tools)")


def hpcmod(*arguments: str, **env: str) -> Result:
    return CliRunner(env=env).invoke(main, arguments)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("EASYBUILD_ROBOT_PATHS", "HPCMOD_SITE", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.setattr(machine, "SYSTEM_PROFILE", tmp_path / "none")


class FakeCall:
    """Stands for the terminal: notes what would run, and ends with a status."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.argv: list[str] = []
        self.env: dict[str, str] = {}

    def __call__(self, argv: Sequence[str], *, env: Mapping[str, str]) -> int:
        self.argv, self.env = list(argv), dict(env)
        return self.status


@pytest.fixture
def eb(monkeypatch: pytest.MonkeyPatch) -> FakeCall:
    call = FakeCall(0)
    monkeypatch.setattr(user, "call", call)
    return call


@pytest.mark.parametrize(
    ("flags", "argv"),
    [
        pytest.param([], ["eb", "a.eb"], id="plain"),
        pytest.param(["--dry-run"], ["eb", "a.eb", "--extended-dry-run"], id="dry run"),
        pytest.param(["--rebuild"], ["eb", "a.eb", "--rebuild"], id="rebuild"),
        pytest.param(["b.eb"], ["eb", "a.eb", "b.eb"], id="two"),
    ],
)
def test_install_is_one_call_of_eb(eb: FakeCall, flags: list[str], argv: list[str]) -> None:
    assert hpcmod("install", "a.eb", *flags).exit_code == 0
    assert eb.argv == argv


@pytest.mark.parametrize("status", [0, 1, 6])
def test_install_ends_with_the_status_of_eb(eb: FakeCall, status: int) -> None:
    eb.status = status
    assert hpcmod("install", "a.eb").exit_code == status


def test_install_names_the_easyblocks_of_a_checkout_to_a_python_that_does_not_find_them(
    eb: FakeCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpcmod.cli.environment.find_spec", lambda name: None)
    hpcmod("install", "a.eb")
    assert eb.env["EASYBUILD_INCLUDE_EASYBLOCKS"] == f"{resources.easyblocks_directory()}/container*.py"


def test_install_runs_eb_with_our_python_and_our_easyblocks(eb: FakeCall) -> None:
    hpcmod("install", "a.eb", HOME="/home/u")
    assert eb.env["EB_PYTHON"] == sys.executable
    assert "EASYBUILD_INCLUDE_EASYBLOCKS" not in eb.env, (
        "our Python finds them, and EasyBuild's framework alone fails on it"
    )
    assert eb.env["HOME"] == "/home/u"
    assert "HPCMOD_SITE" not in eb.env


def test_install_names_the_site_to_the_easyblock(eb: FakeCall) -> None:
    hpcmod("install", "a.eb", "--site", "lumi", HPCMOD_SITE="generic")
    assert eb.env["HPCMOD_SITE"] == "lumi"


@needs_mksquashfs
def test_inspect_says_what_is_in_an_image(tmp_path: Path) -> None:
    image = corpus.make_image(tmp_path / "a.sif")
    result = hpcmod("inspect", str(image))
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "architecture: amd64",
        f"size: {image.stat().st_size} bytes",
        "python: 3.12 /opt/miniconda3/envs/pytorch/bin/python3.12",
        "package: old-style 0.3",
        "package: PyYAML 6.0.2",
        "package: torch 2.7.1+rocm6.2.4",
    ]


@needs_mksquashfs
def test_inspect_says_that_there_is_no_python(tmp_path: Path) -> None:
    image = corpus.make_image(tmp_path / "a.sif", {"/bin/sh": corpus.Program()})
    assert "python: none found" in hpcmod("inspect", str(image)).stdout.splitlines()


@needs_mksquashfs
def test_inspect_gives_one_versioned_object_for_programs(tmp_path: Path) -> None:
    found = json.loads(hpcmod("inspect", "--json", str(corpus.make_image(tmp_path / "a.sif"))).stdout)
    assert found["version"] == 1
    assert {"name": "torch", "version": "2.7.1+rocm6.2.4"} in found["packages"]
    assert found["python"]["version"] == "3.12"


def test_doctor_ends_with_1_when_something_will_not_work_and_says_how_to_mend_it(tmp_path: Path) -> None:
    result = hpcmod("doctor", PATH=str(tmp_path))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    at = lines.index("fail eb: not on PATH")
    assert lines[at + 1].startswith("     ")


def test_doctor_gives_one_versioned_object_for_programs(tmp_path: Path) -> None:
    found = json.loads(hpcmod("doctor", "--json", PATH=str(tmp_path)).stdout)
    assert found["version"] == 1
    assert {"eb", "runtime"} <= {finding["subject"] for finding in found["findings"] if finding["verdict"] == "fail"}
