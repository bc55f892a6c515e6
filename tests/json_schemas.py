"""Validate every JSON output of a command against its schema, in whichever test prints it.

`docs/reference/schemas` has one file for each command with --json, and one for errors. A field that is not in the
schema fails the test, so every new field must be added there.
"""

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
from tests.verbs import verbs_of

SCHEMAS = Path(__file__).resolve().parent.parent / "docs" / "reference" / "schemas"


def commands_with_json(command: click.Command = main, *words: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command that has --json, with its words after `hpcmod`."""
    if any(one.name == "as_json" for one in command.params):
        yield words, command
    if isinstance(command, click.Group):
        for name, below in verbs_of(command).items():
            yield from commands_with_json(below, *words, name)


def schema_name(words: Sequence[str]) -> str:
    return "-".join(words)


@cache
def validator(name: str) -> Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def fault_of(name: str, value: Any) -> str:
    """Return where a JSON value violates the schema of a command; empty if it is valid."""
    name = "error" if isinstance(value, dict) and set(value) == {"version", "error"} else name
    fault = best_match(validator(name).iter_errors(value))
    return f"{name}.json: {fault.json_path}: {fault.message[:300]}" if fault else ""


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
    fault = fault_of(schema_name(path), json.loads(text)) if path else ""
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
