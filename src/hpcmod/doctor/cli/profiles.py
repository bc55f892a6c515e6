"""The commands that show and check site profiles: `hpcmod site show`, `ls`, `detect` and `check`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from hpcmod.core import resources
from hpcmod.core.cli.arguments import complete_site, site_option
from hpcmod.core.cli.findings import Findings, show_findings
from hpcmod.core.cli.output import json_option, print_data, print_json, print_table, print_text, tell
from hpcmod.core.text.toml import render_toml
from hpcmod.core.values.finding import Finding
from hpcmod.doctor.site import check_site
from hpcmod.doctor.sources import check_profile, check_sources
from hpcmod.machine import SYSTEM_PROFILE, Choice, Machine, detect, find_machine
from hpcmod.machine.values.condition import ALWAYS
from hpcmod.machine.values.profile import BUILT_IN, merge_profiles, merge_written, parse_profile, pattern_of
from hpcmod.machine.values.schema import SCHEMA, TABLES_THAT_ADD
from hpcmod.machine.values.site import TABLES, Site, Tunable


@dataclass(frozen=True)
class ShippedProfile:
    """A profile that comes with hpcmod."""

    name: str
    description: str
    tried: str
    """What was tried of it, and where."""


@dataclass(frozen=True)
class ProfileList:
    """Profiles that come with hpcmod."""

    profiles: tuple[ShippedProfile, ...]


@dataclass(frozen=True)
class ValueOrigin:
    """A value of a profile."""

    value: Any
    origin: str
    """File and line that set it."""


@dataclass(frozen=True)
class ProfileOrigins:
    """Each value of a profile with its origin."""

    site: str
    chosen_by: str
    """What selected the profile."""
    values: Mapping[str, ValueOrigin]


@dataclass(frozen=True)
class DetectedProfiles:
    """The profile that is used here, and all that match."""

    used: Choice
    fits: tuple[Choice, ...]
    """The most specific first."""


@click.command("ls")
@json_option(ProfileList)
def site_list(as_json: bool) -> None:
    """List the shipped profiles.

    \b
    Examples:
      hpcmod site ls
      hpcmod site ls --json | jq -r '.profiles[] | .name + ": " + .description'
    """
    listed = []
    for name, text in sorted(resources.site_profiles().items()):
        values = parse_profile(text, f"{name}.toml").values
        listed.append(ShippedProfile(name, values.get("description", ""), values.get("tried", "")))
    if as_json:
        print_json(ProfileList(tuple(listed)))
    else:
        rows = [(profile.name, profile.tried, profile.description) for profile in listed]
        print_table(("NAME", "TRIED", "DESCRIPTION"), rows)


@click.command("show")
@click.argument("name", required=False, shell_complete=complete_site)
@click.option("--origin", is_flag=True, help="Print each key with its value, and the file and line that set it.")
@site_option
@json_option(Site, ProfileOrigins)
def site_show(name: str | None, origin: bool, site: str | None, as_json: bool) -> None:
    """Print a profile as complete TOML, with everything it extends merged in.

    The default is the profile of this machine.

    \b
    Examples:
      hpcmod site show lumi
      hpcmod site show lumi > ours.toml     # to start from
      hpcmod site show --origin --site ./ours.toml
    """
    found = find_site(name or site)
    if origin:
        _show_origins(found, as_json=as_json)
        return
    if as_json:
        print_json(found.site)
        return
    print_data(render_toml(merge_written(found.profiles)), nl=False)


def find_site(asked: str | None) -> Machine:
    """Return the asked site profile or this machine's, and report a trust policy that it cannot relax."""
    found = find_machine(None, os.environ, flag=asked)
    if found.site.images.trust.also:
        tell(f"the trust policy of {SYSTEM_PROFILE} applies too, and this profile cannot relax it")
    return found


def _show_origins(found: Machine, *, as_json: bool) -> None:
    rows = list(_rows(found))
    if as_json:
        values = {key: ValueOrigin(value, origin) for key, value, origin in rows}
        print_json(ProfileOrigins(found.site.name, found.choice.reason, values))
        return
    for key, value, origin in rows:
        print_data(f"{key} = {json.dumps(value, default=str)}  # {origin}")


def _rows(found: Machine) -> Iterator[tuple[str, Any, str]]:
    """Yield key, value and origin of everything that is set or has a default, in the order of the schema."""
    merged = merge_profiles(found.profiles)
    for pattern in SCHEMA:
        keys = [key for key in merged if pattern_of(key) == pattern]
        for key in keys:
            if pattern in TABLES_THAT_ADD:
                for entry, value in merged[key]:
                    yield f"{key}.{entry}", _plain(value), found.origin(f"{key}.{entry}")
            else:
                yield key, merged[key], found.origin(key)
        table, _, name = pattern.partition(".")
        owner = TABLES.get(table) if name else Site("")
        if not keys and hasattr(owner, name or table):
            yield pattern, getattr(owner, name or table), BUILT_IN


def _plain(value: Any) -> Any:
    if not isinstance(value, tuple):
        return value
    cases = [_plain_case(tunable) for tunable in value]
    return cases if len(cases) > 1 else next(iter(cases), False)


def _plain_case(tunable: Tunable) -> str | dict[str, str]:
    when = {} if tunable.condition == ALWAYS else {"when": str(tunable.condition)}
    why = {"why": tunable.why} if tunable.why else {}
    return {"value": tunable.value, **when, **why} if when or why else tunable.value


@click.command("detect")
@json_option(DetectedProfiles)
def site_detect(as_json: bool) -> None:
    """Show which profile is used here and why, and which others match.

    Of the shipped profiles that match, the most specific is first.

    \b
    Example:
      hpcmod site detect
    """
    used = find_site(None)
    fits = list(detect(os.environ))
    if as_json:
        print_json(DetectedProfiles(used.choice, tuple(fits)))
        return
    print_text(f"used: {used.choice.profile} ({used.choice.reason})")
    for choice in fits:
        print_text(f"fits: {choice.profile} ({choice.reason})")


@click.command("check")
@click.argument("name", required=False, shell_complete=complete_site)
@click.option("--offline", is_flag=True, help="Check only the profile itself: keys, values, and their sources.")
@click.option("--sources", is_flag=True, help="List the source of each value, with its date.")
@click.option(
    "--checkouts",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="As --sources, and compare with the git clones in this directory, as OWNER/NAME, which of them changed since.",
)
@click.option("--all", "everything", is_flag=True, help="Check all shipped profiles, as --offline or --sources.")
@site_option
@json_option(Findings)
def site_check(
    name: str | None, offline: bool, sources: bool, checkouts: Path | None, everything: bool, **given: Any
) -> None:
    """Compare a profile with this node.

    Shows what exists, what is missing, and what that means. Exit code 1: a bind path that the profile requires is
    missing. With --offline, a key or value that is not valid; a value without a comment about its source is a warning.
    With --sources, a value without a source.

    \b
    Examples:
      hpcmod site check
      hpcmod site check --offline --site ./ours.toml
      hpcmod site check lumi --sources
      hpcmod site check --sources --all --checkouts ~/clones     # which of the sources changed?
      srun -p standard-g hpcmod site check --site ./ours.toml     # on a compute node
    """
    as_json, asked = given["as_json"], name or given["site"]
    if offline or everything or sources or checkouts:
        names = sorted(resources.site_profiles()) if everything else [asked]
        findings = (
            each for profile in names for each in _check_text(profile, checkouts, sources=sources or bool(checkouts))
        )
        show_findings(findings, as_json=as_json)
    show_findings(check_site(find_site(asked), os.environ), as_json=as_json)


def _check_text(asked: str | None, checkouts: Path | None, *, sources: bool) -> Iterator[Finding]:
    """Check a profile by itself, or its sources, and that those it extends can be read."""
    found = find_site(asked)
    choice, profile = found.choice.profile, found.profiles[-1]
    shipped = resources.site_profiles()
    text = shipped[choice] if choice in shipped else Path(choice).read_text(encoding="utf-8")
    yield from check_sources(profile, text, checkouts) if sources else check_profile(profile, text)
