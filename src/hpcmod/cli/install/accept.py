"""The command `hpcmod accept`: show the licence of a container and record that the user accepts it."""

from __future__ import annotations

import os

import click

from hpcmod.catalogue.publishing import terms
from hpcmod.cli.containers import (
    complete_container,
    find_published,
    json_option,
    look_around,
    site_option,
)
from hpcmod.cli.install.installed import on_a_terminal
from hpcmod.cli.output import print_json, print_text, tell
from hpcmod.errors import LackingError
from hpcmod.render.quote import sh_word


@click.command()
@click.argument("container", shell_complete=complete_container)
@click.option("-y", "--yes", is_flag=True, help="Accept without a question.")
@site_option
@json_option
def accept(container: str, yes: bool, site: str | None, as_json: bool) -> None:
    """Accept the licence of a container, once.

    Prints the licence and asks. Your answer is stored in ~/.local/state/hpcmod/accepted, where modules look for it when
    you load them. If the site changes the text, you are asked again.

    \b
    Examples:
      hpcmod accept Solver/3.1
      hpcmod accept --yes Solver/3.1     # in a script, once you have read it
    """
    found = find_published(look_around(site), container)
    record = found.read()
    text = terms.read_licence(found.catalogue, record)
    known = terms.is_accepted(record, os.environ)
    if text and not as_json:
        print_text(text.rstrip("\n"))
    if not known and not yes:
        if as_json or not on_a_terminal():
            raise LackingError(
                f"the licence of {record.module} has not been accepted, and there is no terminal to ask on",
                f"Once you have read it: hpcmod accept --yes {sh_word(record.module)}",
            )
        click.confirm(f"Do you accept the licence of {record.module}?", abort=True, err=True)
    if not known:
        terms.accept(record, text, os.environ)
    if as_json:
        print_json(module=record.module, licence=record.licence, text=text, accepted=True)
        return
    if not record.licence:
        tell(f"{record.module} has no licence to accept")
    else:
        tell(f"{'you have already accepted' if known else 'accepted'} the licence of {record.module}")
