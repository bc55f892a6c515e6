"""Validate every JSON output of a command against its schema, in whichever test prints it, and TOML files.

The schemas of outputs are those of the dataclasses that a command declares; a field that is in none of them fails the
test.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft7Validator, Draft202012Validator
from jsonschema.exceptions import best_match

from hpcmod.core.cli.main import asks_for_json, main
from hpcmod.core.cli.output import CommandFailure
from hpcmod.core.cli.reference.schemas import file_schemas, make_schema, outputs_of
from hpcmod.core.errors import BadInputError
from hpcmod.core.values.documents import load_toml


@cache
def validator(outputs: tuple[type, ...]) -> Draft202012Validator:
    """Return the validator for one of some dataclasses."""
    return Draft202012Validator(make_schema("", outputs))


def fault_of(outputs: tuple[type, ...], value: Any) -> str:
    """Return where a JSON output is none of some dataclasses; empty if it is one."""
    if set(value) == {"version", "error"}:
        outputs = (CommandFailure,)
    fault = best_match(validator(outputs).iter_errors(value))
    return f"{fault.json_path}: {fault.message[:300]}" if fault else ""


def fits_schema(kind: str, text: str) -> bool:
    """Return whether an editor would accept a file: `site-profile`, `advisory` or `recipe`."""
    try:
        tree = json.loads(json.dumps(load_toml(text, kind), default=str))  # as editors do, with dates as strings
    except BadInputError:
        return False
    return _file_validator(kind).is_valid(tree)


@cache
def _file_validator(kind: str) -> Draft7Validator:
    schema = json.loads(json.dumps(file_schemas()[f"{kind}.json"]))
    Draft7Validator.check_schema(schema)
    return Draft7Validator(schema)


def called_command(command: click.Command, words: Sequence[str]) -> click.Command:
    """Return the command that is called, or the group in which it is unknown."""
    left = list(words)
    while isinstance(command, click.Group):
        while left and left[0].startswith("-"):
            left.pop(0)
        below = command.get_command(click.Context(command), left.pop(0)) if left else None
        if below is None:
            break  # an option of the group itself, or an unknown command
        command = below
    return command


def check_output(command: click.Command, words: Sequence[str], text: str) -> None:
    """Fail the test if a command run with --json printed anything that its schema does not allow."""
    if "--json" not in words or not text or not asks_for_json(command, words):
        return
    outputs = outputs_of(called_command(command, words))
    fault = fault_of(outputs, json.loads(text)) if outputs else ""  # each command with --json declares its outputs
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
