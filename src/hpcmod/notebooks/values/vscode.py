"""What Visual Studio Code needs to run Python in a container: a program, and settings merged into the user's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hpcmod.core.errors import BadInputError
from hpcmod.core.text.quote import sh_comment, sh_word

FOLDER = ".vscode"
PROGRAM = "hpcmod-python"
"""Program in FOLDER that VS Code uses as its Python interpreter."""

MARK = "Written by `hpcmod code`"
"""Text in the second line of the program."""

_INTERPRETER = "${workspaceFolder}/" + f"{FOLDER}/{PROGRAM}"

SETTINGS: Mapping[str, Any] = {
    "python.defaultInterpreterPath": _INTERPRETER,
    "python.terminal.activateEnvironment": False,  # the interpreter is not in an environment that can be activated
}
"""Keys for settings.json."""

LAUNCH: Mapping[str, Any] = {
    "name": "Python in the container",
    "type": "debugpy",
    "request": "launch",
    "program": "${file}",
    "console": "integratedTerminal",
    "python": _INTERPRETER,
}
"""Entry for `configurations` in launch.json."""


@dataclass(frozen=True)
class Merged:
    """A file of VS Code with our entries."""

    text: str
    changed: bool
    kept: tuple[str, ...] = ()
    """Keys for which the user has another value, which stays."""


def render_python(program: str, module: str) -> str:
    """Return a bash program that runs Python in a container, and plain Python if it is called in a container.

    `program`: Path of the installation's `in-environment`.
    """
    words = " ".join(map(sh_word, (program, "exec", "--", "python")))
    return (
        "#!/bin/bash\n"
        f"# Python of the container module {sh_comment(module)}. {MARK}.\n"
        '[[ ! -d /.singularity.d ]] || exec python "$@" # a debugger in the container starts the program to debug\n'
        f'exec {words} "$@"\n'
    )


def merge_settings(text: str | None, name: str) -> Merged:
    """Add SETTINGS to settings.json.

    `text`: Content of the file; None if it does not exist.
    `name`: Path of the file, for errors.

    Raises BadInputError if the file is not plain JSON.
    """
    values = _parse(text, name, SETTINGS)
    new = {key: value for key, value in SETTINGS.items() if key not in values}
    kept = tuple(key for key, value in SETTINGS.items() if values.get(key, value) != value)
    return _merged(text, {**values, **new} if new else None, kept)


def merge_launch(text: str | None, name: str) -> Merged:
    """Add LAUNCH to launch.json, like `merge_settings`."""
    whole = {"version": "0.2.0", "configurations": [LAUNCH]}
    values = _parse(text, name, whole)
    configurations = values.get("configurations", [])
    if not isinstance(configurations, list):
        raise BadInputError(f"{name}: `configurations` is not a list", "Correct or remove it.")
    if not any(isinstance(each, dict) and each.get("name") == LAUNCH["name"] for each in configurations):
        return _merged(text, {**whole, **values, "configurations": [*configurations, LAUNCH]})
    return _merged(text, None, () if LAUNCH in configurations else (f"configuration {LAUNCH['name']!r}",))


def _parse(text: str | None, name: str, ours: Mapping[str, Any]) -> dict[str, Any]:
    if text is None or not text.strip():
        return {}
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as err:
        raise BadInputError(
            f"{name} is not plain JSON, probably because of comments, which would be lost: {err}",
            f"Add this to it yourself:\n{json.dumps(ours, indent=2)}",
        ) from err
    if not isinstance(values, dict):
        raise BadInputError(f"{name} is not a JSON object", "Correct or remove it.")
    return values


def _merged(text: str | None, new: Mapping[str, Any] | None, kept: tuple[str, ...] = ()) -> Merged:
    """Return a file with new values; None: it stays as it is."""
    if new is None:
        return Merged(text or "", False, kept)
    return Merged(json.dumps(new, indent=4, ensure_ascii=False) + "\n", True, kept)
