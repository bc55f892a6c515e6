from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hpcmod.cli.main import main
from tests.foreign_recipes import write_tree

EASYCONFIG = (
    "easyblock = 'ContainerModule'\nname = 'tool'\nversion = '1.2'\ntoolchain = SYSTEM\n"
    "image = 'docker://quay.io/org/tool:1.2'\nwrapped_commands = ['\x1b[31m']\n"
)


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["export", *map(str, args)])


def test_the_file_is_on_stdout_and_the_losses_on_stderr(tmp_path: Path) -> None:
    write_tree(tmp_path, {"tool.eb": EASYCONFIG})
    done = run("edf", tmp_path / "tool.eb")
    assert done.exit_code == 0
    assert 'image = "quay.io#org/tool:1.2"\n' in done.stdout
    assert "not carried over: wrapped_commands: write `srun" in done.stderr
    assert "# not carried over: wrapped_commands" in done.stdout
    assert "\x1b" not in done.output


def test_json_has_the_file_and_the_losses(tmp_path: Path) -> None:
    write_tree(tmp_path, {"tool.eb": EASYCONFIG})
    said = json.loads(run("edf", tmp_path / "tool.eb", "--json", "--image", "/x.sqsh").stdout)
    assert said["module"] == "tool/1.2"
    assert 'image = "/x.sqsh"' in said["edf"]
    assert len(said["left_out"]) == 3
    assert said["changed"][0].startswith("the version 1.2")


def test_a_missing_file_or_container_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run("edf", tmp_path / "none.eb").exit_code == 3
    assert run("edf", "NoSuchContainer").exit_code == 3


def test_reframe_tests_of_an_easyconfig(tmp_path: Path) -> None:
    write_tree(tmp_path, {"tool.eb": EASYCONFIG + "sanity_check_commands = ['tool --version']\n"})
    done = run("reframe", tmp_path / "tool.eb")
    assert done.exit_code == 0
    assert "'tool --version'," in done.stdout
    said = json.loads(run("reframe", tmp_path / "tool.eb", "--json").stdout)
    assert (said["module"], said["network"], said["reframe"]) == ("tool/1.2", False, done.stdout)


def test_an_easystack_file_names_the_easyconfigs(tmp_path: Path) -> None:
    write_tree(tmp_path, {"tool-1.2.eb": EASYCONFIG, "b/other-1.eb": EASYCONFIG})
    paths = tmp_path / "tool-1.2.eb", tmp_path / "b/other-1.eb"
    assert run("easystack", *paths).stdout == "easyconfigs:\n  - tool-1.2.eb\n  - other-1.eb\n"
    assert json.loads(run("easystack", *paths, "--json").stdout)["easyconfigs"] == ["tool-1.2.eb", "other-1.eb"]
