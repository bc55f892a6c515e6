"""The command `hpcmod catalogue advisory`: list, apply and refresh advisories about known problems."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import click

from hpcmod.catalogue.change import changing, write_note
from hpcmod.catalogue.cli.options import changing_options, make_actor, open_catalogues
from hpcmod.catalogue.records.store import Catalogue, find_catalogues
from hpcmod.catalogue.session import find_loaded
from hpcmod.catalogue.text.notice import render_cure
from hpcmod.catalogue.values.advisory import Advisory
from hpcmod.catalogue.visible.advisories import matching_advisories, read_advisories
from hpcmod.catalogue.visible.notices import describe_reach, write_notices
from hpcmod.core.cli.groups import CommandGroup
from hpcmod.core.cli.output import json_option, print_json, print_text, tell
from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.core.values.json_form import SPLICED
from hpcmod.machine import load_site


def _catalogues() -> tuple[Catalogue, ...]:
    return find_catalogues(load_site(None, os.environ), os.environ, tell=tell)


@dataclass(frozen=True)
class ShownAdvisory:
    """An advisory."""

    advisory: Advisory = field(metadata=SPLICED)
    expired: bool


@dataclass(frozen=True)
class AdvisoryList:
    """Known problems."""

    advisories: tuple[ShownAdvisory, ...]


@dataclass(frozen=True)
class RefreshedAdvisories:
    """The advisories of a catalogue, and the modules that show them."""

    dry_run: bool
    advisories: tuple[str, ...]
    notices: tuple[str, ...]
    """Changed notices."""


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.option(
    "--apply", "apply_", is_flag=True, help="Print the fixes for the loaded module as shell commands, for `eval`."
)
@click.pass_context
def advisory(ctx: click.Context, apply_: bool) -> None:
    """Show known problems of a container and their fixes.

    An advisory is a TOML file in the `advisories` directory of a catalogue. With --apply, the fixes are printed as
    shell commands; they take effect only if your shell runs them.

    \b
    Examples:
      hpcmod catalogue advisory
      eval "$(hpcmod catalogue advisory --apply)"
      hpcmod catalogue advisory ls --all
    """
    if ctx.invoked_subcommand:
        return
    if apply_:
        _print_cures()
    else:
        ctx.invoke(advisory_ls)


def _print_cures() -> None:
    """Print each cure as shell commands to stdout, and its title to stderr."""
    module, advisories = _matching()
    if not advisories:
        tell(f"no known problems with {module} on this node")
    for advisory in advisories:
        lines = render_cure(advisory)
        tell(f"{advisory.title}: {'; '.join(lines) or 'no variable fixes it'}")
        for line in lines:
            print_text(line)


def _matching() -> tuple[str, tuple[Advisory, ...]]:
    """Return the loaded module, and the advisories that apply to it on this node."""
    loaded = find_loaded(os.environ)
    if not loaded.module:
        raise NotFoundError(
            "no container module is loaded",
            "Load one first, or list all advisories: hpcmod catalogue advisory ls --all",
        )
    advisories = matching_advisories(
        _catalogues(), loaded.module, loaded.sha256, environ=os.environ, packages=loaded.packages
    )
    return loaded.module, advisories


@advisory.command("ls")
@click.option(
    "--all", "everything", is_flag=True, help="Include advisories for other modules and hosts, and expired ones."
)
@json_option(AdvisoryList)
def advisory_ls(everything: bool, as_json: bool) -> None:
    """List the advisories that apply to the loaded module on this node.

    \b
    Examples:
      hpcmod catalogue advisory ls
      hpcmod catalogue advisory ls --all --json | jq -r '.advisories[].title'
    """
    if everything:
        advisories, faults = _read(_catalogues())
        for fault in faults:
            tell(fault.message)
    else:
        advisories = list(_matching()[1])
    if as_json:
        print_json(AdvisoryList(tuple(ShownAdvisory(advisory, _expired(advisory)) for advisory in advisories)))
        return
    for advisory in advisories:
        end = f"expired {advisory.expires}" if _expired(advisory) else f"until {advisory.expires}"
        print_text(f"{advisory.name}\t{end}\t{advisory.title}")


def _expired(advisory: Advisory) -> bool:
    return time.time() >= advisory.until


@advisory.command("refresh")
@changing_options(RefreshedAdvisories)
def advisory_refresh(directory: Path | None, reason: str | None, dry_run: bool, as_json: bool) -> None:
    """Check the advisories of a catalogue, and make its modules show them.

    For admins, after a file in `advisories` was added, changed or removed. Names the containers that each concerns.

    \b
    An advisory:
      title = "RCCL hangs on two nodes and more"
      text = "Without the variable it is as fast."
      source = "https://example.org/issues/28"
      issued = 2027-01-20
      expires = 2027-07-01
      [match]
      modules = ["PyTorch/2.6*"]
      [match.host]
      libfabric = { path = "/opt/cray/libfabric/{version}", version = ">=1.22" }
      [match.environment]
      NCCL_NET_GDR_LEVEL = "*"
      [cure]
      unset = ["NCCL_NET_GDR_LEVEL"]

    \b
    Example:
      hpcmod catalogue advisory refresh
    """
    catalogue = open_catalogues(directory)[0]
    advisories, faults = _read([catalogue])
    if faults:
        raise BadInputError("\n".join(fault.message for fault in faults), faults[0].cure)
    actor = make_actor(reason)
    changed: tuple[str, ...] = ()
    if not dry_run:
        with changing(catalogue, actor):
            changed = write_notices(catalogue, tell=tell)
            if changed:
                write_note(catalogue, "advisory refresh", f"notices changed: {len(changed)}", actor)
    for line in describe_reach(catalogue, advisories, now=time.time()):
        tell(line)
    if as_json:
        print_json(RefreshedAdvisories(dry_run, tuple(valid.name for valid in advisories), changed))
    else:
        tell(f"advisories in {catalogue.advisories}: {len(advisories)}")


def _read(catalogues: Iterable[Catalogue]) -> tuple[list[Advisory], list[BadInputError]]:
    read = tuple(read_advisories(catalogues))
    faults = [entry for entry in read if isinstance(entry, BadInputError)]
    return [entry for entry in read if isinstance(entry, Advisory)], faults
