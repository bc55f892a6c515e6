"""The command `hpcmod rebase`: rebuild a user's packages for another version of a container."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import click

from hpcmod.catalogue import on_a_terminal
from hpcmod.core.cli.flags import with_flags
from hpcmod.core.cli.output import print_json, print_text, tell
from hpcmod.core.cli.signals import terminate_cleanly
from hpcmod.core.errors import CheckFailedError, NotFoundError
from hpcmod.packages.builder import make_builder
from hpcmod.packages.cli.outputs import PackagesChange
from hpcmod.packages.cli.show import show_change, tell_active, tell_left_behind
from hpcmod.packages.cli.target import OwnSet, SetFlags, find_set, package_options
from hpcmod.packages.cli.wanted import PipFlags, index_options
from hpcmod.packages.rebasing import Rebase, carry_out, choose_source, plan_rebase


@dataclass(frozen=True)
class RebaseFlags(PipFlags, SetFlags):
    """Options of `hpcmod rebase`."""

    dry_run: bool
    source: str
    without: tuple[str, ...]
    yes: bool


@click.command("rebase")
@package_options(PackagesChange)
@click.option("--from", "source", default="", metavar="VERSION|STATE", help="Version or state whose packages to take.")
@click.option("--without", multiple=True, metavar="PACKAGE", help="Package to leave out.")
@index_options
@click.option("--dry-run", is_flag=True, help="Print what would become of each package; change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Rebuild without a question.")
@with_flags(RebaseFlags)
def rebase_verb(flags: RebaseFlags) -> None:
    """Rebuild your packages for another version of a container.

    Resolves what you asked for again, with the packages of the image that the container has now. First it prints what
    becomes of each package; if one cannot be installed, nothing changes. For the same image, all packages are updated.

    \b
    Examples:
      hpcmod rebase PyTorch --dry-run
      hpcmod rebase PyTorch --from 2.7.1-rocm-6.2.4-singularity
    """
    own = find_set(flags)
    if not own.set.exists:
        raise NotFoundError(
            f"you have added no packages to {own.name}", f"Add some: hpcmod add {own.set.asked} PACKAGE"
        )
    if not flags.dry_run:
        own.set.check_writable()
    builder = make_builder(os.environ, tell=tell)
    state = choose_source(own.target, own.set, flags.source)
    with terminate_cleanly():
        change = flags.removal(flags.without, f"rebase from {state.number} ({state.origin.module})")
        rebase = plan_rebase(own.target, own.set, state, change, builder)
        if not flags.as_json:
            tell(f"state {state.number}, made for {state.origin.module}, on {own.target.module}:")
            for difference in rebase.differences:
                print_text(str(difference))
        if state.tag == own.target.place.tag and not flags.source:
            tell_left_behind(own, state)
        if rebase.failures:
            refuse(own, rebase, f"hpcmod rebase {own.set.asked}", without=flags.without, as_json=flags.as_json)
        if not (flags.dry_run or flags.yes or flags.as_json) and on_a_terminal():
            click.confirm(f"Rebuild your packages for {own.target.module}?", abort=True, err=True)
        new = None if flags.dry_run else carry_out(rebase, own.set, builder)
    if flags.as_json:
        shown = show_change(own, before=rebase.source, state=new, changes=rebase.differences, dry_run=new is None)
        print_json(shown)
    elif new:
        tell_active(own, new)


def refuse(own: OwnSet, rebase: Rebase, command: str, *, without: Sequence[str], as_json: bool) -> NoReturn:
    """Raise CheckFailedError for the packages that cannot be installed; its cure is the command without them.

    `without`: Packages that are left out already.
    """
    names = [failure.name for failure in rebase.failures]
    message = f"{', '.join(names)} cannot be installed for {own.target.module}; nothing was changed"
    detail = "".join(f"\n  {failure}" for failure in rebase.failures) if as_json else ""
    leave_out = " ".join(f"--without {name}" for name in (*without, *names))
    raise CheckFailedError(f"{message}{detail}", f"Leave it out: {command} {leave_out}")
