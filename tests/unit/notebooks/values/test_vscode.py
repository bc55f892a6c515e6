from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.notebooks.values.vscode import LAUNCH, MARK, SETTINGS, merge_launch, merge_settings, render_python
from tests.programs import make_program


def test_new_files_get_our_entries() -> None:
    assert json.loads(merge_settings(None, "settings.json").text) == SETTINGS
    assert json.loads(merge_launch(None, "launch.json").text) == {"version": "0.2.0", "configurations": [LAUNCH]}


def test_entries_of_the_user_stay_and_are_reported() -> None:
    mine = {"python.defaultInterpreterPath": "/usr/bin/python3", "editor.tabSize": 2}
    merged = merge_settings(json.dumps(mine), "settings.json")
    assert json.loads(merged.text) == {**mine, "python.terminal.activateEnvironment": False}
    assert merged.kept == ("python.defaultInterpreterPath",)
    other = {"name": "Mine", "type": "debugpy"}
    launch = merge_launch(json.dumps({"configurations": [other], "compounds": []}), "launch.json")
    assert json.loads(launch.text) == {"version": "0.2.0", "configurations": [other, LAUNCH], "compounds": []}
    changed = json.dumps({"configurations": [{**LAUNCH, "args": ["--epochs", "3"]}]})
    again = merge_launch(changed, "launch.json")
    assert (again.text, again.changed, again.kept) == (changed, False, ("configuration 'Python in the container'",))


def test_a_second_time_changes_nothing() -> None:
    for merge in (merge_settings, merge_launch):
        first = merge(None, "x.json")
        again = merge(first.text, "x.json")
        assert (again.text, again.changed, again.kept) == (first.text, False, ())


@pytest.mark.parametrize("text", ['{"a": 1, // mine\n}', "[]", '{"configurations": {}}'])
def test_files_that_cannot_be_merged_are_refused(text: str) -> None:
    with pytest.raises(BadInputError, match=r"launch\.json") as caught:
        merge_launch(text, "launch.json")
    assert "//" not in text or '"debugpy"' in caught.value.cure


def test_empty_files_are_filled() -> None:
    assert merge_settings(" \n", "settings.json").changed


def test_the_interpreter_passes_its_arguments_to_python_in_the_container(tmp_path: Path) -> None:
    program = make_program(tmp_path / "it's here" / "in-environment", '#!/bin/bash\nprintf "%s\\n" "$@"\n')
    text = render_python(str(program), "Toy/1.0")
    assert MARK in text.splitlines()[1]
    done = subprocess.run(
        ["bash", "-c", text, "python", "-c", "print('a b')"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["exec", "--", "python", "-c", "print('a b')"]
