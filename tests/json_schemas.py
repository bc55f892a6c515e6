"""Validate every JSON output of a command, in whichever test prints it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from hpcmod.cli.main import asks_for_json, main
from hpcmod.cli.reference.commands import every_command, verbs_of

_OUTPUT = {"type": "object", "properties": {"version": {"const": 1}}, "required": ["version"]}
_ERROR = {
    "type": "object",
    "properties": {"code": {"type": "integer"}, "message": {"type": "string"}, "cure": {"type": "string"}},
    "required": ["code", "message", "cure"],
    "additionalProperties": False,
}


def commands_with_json() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command that has --json, with its words after `hpcmod`."""
    for words, command in every_command():
        if any(parameter.name == "as_json" for parameter in command.params):
            yield words, command


def fault_of(value: Any) -> str:
    """Return where the JSON output of a command violates its schema; empty if it is valid."""
    properties = {**_OUTPUT["properties"], **({"error": _ERROR} if "error" in value else {})}
    fault = best_match(Draft202012Validator({**_OUTPUT, "properties": properties}).iter_errors(value))
    return f"{fault.json_path}: {fault.message[:300]}" if fault else ""


@cache
def paths_of_commands() -> dict[int, tuple[str, ...]]:
    """Return the words of every command that has --json, by the identity of the command, which lives forever."""
    return {id(one): path for path, one in commands_with_json()}


def called_command(command: click.Command, words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of the called command if it has --json, else an empty tuple."""
    left = list(words)
    while isinstance(command, click.Group):
        while left and left[0].startswith("-"):
            left.pop(0)
        below = verbs_of(command).get(left.pop(0)) if left else None
        if below is None:
            break  # an option of the group itself, or an unknown command
        command = below
    return paths_of_commands().get(id(command), ())


def check_output(command: click.Command, words: Sequence[str], text: str) -> None:
    """Fail the test if a command run with --json printed anything that its schema does not allow."""
    if "--json" not in words or not text or not asks_for_json(command, words):
        return
    path = called_command(command, words)
    fault = fault_of(json.loads(text)) if path else ""
    if fault:
        pytest.fail(f"hpcmod {' '.join(words)}\n{fault}", pytrace=False)


def check_all_outputs(patch: pytest.MonkeyPatch) -> None:
    """Check commands that tests run in this process, and every `hpcmod` process that they start."""
    invoke, run = CliRunner.invoke, subprocess.run

    @wraps(invoke)
    def checked_invoke(self: CliRunner, cli: click.Command, args: Any = None, *rest: Any, **more: Any) -> Result:
        result = invoke(self, cli, args, *rest, **more)
        words = args.split() if isinstance(args, str) else [str(one) for one in args or ()]
        check_output(cli, words, result.stdout)
        return result

    @wraps(run)
    def checked_run(argv: Any, *rest: Any, **more: Any) -> Any:
        done = run(argv, *rest, **more)
        if isinstance(argv, (list, tuple)) and isinstance(done.stdout, str) and Path(str(argv[0])).name == "hpcmod":
            check_output(main, [str(one) for one in argv[1:]], done.stdout)
        return done

    patch.setattr(CliRunner, "invoke", checked_invoke)
    patch.setattr(subprocess, "run", checked_run)
