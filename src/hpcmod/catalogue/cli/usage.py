"""The command `hpcmod catalogue usage`: how often modules were loaded, by container, group and month."""

from __future__ import annotations

import grp
import os
import pwd
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import click

from hpcmod.catalogue.change import changing
from hpcmod.catalogue.cli.options import catalogue_option, make_actor, open_catalogues
from hpcmod.catalogue.storage.usage import fold, read_counts
from hpcmod.catalogue.values.usage import Count, add_up
from hpcmod.core.cli.output import json_option, print_json, print_text, tell
from hpcmod.core.errors import BadInputError
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


@click.command()
@click.argument("name", metavar="[NAME[/VERSION]]", default="")
@click.option("--month", default="", metavar="YYYY-MM", help="Month to show (default: all).")
@click.option("--groups", is_flag=True, help="One line per group of users.")
@click.option("--users", is_flag=True, help="One line per user, if the site profile allows it.")
@click.option("--fold", "add", is_flag=True, help="First replace the records of single loads with totals.")
@catalogue_option
@json_option(UsageList)
def usage(name: str, month: str, groups: bool, users: bool, add: bool, directory: Path | None, as_json: bool) -> None:
    """Show how often modules were loaded, by container and month, and optionally by group or user.

    Loads are counted from `hpcmod catalogue init --count-use` on. User names are shown only if the site profile sets
    `names = "users"` in `[usage]`.

    \b
    Examples:
      hpcmod catalogue usage
      hpcmod catalogue usage PyTorch --groups --month 2027-01
      hpcmod catalogue usage --fold --json      # once a week, by cron
    """
    catalogue = open_catalogues(directory)[0]
    allowed = load_site(None, os.environ).usage.names == "users"
    if users and not allowed:
        raise BadInputError(
            "the site profile does not allow user names",
            'To allow them, set names = "users" in [usage] of the profile.',
        )
    if not catalogue.counts_use:
        tell(f"loads are not counted; to count them: hpcmod catalogue init --count-use {catalogue.directory}")
    if add and catalogue.loads.is_dir():
        with changing(catalogue, make_actor()):
            fold(catalogue, keep_users=allowed)

    def key(count: Count) -> Count:
        return replace(count, group=count.group if groups or users else "", user=count.user if users else "")

    counts = [
        count
        for count in add_up(read_counts(catalogue), key)
        if f"{count.module}/".startswith(f"{name}/" if name else "") and month in ("", count.month)
    ]
    if as_json:
        rows = (
            Usage(count.module, count.month, _group(count.group), _user(count.user), _day(count.last), count.loads)
            for count in counts
        )
        print_json(UsageList(tuple(rows)))
    else:
        _show(counts, groups=groups or users, users=users)


def _show(counts: list[Count], *, groups: bool, users: bool) -> None:
    head = ("CONTAINER", "MONTH", *(["GROUP"] * groups), *(["USER"] * users), "LOADS", "LAST")
    rows = [
        (
            *(count.module, count.month),
            *([_group(count.group) or "-"] * groups),
            *([_user(count.user) or "-"] * users),
            *(str(count.loads), _day(count.last)),
        )
        for count in counts
    ]
    if not rows:
        tell("no loads counted")
        return
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    for row in (head, *rows):
        print_text("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())


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
