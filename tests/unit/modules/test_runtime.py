from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from hpcmod.modules.runtime import start_commands


def test_the_image_of_a_loaded_module_is_started_by_the_runtime_that_was_found(tmp_path: Path) -> None:
    directory = tmp_path / "my tools"
    directory.mkdir()
    (directory / "apptainer").touch(mode=0o755)
    (command,) = start_commands({"PATH": str(directory)}, ("sh", "-c", ":"), warn=pytest.fail)
    assert shlex.split(command) == ["apptainer", "exec", "$SIF", "sh", "-c", ":"]
    assert '"$SIF"' in command


def test_without_a_runtime_no_container_is_started(tmp_path: Path) -> None:
    said: list[str] = []
    assert start_commands({"PATH": str(tmp_path)}, ("true",), warn=said.append) == []
    assert said == ["No container runtime on this machine, so the image was not started"]


def test_an_image_without_a_harmless_program_is_not_started(tmp_path: Path) -> None:
    (tmp_path / "apptainer").touch(mode=0o755)
    said: list[str] = []
    assert start_commands({"PATH": str(tmp_path)}, (), warn=said.append) == []
    assert said == [
        "The image was not started: it has neither true nor sh. Give a command of it in sanity_check_commands"
    ]
