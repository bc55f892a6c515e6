"""The command `hpcmod site completion`: print the script that completes commands, options and container names."""

from __future__ import annotations

import click

from hpcmod.core.cli.completion import completion_script
from hpcmod.core.cli.output import print_data


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    \b
    Example:
      hpcmod site completion bash > ~/.local/share/bash-completion/completions/hpcmod
    """
    print_data(completion_script(shell))
