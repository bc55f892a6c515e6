"""The command `hpcmod site binds`: which paths of this node containers get, and why."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from hpcmod.check.binds import BindFinding, explain_binds
from hpcmod.cli.containers import json_option
from hpcmod.cli.machine.profiles import find_site, site_option
from hpcmod.cli.output import print_json, print_table, print_text, terminal_width


@click.command("binds")
@click.option("--explain", is_flag=True, help="Show for each candidate whether it is kept, why, and what asked for it.")
@site_option
@json_option
def binds(explain: bool, flag: str | None, as_json: bool) -> None:
    """Print the bind paths of this node, one per line.

    \b
    Examples:
      hpcmod site binds
      hpcmod site binds --explain
      hpcmod site binds --json | jq -r '.binds[] | select(.kept | not) | .asked + ": " + .why'
    """
    found = explain_binds(find_site(flag).site.all_binds, os.environ)
    if as_json:
        print_json(binds=[_bind_row(one) for one in found])
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


def _bind_row(one: BindFinding) -> dict[str, Any]:
    return {
        "source": one.bind.source,
        "destination": one.bind.place,
        "options": one.bind.options,
        "required": one.bind.required,
        "kept": one.kept,
        "why": one.why,
        "asked": one.asked,
        "origin": one.bind.origin,
    }
