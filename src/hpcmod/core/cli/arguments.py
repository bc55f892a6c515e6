"""Options and completion that the commands of several rooms share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from hpcmod.core import resources

Option = Callable[[Callable[..., None]], Callable[..., None]]
"""A decorator that adds an option or an argument to a command."""


def with_options(*options: Option) -> Callable[[Callable[..., None]], Any]:
    """Return a decorator that adds options to a command; the help shows them in this order."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def complete_site(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a shipped profile, or a file path."""
    names = [name for name in sorted(resources.site_profiles()) if name.startswith(incomplete)]
    return [CompletionItem(name) for name in names] or complete_file(_, __, incomplete)


def complete_file(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a file path."""
    return [CompletionItem(incomplete, type="file")]


site_option = click.option(
    "--site",
    metavar="NAME|FILE",
    shell_complete=complete_site,
    help="Name or file of the site profile (default: this machine's).",
)
