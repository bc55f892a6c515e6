"""The command `hpcmod site use`: remember the profile of this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import click

from hpcmod.core.cli.arguments import complete_site
from hpcmod.core.cli.output import json_option, print_json, tell
from hpcmod.core.errors import BadInputError
from hpcmod.core.fs.reading import UnusableFileError, read_text
from hpcmod.core.fs.tree import write_file
from hpcmod.core.text.toml import render_toml
from hpcmod.machine import find_machine, own_profile

_MARK = "# Written by `hpcmod site use`; remove this file to have the machine detected again.\n"
_LIMIT = 1 << 20  # bytes of a site profile


@dataclass(frozen=True)
class UsedProfile:
    """The profile that is used here from now on."""

    site: str
    file: Path
    """The file that says so."""


@click.command("use")
@click.argument("name", shell_complete=complete_site)
@json_option(UsedProfile)
def site_use(name: str, as_json: bool) -> None:
    """Use a profile on this machine from now on.

    Most machines are detected. For the others, this writes `~/.config/hpcmod/site.toml`, which every later command
    reads. `--site` and HPCMOD_SITE still come first, and so does the profile that an installation was made for.

    \b
    Examples:
      hpcmod site use polaris
      hpcmod site use ./ours.toml
    """
    found = find_machine(None, os.environ, flag=name).site
    path = own_profile(os.environ)
    try:
        if path.exists() and not read_text(path, _LIMIT, errors="replace").startswith(_MARK):
            raise BadInputError(f"{path} exists: it is a profile of your own", "Move it away, or edit it.")
    except UnusableFileError as err:
        raise BadInputError(f"{path}: {err.strerror}", "Move it away.") from err
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, _MARK + render_toml({"name": found.name, "extends": found.profile}))
    if as_json:
        print_json(UsedProfile(found.name, path))
    else:
        tell(f"{found.name} is used from now on: {path}")
    if os.environ.get("HPCMOD_SITE"):
        tell(f"in this shell, HPCMOD_SITE={os.environ['HPCMOD_SITE']} still comes first: unset HPCMOD_SITE")
