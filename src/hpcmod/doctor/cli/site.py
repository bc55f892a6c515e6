"""The command `hpcmod site`: everything about the machine and its profile."""

from __future__ import annotations

import click

from hpcmod.core.cli.groups import LazyGroup


@click.group("site", cls=LazyGroup, headings={"Commands": "hpcmod site"})
def site() -> None:
    """Show and check site profiles, and what they mean on this node.

    \b
    Examples:
      hpcmod site show lumi
      hpcmod site show --origin     # this machine's profile, with the line that sets each value
      hpcmod site check             # compare it with this node
      hpcmod site new -o ours.toml  # a profile of this machine, from what it says about itself
      hpcmod site binds --explain   # the bind paths of this node, and why
    """
