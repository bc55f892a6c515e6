"""The command `hpcmod site completion`: print the script that completes commands, options and container names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from hpcmod.core.cli.output import print_data


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    Example:
      hpcmod site completion bash > ~/.local/share/bash-completion/completions/hpcmod
    """
    kind = get_completion_class(shell)
    if kind:
        script = kind(ctx.find_root().command, {}, "hpcmod", "_HPCMOD_COMPLETE").source()
        print_data(script.replace('string split ","', 'string split -m 1 ","'))  # in fish: a text may have commas
