"""The command `hpcmod catalogue`: everything about a catalogue, except publishing."""

from __future__ import annotations

import click

from hpcmod.core.cli.groups import LazyGroup


@click.group("catalogue", cls=LazyGroup, headings={"Commands": "hpcmod catalogue"})
def catalogue_verb() -> None:
    """Create and maintain a catalogue."""
