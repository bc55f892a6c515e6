from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hpcmod import machine, resources
from hpcmod.cli import user
from hpcmod.cli.main import main
from hpcmod.model.site import Site
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
    monkeypatch.setattr("hpcmod.cli.user.find_spec", lambda name: None)
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


def exports(**env: str) -> dict[str, str]:
    """What a shell has after `eval "$(hpcmod env)"`."""
    printed = hpcmod("env", **env).stdout
    script = 'eval "$1"; env -0'
    done = subprocess.run(["bash", "-c", script, "bash", printed], env=env, capture_output=True, text=True, check=True)
    return dict(item.split("=", 1) for item in done.stdout.split("\0") if item)


def test_env_is_for_a_shell_to_read_and_leaves_the_sites_python_alone() -> None:
    found = exports()
    assert Path(found["EASYBUILD_INCLUDE_EASYBLOCKS"]).name == "container*.py"
    assert "EB_PYTHON" not in found


def test_env_leads_to_our_easyblocks_easyconfigs_and_package() -> None:
    found = exports()
    easyblocks = Path(found["EASYBUILD_INCLUDE_EASYBLOCKS"])
    assert "containermodule.py" in [path.name for path in easyblocks.parent.glob(easyblocks.name)]
    assert list(Path(found["EASYBUILD_ROBOT_PATHS"].split(":")[0]).glob("p/PyTorch/*.eb"))
    assert Path(found["PYTHONPATH"].split(":")[0], "hpcmod", "errors.py").is_file()


@pytest.mark.parametrize(
    ("had", "rest"),
    [
        pytest.param(None, [""], id="unset: an empty part stands for EasyBuild's own default"),
        pytest.param("/x", ["/x"], id="set"),
        pytest.param("/x:", ["/x", ""], id="set, with the default"),
    ],
)
def test_env_keeps_the_robot_path_and_does_not_take_the_default_away(had: str | None, rest: list[str]) -> None:
    ours, *others = exports(**({} if had is None else {"EASYBUILD_ROBOT_PATHS": had}))["EASYBUILD_ROBOT_PATHS"].split(
        ":"
    )
    assert ours == str(resources.easyconfigs_directory())
    assert others == rest


def test_env_keeps_the_python_path() -> None:
    assert exports(PYTHONPATH="/a:/b c")["PYTHONPATH"].endswith(":/a:/b c")


def test_env_twice_changes_nothing_more() -> None:
    once = exports(PYTHONPATH="/a", EASYBUILD_ROBOT_PATHS="/x")
    kept = {name: once[name] for name in ("PYTHONPATH", "EASYBUILD_ROBOT_PATHS")}
    assert {name: exports(**kept)[name] for name in kept} == kept


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


def test_site_list_is_the_shipped_profiles_one_a_line() -> None:
    assert hpcmod("site", "list").stdout.splitlines() == sorted(resources.site_profiles())


def test_site_show_prints_every_fact_of_a_site() -> None:
    lines = hpcmod("site", "show", "lumi").stdout.splitlines()
    assert [line.split(" = ")[0] for line in lines] == [field.name for field in fields(Site)]
    assert 'name = "lumi"' in lines


def test_site_show_without_a_name_is_the_one_of_this_machine() -> None:
    assert 'name = "lumi"' in hpcmod("site", "show", HPCMOD_SITE="lumi").stdout.splitlines()


def test_site_show_of_a_name_is_not_changed_by_the_environment() -> None:
    assert 'name = "generic"' in hpcmod("site", "show", "generic", HPCMOD_SITE="lumi").stdout.splitlines()


def test_site_show_gives_one_versioned_object_for_programs() -> None:
    found = json.loads(hpcmod("site", "show", "--json", "lumi").stdout)
    assert (found["version"], found["name"]) == (1, "lumi")
    assert found["binds"][0] == {"source": "/var/spool/slurmd", "destination": "", "options": "", "required": True}


def test_site_show_of_an_unknown_name_is_not_found() -> None:
    result = hpcmod("site", "show", "nowhere")
    assert (result.exit_code, result.stdout) == (3, "")


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
