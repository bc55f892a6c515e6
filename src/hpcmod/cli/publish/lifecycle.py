"""The admin's commands for published containers: alias, promote, deprecate, retire, restore, undo."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from hpcmod.catalogue.admin import lifecycle
from hpcmod.catalogue.finding.find import Container, find_container
from hpcmod.cli.containers import complete_container
from hpcmod.cli.output import tell
from hpcmod.cli.publish.options import changing_options, make_actor, open_catalogues, show_change
from hpcmod.errors import BadInputError
from hpcmod.model.catalogue import lifecycle as rules
from hpcmod.model.catalogue.advisory import seconds_of
from hpcmod.model.catalogue.journal import Key, Records
from hpcmod.model.catalogue.record import CatalogueRecord

_Decide = Callable[[Sequence[CatalogueRecord], Key], Records]


def _find(directory: Path | None, container: str) -> Container:
    """Return the container of NAME/VERSION; a bare NAME is an error, so that no default is retired by accident."""
    if "/" not in container:
        raise BadInputError(f"{container!r} has no version", f"Give {container}/VERSION. See: hpcmod ls")
    return find_container(open_catalogues(directory), container)


def _change(
    container: str, decide: _Decide, *, verb: str, directory: Path | None, why: str, dry_run: bool, as_json: bool
) -> None:
    found = _find(directory, container)
    change = lifecycle.change_name(
        found.catalogue,
        found.name,
        lambda records: decide(records, (found.name, found.version)),
        verb=verb,
        actor=make_actor(why),
        dry_run=dry_run,
    )
    show_change(change, as_json=as_json, dry_run=dry_run)


@click.command()
@click.argument("container", metavar="NAME/VERSION", shell_complete=complete_container)
@click.argument("name", metavar="ALIAS")
@click.option("--remove", is_flag=True, help="Remove the alias.")
@changing_options
def alias(container: str, name: str, remove: bool, **flags: Any) -> None:
    """Point an alias at a container.

    An alias points to one version of a name, and moves if it exists. `module load NAME` loads `stable`, else `latest`.

    \b
    Examples:
      hpcmod alias PyTorch/2.7.1-rocm-6.2.4-singularity latest
      hpcmod alias --remove PyTorch/2.6.0-rocm-6.2.0-singularity lumi-24
    """
    decide = rules.remove_alias if remove else rules.move_alias
    _change(container, lambda records, key: decide(records, key, name), verb="alias", **flags)


@click.command()
@click.argument("container", metavar="NAME/VERSION", shell_complete=complete_container)
@changing_options
def promote(container: str, **flags: Any) -> None:
    """Make a container the default version of its name.

    `module load NAME` then loads it.

    \b
    Example:
      hpcmod promote PyTorch/2.7.1-rocm-6.2.4-singularity -m "two weeks without a complaint"
    """
    _change(container, lambda records, key: rules.move_alias(records, key, rules.STABLE), verb="promote", **flags)


def _check_day(_: click.Context, __: click.Parameter, day: str | None) -> str | None:
    try:
        seconds_of(day or "2000-01-01")
    except ValueError as err:
        raise BadInputError(f"--until {day}: not a valid date", "Write it as 2027-03-01.") from err
    if "" < (day or "") <= time.strftime("%Y-%m-%d", time.gmtime()):
        tell(f"--until {day}: this date has passed")
    return day


def _leaving_options(command: Callable[..., None]) -> Callable[..., None]:
    for flag in (
        click.option("--reason", metavar="TEXT", help="Reason, shown to users."),
        click.option("--successor", metavar="NAME/VERSION", help="Container to use instead, shown to users."),
        click.option(
            "--until",
            metavar="YYYY-MM-DD",
            callback=_check_day,
            help="Date (UTC) of retirement; until then the container loads.",
        ),
    ):
        command = flag(command)
    return command


def _change_state(
    container: str,
    decide: Callable[..., Records],
    *,
    until: str | None,
    successor: str | None,
    reason: str | None,
    **flags: Any,
) -> None:
    notice = {"until": until, "successor": successor, "reason": reason}
    _change(container, lambda records, key: decide(records, key, **notice), **flags)


@click.command()
@click.argument("container", metavar="NAME/VERSION", shell_complete=complete_container)
@_leaving_options
@changing_options
def deprecate(container: str, **asked: Any) -> None:
    """Warn users at load that a container will be retired.

    The message says when, why, and what to use instead. The container keeps working.

    If it is already deprecated, only the given options change; an empty value removes one.

    \b
    Examples:
      hpcmod deprecate PyTorch/2.5.1-singularity --until 2027-03-01 --successor PyTorch/2.7.1-singularity
      hpcmod deprecate PyTorch/2.5.1-singularity --until ""     # no date any more
    """
    _change_state(container, rules.deprecate, verb="deprecate", **asked)


@click.command()
@click.argument("container", metavar="NAME/VERSION", shell_complete=complete_container)
@_leaving_options
@changing_options
def retire(container: str, **asked: Any) -> None:
    """Block loading of a container, now or from a date.

    Loading it then fails with a message that says what to use instead, and how.

    Nothing is removed: jobs that have it loaded continue, and `hpcmod restore` reverts it. Its aliases move to the
    successor.

    \b
    Examples:
      hpcmod retire PyTorch/2.5.1-singularity --successor PyTorch/2.7.1-singularity
      hpcmod retire PyTorch/2.5.1-singularity --until 2027-03-01 --reason "its ROCm is too old for the driver"
    """
    _change_state(container, rules.retire, verb="retire", **asked)


@click.command()
@click.argument("container", metavar="NAME/VERSION", shell_complete=complete_container)
@changing_options
def restore(container: str, **flags: Any) -> None:
    """Return a deprecated or retired container to normal.

    \b
    Example:
      hpcmod restore PyTorch/2.5.1-singularity -m "a project needs it for a publication"
    """
    _change(container, rules.restore, verb="restore", **flags)


@click.command()
@click.argument("number", metavar="[CHANGE]", type=int, required=False)
@changing_options
def undo(number: int | None, directory: Path | None, why: str, dry_run: bool, as_json: bool) -> None:
    """Undo a change of the catalogue, by default the latest.

    \b
    Examples:
      hpcmod undo
      hpcmod undo 17 --dry-run     # the numbers: hpcmod catalogue journal
    """
    catalogue = open_catalogues(directory)[0]
    change = lifecycle.undo(catalogue, number, actor=make_actor(why), dry_run=dry_run)
    show_change(change, as_json=as_json, dry_run=dry_run)
