"""The scripts with which shells complete commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


def completion_script(shell: str) -> str:
    """Return the script for bash, zsh or fish."""
    kind = get_completion_class(shell)
    if kind is None:
        raise ValueError(f"no completion for {shell}")
    script = kind(click.Command("hpcmod"), {}, "hpcmod", "_HPCMOD_COMPLETE").source()
    return script.replace('string split ","', 'string split -m 1 ","')  # in fish: a text may have commas
