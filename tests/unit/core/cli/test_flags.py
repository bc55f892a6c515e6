from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import get_type_hints

import click
import pytest
from click.testing import CliRunner

from hpcmod.core.cli.flags import nested, with_flags
from tests.calls import all_commands


def flags_of(command: click.Command) -> type | None:
    """Return the dataclass as which a command takes its options, if any."""
    inner = getattr(command.callback, "__wrapped__", None)
    kind = get_type_hints(inner).get("flags") if inner else None
    return kind if is_dataclass(kind) else None


TYPED = [(f"hpcmod {line}", command, kind) for line, command in all_commands() if (kind := flags_of(command))]


def test_commands_with_many_options_take_one_value() -> None:
    assert {f"hpcmod {name}" for name in ("fetch", "publish", "catalogue retire", "job", "launch")} <= {
        line for line, _, _ in TYPED
    }


@pytest.mark.parametrize(("line", "command", "kind"), TYPED, ids=[line for line, _, _ in TYPED])
def test_the_fields_are_the_arguments_and_options_of_the_command(line: str, command: click.Command, kind: type) -> None:
    assert names_of(kind) == {one.name for one in command.params}, line


def names_of(kind: type) -> set[str]:
    """Return the names of the fields, those of a nested dataclass in its place."""
    kinds = {one.name: next(iter(one.metadata.values()), None) for one in fields(kind)}
    return set().union(*(names_of(inner) if inner else {name} for name, inner in kinds.items()))


@dataclass(frozen=True)
class _Size:
    width: int


@dataclass(frozen=True)
class _Flags:
    name: str
    loud: bool
    size: _Size = field(metadata=nested(_Size))


def test_a_command_gets_its_options_as_one_value() -> None:
    @click.command()
    @click.argument("name")
    @click.option("--loud", is_flag=True)
    @click.option("--width", default=80)
    @with_flags(_Flags)
    def greet(flags: _Flags) -> None:
        """Greet."""
        click.echo(f"{flags.name} {flags.loud} {flags.size.width}")

    assert CliRunner().invoke(greet, ["Ada", "--loud"]).stdout == "Ada True 80\n"
    assert greet.help == "Greet."
