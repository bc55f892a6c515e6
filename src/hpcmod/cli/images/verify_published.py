"""Verify a published or installed container by name, for `hpcmod verify`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import NoReturn

from hpcmod import machine
from hpcmod.catalogue.finding.find import Container, find_container
from hpcmod.catalogue.publishing.trial import CheckRun, repeat_checks
from hpcmod.catalogue.records.store import find_catalogues
from hpcmod.catalogue.verify import verify_container
from hpcmod.check.installation import check_installation, exit_code_of
from hpcmod.check.packages import check_packages
from hpcmod.cli.containers import find_copy, look_around
from hpcmod.cli.findings import show_findings
from hpcmod.cli.output import tell
from hpcmod.errors import CheckFailedError, HpcmodError, NotFoundError
from hpcmod.install.installed import Installed
from hpcmod.install.packages.changing import read_target
from hpcmod.install.packages.sets import find_sets, open_set
from hpcmod.model.finding import FAIL, OK, Finding
from hpcmod.model.packages.place import CHOICE_VARIABLE, parse_choice
from hpcmod.progress import ProgressLine


def verify_published(text: str, *, site: str | None, repeat: bool, as_json: bool) -> None:
    """Compare a container with its record, print the findings, and exit, with 4 if its image or packages differ.

    If `module load` would load a copy that is not published, that copy is verified. If there is no such copy and no
    catalogue, return without a result: the text is not the name of a container.

    Parameters
    ----------
    repeat
        Whether to run its checks again.
    """
    here = look_around(site)
    installed: Installed | None = None
    with suppress(NotFoundError):
        installed = find_copy(here, text)
    if installed and not any(one.modules in installed.modulefile.parents for one in here.catalogues):
        _verify_own(installed, as_json=as_json)
    catalogues = find_catalogues(machine.find_machine(None, os.environ, flag=site).site, os.environ, tell=tell)
    if not catalogues:
        return
    container = find_container(catalogues, text)
    with ProgressLine(container.module) as progress:
        found = list(verify_container(container.catalogue, container.read(), progress=progress))
    if repeat:
        found += _repeat(container)
    found += _check_packages(installed) if installed else ()
    show_findings(found, as_json=as_json, fail_code=exit_code_of(found))


def _verify_own(found: Installed, *, as_json: bool) -> NoReturn:
    """Verify an installed copy that is not published, and exit."""
    with ProgressLine(found.module) as progress:
        findings = [*check_installation(found, progress), *_check_packages(found)]
    show_findings(findings, as_json=as_json, fail_code=exit_code_of(findings))


def _check_packages(installed: Installed) -> Iterator[Finding]:
    """Yield the findings about the user's own packages, in all sets that this environment can use."""
    try:
        place = read_target(installed).place
        chosen = parse_choice(os.environ.get(CHOICE_VARIABLE, ""))
    except HpcmodError:  # it cannot have packages, or they are reported when it is used
        return
    shared = [open_set(place.name, chosen, os.environ)] if chosen and chosen.directory else []
    yield from check_packages([*find_sets(place.name, os.environ), *shared], place.tag)


def _repeat(container: Container) -> Iterator[Finding]:
    record = container.read()
    trial = CheckRun(record.module, container.catalogue.modules, record.sha256, os.environ)
    checks = repeat_checks(trial, record.checks)
    try:
        for check in checks:
            yield Finding(OK, "check", f"{check.name}{' (slurm)' * bool(check.under)}")
    except CheckFailedError as err:
        yield Finding(FAIL, "check", err.message, err.cure)
