"""The command `hpcmod catalogue`: everything about a catalogue, except publishing."""

from __future__ import annotations

import click

from hpcmod.core.cli.groups import LazyGroup
from hpcmod.core.cli.verbs import commands_below


@click.group("catalogue", cls=LazyGroup, tables={"Commands": commands_below("catalogue")})
def catalogue_verb() -> None:
    """Create and maintain a catalogue."""
