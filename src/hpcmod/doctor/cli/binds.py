"""The command `hpcmod site binds`: which paths of this node containers get, and why."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import click

from hpcmod.core.cli.arguments import site_option
from hpcmod.core.cli.output import json_option, print_json, print_table, print_text, terminal_width
from hpcmod.doctor.cli.profiles import find_site
from hpcmod.modules.binds import BindFinding, explain_binds


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
    if as_json:
        print_json(BindList(tuple(map(_decision, found))))
        return
    if explain:
        _explain(found)
        return
    for one in found:
        if one.kept:
            print_text(str(one.bind))


def _explain(found: Sequence[BindFinding]) -> None:
    if terminal_width():
        print_table(("STATE", "BIND", "WHY", "FROM"), map(_explained, found))
        return
    for one in found:  # fields may contain spaces, so tabs separate them for programs
        print_text("\t".join(_explained(one)))


def _explained(one: BindFinding) -> tuple[str, str, str, str]:
    source, place = one.bind.source, one.bind.place
    shown = source if source == place else f"{source} -> {place}"
    return "kept" if one.kept else "dropped", shown, one.why, one.bind.origin


def _decision(found: BindFinding) -> BindDecision:
    bind = found.bind
    return BindDecision(
        source=bind.source,
        destination=bind.place,
        options=bind.options,
        required=bind.required,
        kept=found.kept,
        why=found.why,
        asked=found.asked,
        origin=bind.origin,
    )
