"""The command `hpcmod catalogue usage`: how often modules were loaded, by container, group and month."""

from __future__ import annotations

import grp
import os
import pwd
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import click

from hpcmod.catalogue.change import changing
from hpcmod.catalogue.cli.options import catalogue_option, make_actor, open_catalogues
from hpcmod.catalogue.storage.usage import fold, read_counts
from hpcmod.catalogue.values.usage import Count, add_up
from hpcmod.core.cli.flags import with_flags
from hpcmod.core.cli.output import json_option, print_json, print_table, tell
from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.machine import load_site


@dataclass(frozen=True)
class Usage:
    """How often a module was loaded."""

    module: str
    month: str
    """YYYY-MM; empty: earlier."""
    group: str
    user: str
    last: str
    """Day of the last load."""
    loads: int


@dataclass(frozen=True)
class UsageList:
    """How often modules were loaded."""

    usage: tuple[Usage, ...]


@dataclass(frozen=True)
class UsageFlags:
    """Argument and options of `hpcmod catalogue usage`."""

    name: str
    month: datetime | None
    groups: bool
    users: bool
    add: bool
    directory: Path | None
    as_json: bool


@click.command()
@click.argument("name", metavar="[NAME[/VERSION]]", default="")
@click.option("--month", type=click.DateTime(["%Y-%m"]), metavar="YYYY-MM", help="Month to show (default: all).")
@click.option("--groups", is_flag=True, help="One line per group of users.")
@click.option("--users", is_flag=True, help="One line per user, if the site profile allows it.")
@click.option("--fold", "add", is_flag=True, help="First replace the records of single loads with totals.")
@catalogue_option
@json_option(UsageList)
@with_flags(UsageFlags)
def usage(flags: UsageFlags) -> None:
    """Show how often modules were loaded, by container and month, and optionally by group or user.

    Loads are counted from `hpcmod catalogue init --count-use` on. User names are shown only if the site profile sets
    `names = "users"` in `[usage]`.

    \b
    Examples:
      hpcmod catalogue usage
      hpcmod catalogue usage PyTorch --groups --month 2027-01
      hpcmod catalogue usage --fold --json      # once a week, by cron
    """
    catalogue = open_catalogues(flags.directory)[0]
    allowed = load_site(None, os.environ).module.usage.names == "users"
    if flags.users and not allowed:
        raise BadInputError(
            "the site profile does not allow user names",
            'To allow them, set names = "users" in [usage] of the profile.',
        )
    if not catalogue.counts_use:
        tell(f"loads are not counted; to count them: hpcmod catalogue init --count-use {catalogue.directory}")
    if flags.add and catalogue.loads.is_dir():
        with changing(catalogue, make_actor()):
            fold(catalogue, keep_users=allowed)
    by_group = flags.groups or flags.users

    def key(count: Count) -> Count:
        return replace(count, group=count.group if by_group else "", user=count.user if flags.users else "")

    rows = tuple(
        Usage(count.module, count.month, _group(count.group), _user(count.user), _day(count.last), count.loads)
        for count in add_up(read_counts(catalogue), key)
        if f"{count.module}/".startswith(f"{flags.name}/" if flags.name else "")
        and (not flags.month or count.month == f"{flags.month:%Y-%m}")
    )
    name, _, version = flags.name.partition("/")
    if not rows and ((name and not catalogue.versions(name)) or (version and not catalogue.find(name, version))):
        raise NotFoundError(f"{flags.name} is not in the catalogue {catalogue.directory}", "See: hpcmod ls")
    if flags.as_json:
        print_json(UsageList(rows))
    elif not rows:
        tell("no loads counted")
    else:
        columns = ["module", "month", *["group"] * by_group, *["user"] * flags.users, "loads", "last"]
        print_table(
            ["CONTAINER", *(name.upper() for name in columns[1:])],
            ([str(getattr(row, name) or "-") for name in columns] for row in rows),
        )


def _group(number: str) -> str:
    with suppress(KeyError, ValueError):
        return grp.getgrgid(int(number)).gr_name
    return number


def _user(number: str) -> str:
    with suppress(KeyError, ValueError):
        return pwd.getpwuid(int(number)).pw_name
    return number


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))
