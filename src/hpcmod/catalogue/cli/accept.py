"""`hpcmod install --accept-licence`: show the licences of containers and record that the user accepts them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import click

from hpcmod.catalogue.cli.containers import Here, find_published
from hpcmod.catalogue.cli.installed import on_a_terminal
from hpcmod.catalogue.finding.find import Container
from hpcmod.catalogue.publishing import terms
from hpcmod.core.cli.output import print_json, print_text, tell
from hpcmod.core.errors import LackingError
from hpcmod.core.text.quote import sh_word


@dataclass(frozen=True)
class AcceptedLicence:
    """The licence of a container, which you accepted."""

    module: str
    licence: str
    """sha256 of the text; empty if there is none to accept."""
    text: str


@dataclass(frozen=True)
class AcceptedLicences:
    """The accepted licences."""

    licences: tuple[AcceptedLicence, ...]


def accept_licences(here: Here, names: Sequence[str], *, yes: bool, as_json: bool) -> None:
    """Print the licence of each container, and ask unless `yes`; modules look for the answer when they are loaded.

    Raises NotFoundError if a container or its licence is not found; LackingError if there is no terminal to ask on.
    """
    containers = [find_published(here, name) for name in names]
    accepted = [
        AcceptedLicence(container.module, container.read().licence, _accept_one(container, yes=yes, quiet=as_json))
        for container in containers
    ]
    if as_json:
        print_json(AcceptedLicences(tuple(accepted)))


def _accept_one(container: Container, *, yes: bool, quiet: bool) -> str:
    """Have the user accept one licence, if that has not been done, and return its text."""
    record = container.read()
    if not record.licence:
        tell(f"{record.module} has no licence to accept")
        return ""
    text = terms.read_licence(container.catalogue, record)
    if not quiet:
        print_text(text.rstrip("\n"))
    if terms.is_accepted(record, os.environ):
        tell(f"you have already accepted the licence of {record.module}")
        return text
    if not yes:
        if quiet or not on_a_terminal():
            raise LackingError(
                f"the licence of {record.module} has not been accepted, and there is no terminal to ask on",
                f"Once you have read it: hpcmod install --accept-licence --yes {sh_word(record.module)}",
            )
        click.confirm(f"Do you accept the licence of {record.module}?", abort=True, err=True)
    terms.accept(record, text, os.environ)
    tell(f"accepted the licence of {record.module}")
    return text
