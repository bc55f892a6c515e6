"""Groups of commands: import each command when it is called, and answer words that are not commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import IO, Any

import click
from click.shell_completion import CompletionItem

from hpcmod.core.cli.output import print_message, print_text
from hpcmod.core.registry import Commands, commands_of, find_command, load


class UnknownCommandError(click.UsageError):
    """A word that is not a command, with the command that was probably meant."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message on stderr, without the usage, which does not help here."""
        print_message(f"hpcmod: {self.message}")


class CommandGroup(click.Group):
    """A group that answers `help`, and words that are not its commands."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; `help COMMAND` is `COMMAND --help`.

        Raises UnknownCommandError if the word is not a command; its message names the right one if it is known.
        """
        if args[0] == "help" and self.get_command(ctx, "help") is None:
            if not args[1:]:
                print_text(ctx.get_help())
                ctx.exit()
            return self.resolve_command(ctx, [*args[1:], "--help"])
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as fault:
            if args[0].startswith("-"):
                raise
            from hpcmod.core.cli.words import answer  # few command lines are wrong

            group = ctx.command_path.split()[1:]
            message = f"unknown command: {' '.join([*group, args[0]])}. {answer(group, args, self.list_commands(ctx))}"
            raise UnknownCommandError(message, ctx) from fault


class LazyGroup(CommandGroup):
    """A group whose commands the rooms name: each is imported when it is called, because some are slow to import."""

    def __init__(self, *args: Any, headings: Mapping[str, str], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.headings = headings
        """By heading of the help, the one in the rooms."""

    @property
    def tables(self) -> dict[str, Commands]:
        """All commands by heading of the help, without headings that have none."""
        tables = {shown: commands_of(heading) for shown, heading in self.headings.items()}
        return {shown: table for shown, table in tables.items() if table}

    def _rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield name, module and attribute, and help of every command, in the order of the tables."""
        for table in self.tables.values():
            yield from ((name, place, text) for name, (place, text) in table.items())

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the tables."""
        return [name for name, _, _ in self._rows()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is none of this name."""
        place = find_command(set(self.headings.values()), cmd_name)
        command: click.Command | None = load(place) if place else None
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands below their headings, without importing them."""
        width = max(len(name) for name, _, _ in self._rows())
        for heading, table in self.tables.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, (_, text) in table.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands and options, without importing the commands."""
        commands = [CompletionItem(name, help=text) for name, _, text in self._rows() if name.startswith(incomplete)]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]
