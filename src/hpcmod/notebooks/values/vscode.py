"""Settings of Visual Studio Code that run Python in a container, merged into the user's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hpcmod.core.errors import BadInputError

FOLDER = ".vscode"
PROGRAM = "hpcmod-python"
"""Program in FOLDER that VS Code uses as its Python interpreter."""

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


def merge_settings(text: str | None, name: str) -> Merged:
    """Add SETTINGS to settings.json.

    Parameters
    ----------
    text
        Content of the file; None if it does not exist.
    name
        Path of the file, for errors.

    Raises
    ------
    BadInputError
        If the file is not plain JSON.
    """
    values = _parse(text, name, dict(SETTINGS))
    new = {key: value for key, value in SETTINGS.items() if key not in values}
    kept = tuple(key for key, value in SETTINGS.items() if values.get(key, value) != value)
    return _merged(text, {**values, **new}, changed=bool(new), kept=kept)


def merge_launch(text: str | None, name: str) -> Merged:
    """Add LAUNCH to launch.json, like `merge_settings`."""
    whole = {"version": "0.2.0", "configurations": [dict(LAUNCH)]}
    values = _parse(text, name, whole)
    configurations = values.get("configurations", [])
    if not isinstance(configurations, list):
        raise BadInputError(f"{name}: `configurations` is not a list", "Correct or remove it.")
    named = [one for one in configurations if isinstance(one, dict) and one.get("name") == LAUNCH["name"]]
    if named:
        kept = () if LAUNCH in named else (f"configuration {LAUNCH['name']!r}",)
        return _merged(text, values, changed=False, kept=kept)
    return _merged(text, {**whole, **values, "configurations": [*configurations, dict(LAUNCH)]}, changed=True)


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


def _merged(text: str | None, values: Mapping[str, Any], *, changed: bool, kept: tuple[str, ...] = ()) -> Merged:
    return Merged(json.dumps(values, indent=4, ensure_ascii=False) + "\n" if changed else text or "", changed, kept)
