"""Shared by the commands for a user's packages: options, the container, the set, and the tools of this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import click

from hpcmod.catalogue import Here, container_argument, find_ready, look_around
from hpcmod.core.cli.arguments import Option, site_option, with_options
from hpcmod.core.cli.output import json_option, tell
from hpcmod.core.errors import BadInputError
from hpcmod.core.text.quote import sh_word
from hpcmod.modules import Installed
from hpcmod.modules.values.install_record import PACKED, USER_SOFTWARE
from hpcmod.modules.values.place import (
    CHOICE_VARIABLE,
    DEFAULT_SET,
    DIRECTORY_VARIABLE,
    SetChoice,
    check_set_name,
    parse_choice,
)
from hpcmod.packages.changing import read_target
from hpcmod.packages.sets import PackageSet, open_set
from hpcmod.packages.values.plan import PackageTarget


def package_options(*outputs: type) -> Option:
    """Add the argument and options that all commands for packages share; with --json they print one of some values."""
    return with_options(container_argument, set_options(*outputs))


def set_options(*outputs: type) -> Option:
    """Add the options that choose a set, and --json."""
    return with_options(
        click.option(
            "--set",
            "set_name",
            metavar="NAME",
            help=f"Set of packages (default: ${CHOICE_VARIABLE}, else `{DEFAULT_SET}`).",
        ),
        click.option(
            "--shared",
            type=click.Path(path_type=Path),
            metavar="DIRECTORY",
            help="Directory of a set that a project shares; its permissions decide who may change it.",
        ),
        site_option,
        json_option(*outputs),
    )


@dataclass(frozen=True)
class SetFlags:
    """Options of `package_options`."""

    container: str
    set_name: str | None
    shared: Path | None
    site: str | None
    as_json: bool


@dataclass(frozen=True)
class OwnSet:
    """A container and a set of packages for it."""

    here: Here
    installed: Installed
    target: PackageTarget
    set: PackageSet

    @property
    def name(self) -> str:
        """Return the name of the container."""
        return self.target.place.name


def find_set(flags: SetFlags, *, even_retired: bool = False) -> OwnSet:
    """Return a container and its set, which may not exist yet.

    `even_retired`: Also of a container that no longer loads.

    Raises HpcmodError if the container is not installed, or cannot have packages.
    """
    here = look_around(flags.site)
    installed = find_ready(here, flags.container, even_retired=even_retired)
    target = read_target(installed)
    chosen = choose_set(flags.set_name, flags.shared)
    own_set = replace(open_set(target.place.name, chosen, os.environ), typed=flags.container)
    return OwnSet(here, installed, target, own_set)


def choose_set(set_name: str | None, shared: Path | None) -> SetChoice:
    """Return the set that the options ask for; by default the one that modules use.

    Raises BadInputError if the name of a set is not valid.
    """
    if set_name:
        return SetChoice(check_set_name(set_name))
    if shared:
        return SetChoice("", str(shared.absolute()))
    chosen = parse_choice(os.environ.get(CHOICE_VARIABLE, ""))
    return SetChoice(chosen.name, chosen.directory) if chosen else SetChoice(DEFAULT_SET)


def choose_data(own: OwnSet, prefix: Path | None) -> Path | None:
    """Return the directory for the data of a new set; None for the directory where modules look.

    The site profile's directories for images come before the home directory, whose quota is small.

    Raises BadInputError if there are several.
    """
    from hpcmod.modules import own_prefixes

    chosen = own.set.choice
    if chosen.directory or (own.set.exists and not prefix):
        return None
    if prefix:
        return prefix.absolute() / "packages" / own.name / chosen.name
    if os.environ.get(DIRECTORY_VARIABLE, "").startswith("/"):
        return None
    prefixes = list(dict.fromkeys(top.parent / "hpcmod" for top in own_prefixes(own.here.site, os.environ)))
    if len(prefixes) > 1:
        listed = "\n".join(f"  {directory}" for directory in prefixes)
        raise BadInputError(
            f"your packages could go to several directories:\n{listed}", f"Choose one: --prefix {prefixes[0]}"
        )
    return prefixes[0] / "packages" / own.name / chosen.name if prefixes else None


def tell_hidden(own: OwnSet) -> None:
    """Tell that a set hides packages that were installed next to the image, and how to take them over."""
    from hpcmod.modules import has_additions, is_shipped  # slow to import, and `undo` does not need it

    root, module = own.installed.root, sh_word(own.target.module)
    paths = (root / PACKED, root / USER_SOFTWARE)
    hidden = next((path for path in paths if path.exists() and has_additions(path)), None)
    if hidden:
        origin = "of the easyconfig, in" if is_shipped(hidden) else "installed by hand in"
        tell(
            f"hidden while these packages are active: those {origin} {hidden}; to take them over: "
            f"{CHOICE_VARIABLE}=none hpcmod exec {module} python -m pip freeze --local > frozen.txt; "
            f"hpcmod add {module} --from frozen.txt"
        )


def tell_loaded(own: OwnSet, *, is_first: bool) -> None:
    """Print how to make the packages active, unless they already are."""
    loaded = os.environ.get("_HPCMOD_CONTAINER", "").rpartition(" ")[2]
    if is_first and loaded == own.target.module:
        tell(f"to use them in this shell: module load {own.target.module}")
    chosen = os.environ.get(CHOICE_VARIABLE, "")
    if own.set.choice.shown not in (chosen.rpartition("@")[0] or chosen or DEFAULT_SET, chosen):
        tell(f"to use this set: export {CHOICE_VARIABLE}={own.set.choice.shown}")
