"""The verbs of `hpcmod` as tests walk over them: all of them imported."""

from __future__ import annotations

import click


def verbs_of(group: click.Group) -> dict[str, click.Command]:
    """By name: the verbs right below a group, in its order."""
    ctx = click.Context(group)
    found = {name: group.get_command(ctx, name) for name in group.list_commands(ctx)}
    return {name: command for name, command in found.items() if command}
