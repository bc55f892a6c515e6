"""Run hpcmod as a command, in this process."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from hpcmod.cli.main import main


def hpcmod(*words: object, answer: str = "", **environ: str) -> Result:
    """Return the result of a command line; variables are added to those of this process.

    Parameters
    ----------
    answer
        Standard input.
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
