"""The verb `hpcmod catalogue usage`: how often modules were loaded, by container, group and month."""

from __future__ import annotations

import grp
import json
import os
import pwd
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click

from hpcmod.catalogue.change import changing
from hpcmod.catalogue.storage.usage import fold, read_counts
from hpcmod.cli.catalogue_options import JSON_VERSION, catalogue_option, make_actor, open_catalogues
from hpcmod.cli.output import print_data, print_text, tell
from hpcmod.errors import BadInputError
from hpcmod.machine import load_site
from hpcmod.model.catalogue.usage import Count, add_up


@click.command()
@click.argument("name", metavar="[NAME[/VERSION]]", default="")
@click.option("--month", default="", metavar="YYYY-MM", help="Loads of one month only.")
@click.option("--groups", is_flag=True, help="A line for each group of users.")
@click.option("--users", is_flag=True, help="A line for each user, where the site profile allows it.")
@click.option("--fold", "add", is_flag=True, help="First replace the files of single loads by totals.")
@catalogue_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object as output.")
def usage(name: str, month: str, groups: bool, users: bool, add: bool, directory: Path | None, as_json: bool) -> None:
    """Show how often modules were loaded: by container and month, and by group or user if asked for.

    Modules count since `hpcmod catalogue init --count-use`. Names of users are shown only if the site profile says
    `names = "users"` in `[usage]`.

    \b
    Examples:
      hpcmod catalogue usage
      hpcmod catalogue usage PyTorch --groups --month 2027-01
      hpcmod catalogue usage --fold --json      # once a week, by cron
    """
    catalogue = open_catalogues(directory)[0]
    allowed = load_site(None, os.environ).usage_names == "users"
    if users and not allowed:
        raise BadInputError(
            "the site profile does not allow names of users",
            'To allow them: names = "users" in [usage] of the profile.',
        )
    if not catalogue.counts_use:
        tell(f"modules do not count here: hpcmod catalogue init --count-use {catalogue.directory}")
    if add and catalogue.loads.is_dir():
        with changing(catalogue, make_actor("")):
            fold(catalogue, keep_users=allowed)

    def key(one: Count) -> Count:
        return replace(one, group=one.group if groups or users else "", user=one.user if users else "")

    found = [
        one
        for one in add_up(read_counts(catalogue), key)
        if f"{one.module}/".startswith(f"{name}/" if name else "") and month in ("", one.month)
    ]
    if as_json:
        rows = [{"module": one.module, "month": one.month, **_names(one), "loads": one.loads} for one in found]
        print_data(json.dumps({"version": JSON_VERSION, "usage": rows}, indent=1))
    else:
        _show(found, groups=groups or users, users=users)


def _names(one: Count) -> dict[str, str]:
    return {"group": _group(one.group), "user": _user(one.user), "last": _day(one.last)}


def _show(found: list[Count], *, groups: bool, users: bool) -> None:
    head = ("CONTAINER", "MONTH", *(["GROUP"] * groups), *(["USER"] * users), "LOADS", "LAST")
    rows = [
        (
            *(one.module, one.month or "earlier"),
            *([_group(one.group) or "-"] * groups),
            *([_user(one.user) or "-"] * users),
            *(str(one.loads), _day(one.last)),
        )
        for one in found
    ]
    if not rows:
        tell("no loads were counted")
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
