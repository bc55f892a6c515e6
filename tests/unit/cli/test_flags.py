from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import get_type_hints

import click
import pytest
from click.testing import CliRunner

from hpcmod.cli.flags import with_flags
from hpcmod.cli.main import main
from hpcmod.cli.reference.commands import verbs_of


def typed_commands(command: click.Command = main, line: str = "hpcmod") -> list[tuple[str, click.Command, type]]:
    """Return the commands that take their options as a dataclass: command line, command, and dataclass."""
    if isinstance(command, click.Group):
        return [found for name, one in verbs_of(command).items() for found in typed_commands(one, f"{line} {name}")]
    inner = getattr(command.callback, "__wrapped__", None)
    hints = get_type_hints(inner) if inner else {}
    kind = hints.get("flags")
    return [(line, command, kind)] if kind is not None and is_dataclass(kind) else []


TYPED = typed_commands()


def test_commands_with_many_options_take_one_value() -> None:
    assert {f"hpcmod {name}" for name in ("fetch", "build", "publish", "catalogue retire", "job", "launch")} <= {
        line for line, _, _ in TYPED
    }


@pytest.mark.parametrize(("line", "command", "kind"), TYPED, ids=[line for line, _, _ in TYPED])
def test_the_fields_are_the_arguments_and_options_of_the_command(line: str, command: click.Command, kind: type) -> None:
    assert {one.name for one in fields(kind)} == {one.name for one in command.params}, line


@dataclass(frozen=True)
class _Flags:
    name: str
    loud: bool


def test_a_command_gets_its_options_as_one_value() -> None:
    @click.command()
    @click.argument("name")
    @click.option("--loud", is_flag=True)
    @with_flags(_Flags)
    def greet(flags: _Flags) -> None:
        """Greet."""
        click.echo(f"{flags.name} {flags.loud}")

    assert CliRunner().invoke(greet, ["Ada", "--loud"]).stdout == "Ada True\n"
    assert greet.help == "Greet."
