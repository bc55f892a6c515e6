"""The command `hpcmod site binds`: which paths of this node containers get, and why."""

from __future__ import annotations

import os
from dataclasses import dataclass

import click

from hpcmod.core.cli.arguments import site_option
from hpcmod.core.cli.output import json_option, print_json, print_table, print_text, tell, terminal_width
from hpcmod.doctor.cli.profiles import find_site
from hpcmod.modules import BindFinding, explain_binds


@dataclass(frozen=True)
class BindDecision:
    """A candidate for a bind, and whether containers get it."""

    source: str
    """With the source that was found, or as requested if nothing was found."""
    destination: str
    """Path in the container."""
    options: str
    required: bool
    kept: bool
    why: str
    """Why it is kept or not."""
    asked: str
    """As written in the profile, or in the variable."""
    origin: str
    """What asked for it."""


@dataclass(frozen=True)
class BindList:
    """The candidates for binds on this node."""

    binds: tuple[BindDecision, ...]


@click.command("binds")
@click.option("--explain", is_flag=True, help="Show for each candidate whether it is kept, why, and what asked for it.")
@site_option
@json_option(BindList)
def binds(explain: bool, site: str | None, as_json: bool) -> None:
    """Print the bind paths of this node, one per line.

    \b
    Examples:
      hpcmod site binds
      hpcmod site binds --explain
      hpcmod site binds --json | jq -r '.binds[] | select(.kept | not) | .asked + ": " + .why'
    """
    found = explain_binds(find_site(site).site.all_binds, os.environ)
    if not (found or as_json):
        tell("the site profile binds nothing, and neither do your variables")
    if as_json:
        print_json(BindList(tuple(map(_decision, found))))
    elif explain and terminal_width():
        print_table(("STATE", "BIND", "WHY", "FROM"), map(_explained, found))
    else:  # fields may contain spaces, so tabs separate them for programs
        rows = map(_explained, found) if explain else ([str(each.bind)] for each in found if each.kept)
        for row in rows:
            print_text("\t".join(row))


def _explained(found: BindFinding) -> tuple[str, str, str, str]:
    source, destination = found.bind.source, found.bind.place
    shown = source if source == destination else f"{source} -> {destination}"
    return "kept" if found.kept else "dropped", shown, found.why, found.bind.origin


def _decision(found: BindFinding) -> BindDecision:
    return BindDecision(
        source=found.bind.source,
        destination=found.bind.place,
        options=found.bind.options,
        required=found.bind.required,
        kept=found.kept,
        why=found.why,
        asked=found.asked,
        origin=found.bind.origin,
    )
