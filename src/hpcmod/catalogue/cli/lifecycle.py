"""The commands `hpcmod catalogue promote`, `deprecate`, `retire`, `restore` and `undo`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from hpcmod.catalogue.cli.containers import complete_container
from hpcmod.catalogue.cli.options import (
    CatalogueChange,
    ChangeFlags,
    changing_options,
    make_actor,
    open_catalogues,
    show_change,
)
from hpcmod.catalogue.finding.find import Container, find_container
from hpcmod.catalogue.values import lifecycle as rules
from hpcmod.catalogue.values.journal import Key, Records
from hpcmod.catalogue.values.record import CatalogueRecord
from hpcmod.core.cli.arguments import with_options
from hpcmod.core.cli.flags import with_flags
from hpcmod.core.cli.output import tell
from hpcmod.core.errors import BadInputError, NotFoundError

_Decide = Callable[[Sequence[CatalogueRecord], Key], Records]


def _find(directory: Path | None, container: str) -> Container:
    """Return the container of NAME/VERSION; a bare NAME is an error, so that no default is retired by accident."""
    catalogues = open_catalogues(directory)
    if "/" not in container:
        modules = [record.module for catalogue in catalogues for record in catalogue.named(container)]
        raise BadInputError(f"{container!r} has no version", f"Give one: {' or '.join(modules) or 'NAME/VERSION'}")
    return find_container(catalogues, container)


@dataclass(frozen=True)
class LifecycleFlags(ChangeFlags):
    """Arguments and options of every command that changes one container."""

    container: str


@dataclass(frozen=True)
class UndoFlags(ChangeFlags):
    """Argument and options of `hpcmod catalogue undo`."""

    change: int | None
    """Number of a change; None for the latest change."""


@dataclass(frozen=True)
class PromoteFlags(LifecycleFlags):
    """Arguments and options of `hpcmod catalogue promote`."""

    alias: str
    remove: bool


@dataclass(frozen=True)
class NoticeFlags(LifecycleFlags):
    """Arguments and options of `hpcmod catalogue deprecate` and `hpcmod catalogue retire`."""

    successor: str | None
    until: str | None


def _change(flags: LifecycleFlags, decide: _Decide, *, verb: str) -> None:
    from hpcmod.catalogue.admin import lifecycle

    meant = _find(flags.directory, flags.container)
    change = lifecycle.change_name(
        meant.catalogue,
        meant.name,
        lambda records: decide(records, (meant.name, meant.version)),
        verb=verb,
        actor=make_actor(flags.reason),
        dry_run=flags.dry_run,
    )
    show_change(change, as_json=flags.as_json, dry_run=flags.dry_run)


@click.command()
@click.argument("container", metavar="NAME/VERSION", shell_complete=complete_container)
@click.option("--alias", metavar="WORD", default=rules.STABLE, help=f"Alias to point at it (default: {rules.STABLE}).")
@click.option("--remove", is_flag=True, help="Remove the alias from it instead.")
@changing_options(CatalogueChange)
@with_flags(PromoteFlags)
def promote(flags: PromoteFlags) -> None:
    """Make a container the default version of its name, or point an alias at it.

    An alias points to one version of a name, and moves if it exists. `module load NAME` loads `stable`, else `latest`.

    \b
    Examples:
      hpcmod catalogue promote PyTorch/2.7.1-rocm-6.2.4-singularity -m "two weeks without a complaint"
      hpcmod catalogue promote PyTorch/2.7.1-rocm-6.2.4-singularity --alias latest
      hpcmod catalogue promote PyTorch/2.6.0-rocm-6.2.0-singularity --alias lumi-24 --remove
    """
    decide = rules.remove_alias if flags.remove else rules.move_alias
    _change(flags, lambda records, key: decide(records, key, flags.alias), verb="promote")


_leaving_options = with_options(
    click.option("--until", metavar="YYYY-MM-DD", help="Date (UTC) of retirement; until then the container loads."),
    click.option("--successor", metavar="NAME/VERSION", help="Container to use instead, shown to users."),
)


def _change_state(flags: NoticeFlags, decide: Callable[..., Records], *, verb: str) -> None:
    notice = {"until": flags.until, "successor": flags.successor, "reason": flags.reason}
    _change(flags, lambda records, key: decide(records, key, **notice), verb=verb)
    if "" < (flags.until or "") <= time.strftime("%Y-%m-%d", time.gmtime()):
        tell(f"--until {flags.until}: this date has passed")
    if flags.successor:
        try:
            find_container(open_catalogues(flags.directory), flags.successor)
        except NotFoundError as err:
            tell(f"--successor: {err.message}. {err.cure}")


@click.command()
@click.argument("container", metavar="NAME/VERSION", shell_complete=complete_container)
@_leaving_options
@changing_options(CatalogueChange)
@with_flags(NoticeFlags)
def deprecate(flags: NoticeFlags) -> None:
    """Warn users at load that a container will be retired.

    The message says when, why (--reason), and what to use instead. The container keeps working.

    If it is already deprecated, only the given options change; an empty value removes one.

    \b
    Examples:
      hpcmod catalogue deprecate PyTorch/2.5.1-singularity --until 2027-03-01 --successor PyTorch/2.7.1-singularity
      hpcmod catalogue deprecate PyTorch/2.5.1-singularity --until ""     # no date any more
    """
    _change_state(flags, rules.deprecate, verb="deprecate")


@click.command()
@click.argument("container", metavar="NAME/VERSION", shell_complete=complete_container)
@_leaving_options
@changing_options(CatalogueChange)
@with_flags(NoticeFlags)
def retire(flags: NoticeFlags) -> None:
    """Block loading of a container, now or from a date.

    Loading it then fails with a message that says why (--reason), and what to use instead.

    Nothing is removed: jobs that have it loaded continue, and `hpcmod catalogue restore` reverts it. Its aliases move
    to the successor.

    \b
    Examples:
      hpcmod catalogue retire PyTorch/2.5.1-singularity --successor PyTorch/2.7.1-singularity
      hpcmod catalogue retire PyTorch/2.5.1-singularity --until 2027-03-01 --reason "its ROCm is too old for the driver"
    """
    _change_state(flags, rules.retire, verb="retire")


@click.command()
@click.argument("container", metavar="NAME/VERSION", shell_complete=complete_container)
@changing_options(CatalogueChange)
@with_flags(LifecycleFlags)
def restore(flags: LifecycleFlags) -> None:
    """Return a deprecated or retired container to normal.

    Aliases that `retire` moved stay where they are, and a deprecation does not come back: `hpcmod catalogue undo`
    reverts all of a change.

    \b
    Example:
      hpcmod catalogue restore PyTorch/2.5.1-singularity -m "a project needs it for a publication"
    """
    _change(flags, rules.restore, verb="restore")


@click.command()
@click.argument("change", metavar="[CHANGE]", type=int, required=False)
@changing_options(CatalogueChange)
@with_flags(UndoFlags)
def undo(flags: UndoFlags) -> None:
    """Undo a change of the catalogue: the latest that still stands, or the one with a number.

    Changes by `gc` and `advisory refresh` cannot be undone.

    \b
    Examples:
      hpcmod catalogue undo
      hpcmod catalogue undo 17 --dry-run     # the numbers: hpcmod catalogue journal
    """
    from hpcmod.catalogue.admin import lifecycle

    catalogue = open_catalogues(flags.directory)[0]
    change = lifecycle.undo(catalogue, flags.change, actor=make_actor(flags.reason), dry_run=flags.dry_run)
    show_change(change, as_json=flags.as_json, dry_run=flags.dry_run)
