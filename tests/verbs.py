"""All subcommands of `hpcmod`, imported, for tests that iterate over them."""

from __future__ import annotations

import click


def verbs_of(group: click.Group) -> dict[str, click.Command]:
    """Return the direct subcommands of a group by name, in its order."""
    ctx = click.Context(group)
    found = {name: group.get_command(ctx, name) for name in group.list_commands(ctx)}
    return {name: command for name, command in found.items() if command}
