"""Run hpcmod as a command, in this process."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import click
from click.testing import CliRunner, Result

from hpcmod.core.cli.main import main
from hpcmod.core.cli.reference.commands import verbs_of


def all_commands(group: click.Group = main, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Return the words and the object of each command; a group comes before its commands."""
    for name, command in verbs_of(group).items():
        yield f"{before}{name}", command
        if isinstance(command, click.Group):
            yield from all_commands(command, f"{before}{name} ")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def hpcmod(*words: object, answer: str = "", **environ: str) -> Result:
    """Return the result of a command line; variables are added to those of this process.

    `answer`: Standard input.
    """
    return CliRunner(env=environ).invoke(main, [str(word) for word in words], input=answer)


def must(*words: object, **environ: str) -> str:
    """Return what a command prints that must succeed."""
    done = hpcmod(*words, **environ)
    assert done.exit_code == 0, done.output
    return done.stdout


def data(*words: object, **environ: str) -> Any:
    """Return what a command prints with --json."""
    return json.loads(must(*words, "--json", **environ))
