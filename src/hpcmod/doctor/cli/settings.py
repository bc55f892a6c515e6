"""The command `hpcmod site settings`: which variables a profile sets for a run, and why."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import click

from hpcmod.core.cli.arguments import site_option
from hpcmod.core.cli.output import json_option, print_data, print_json, print_text
from hpcmod.core.errors import NotFoundError
from hpcmod.core.values.json_form import SPLICED
from hpcmod.images import Sif
from hpcmod.machine import find_machine
from hpcmod.machine.values.settings import Setting, explain_settings
from hpcmod.modules.values.versions import said_versions


@dataclass(frozen=True)
class SettingOrigin:
    """A setting and where it is from."""

    setting: Setting = field(metadata=SPLICED)
    origin: str
    """File and line of the profile."""


@dataclass(frozen=True)
class RunSettings:
    """Variables of ranks, and why they are set."""

    site: str
    image: Path | None
    nodes: int | None
    """Nodes of the run; null: not given."""
    settings: tuple[SettingOrigin, ...]


@click.command("settings")
@click.argument("name", required=False)
@click.option(
    "--image", type=click.Path(path_type=Path), help="Image of the run (default: $SIF, if NAME is not given)."
)
@click.option("-N", "--nodes", type=click.IntRange(min=1), help="Nodes of the run.")
@site_option
@json_option(RunSettings)
def site_settings(name: str | None, image: Path | None, nodes: int | None, site: str | None, as_json: bool) -> None:
    """Explain the variables that a profile sets for a run.

    Those of NCCL, RCCL, libfabric and others: which, when and why. Sources and dates are comments of the profile, at
    the line printed last.

    \b
    Examples:
      hpcmod site settings frontier
      hpcmod site settings -N 2 --image pytorch.sif
      hpcmod site settings --json | jq -r '.settings[] | select(.verdict == "set") | .name + "=" + .value'
    """
    found = find_machine(None, os.environ, flag=name or site)
    path = image or (Path(os.environ["SIF"]) if os.environ.get("SIF") and not (name or site) else None)
    if path and not path.is_file():
        raise NotFoundError(f"{path}: no such image", "Give one with --image FILE, or leave it out.")
    versions = said_versions(Sif(path).facts()) if path else None
    settings = tuple(explain_settings(found.site.tunables, versions=versions, nodes=nodes or 0))
    if as_json:
        rows = tuple(SettingOrigin(setting, found.origin(f"environment.{setting.name}")) for setting in settings)
        print_json(RunSettings(found.site.name, path, nodes, rows))
        return
    for setting in settings:
        print_data(f"{setting.name}={setting.value}")
        print_text(f"    {_describe(setting)}  [{found.origin(f'environment.{setting.name}')}]")


def _describe(setting: Setting) -> str:
    decided = f"{setting.verdict}, {setting.because}" if setting.because else setting.verdict
    return f"{decided}: {setting.why}" if setting.why else decided
