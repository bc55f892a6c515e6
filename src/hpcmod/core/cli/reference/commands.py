"""Parts of which the reference is made: the commands, the blocks of their help texts, their options."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

import click

from hpcmod.core import errors
from hpcmod.core.cli.main import main


def verbs_of(group: click.Group) -> dict[str, click.Command]:
    """Return the direct subcommands of a group by name, in its order."""
    ctx = click.Context(group)
    commands = {name: group.get_command(ctx, name) for name in group.list_commands(ctx)}
    return {name: command for name, command in commands.items() if command}


def every_command(command: click.Command = main, *words: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield a command and all below it, each with its words after `hpcmod`."""
    yield words, command
    if isinstance(command, click.Group):
        for name, below in verbs_of(command).items():
            yield from every_command(below, *words, name)


def synopsis(command: click.Command) -> str:
    """Return the usage of a command without its name: its options and arguments."""
    # with the settings of main, because click caches the help option when it is first requested
    return " ".join(command.collect_usage_pieces(click.Context(command, **main.context_settings)))


@dataclass(frozen=True)
class Block:
    """A paragraph of a help text, or lines that keep their breaks below a label such as "Examples:"."""

    text: str = ""
    label: str = ""
    lines: tuple[str, ...] = ()

    @property
    def is_example(self) -> bool:
        """Return whether the lines are calls of the command."""
        return self.label.startswith("Example")


def help_blocks(command: click.Command) -> list[Block]:
    """Return the blocks of a command's help; the first is its summary."""
    return [_parse_block(block) for block in inspect.cleandoc(command.help or "").split("\n\n")]


def _parse_block(block: str) -> Block:
    if not block.startswith("\b\n"):  # click's sign for text that it must not wrap
        return Block(" ".join(block.split()))
    label, *lines = block.splitlines()[1:]
    return Block(label=label, lines=tuple(textwrap.dedent("\n".join(lines)).splitlines()))


def options_of(command: click.Command) -> list[click.Option]:
    """Return the options of a command."""
    return [parameter for parameter in command.params if isinstance(parameter, click.Option)]


def names_of(option: click.Option) -> tuple[str, ...]:
    """Return the names of an option, then those of its opposite."""
    return (*option.opts, *option.secondary_opts)


def value_of(option: click.Option) -> str:
    """Return the placeholder of an option's value; empty if it takes none."""
    return "" if option.is_flag or option.count else option.metavar or (option.name or "").upper()


def help_of(option: click.Option) -> str:
    """Return the help of an option as one line."""
    return " ".join((option.help or "").split())


def exit_codes() -> list[tuple[str, str]]:
    """Return the exit codes and their meanings, from the docstring of `errors`, the only list of them."""
    return re.findall(r"^(\d+) +(.+)$", errors.__doc__ or "", re.MULTILINE)
