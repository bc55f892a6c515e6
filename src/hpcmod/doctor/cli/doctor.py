"""The command `hpcmod doctor`: check this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import click

from hpcmod.catalogue import (
    check_advisories,
    complete_image,
    find_copy,
    look_around,
    published_cures,
    retired_installations,
)
from hpcmod.compat import check_fits
from hpcmod.core import resources
from hpcmod.core.cli.findings import Findings, show_findings
from hpcmod.core.cli.output import json_option
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.finding import FAIL, UNKNOWN, Finding
from hpcmod.doctor.doctor import check_machine
from hpcmod.doctor.security import check_directory, check_policy
from hpcmod.modules import check_installation, check_installations


@click.command()
@click.argument("given", metavar="[NAME[/VERSION]|IMAGE]...", nargs=-1, shell_complete=complete_image)
@click.option(
    "--security",
    "shared",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Shared directory to check for unsafe permissions, instead of this machine.",
)
@json_option(Findings)
def doctor(given: tuple[str, ...], shared: Path | None, as_json: bool) -> None:
    """Check this machine for problems.

    Also checks that installed container modules are complete and unchanged, and that their images fit this machine; or
    only the given modules, or the given images. An image is read only if it was modified; `hpcmod verify` always reads
    it.

    \b
    Examples:
      hpcmod doctor
      hpcmod doctor PyTorch
      hpcmod doctor pytorch.sif
      hpcmod doctor --security /appl/containers
    """
    if shared and given:
        raise click.UsageError("give images or modules, or a directory with --security, not both")
    if shared:
        show_findings(chain(check_directory(shared), check_policy(os.environ)), as_json=as_json)
    modules = [text for text in given if _is_module(text)]
    images = [Path(text) for text in given if not _is_module(text)]
    if modules:
        show_findings(_check_modules(modules, images), as_json=as_json)
    machine = check_machine(os.environ, str(resources.easyconfigs_directory()))
    fits = check_fits(images, os.environ) if images else _check_installed()
    show_findings(chain(machine, check_advisories(os.environ), fits), as_json=as_json)


def _check_installed() -> Iterator[Finding]:
    """Check all installations, and that the images of those that are not damaged fit this machine."""
    retired, published = retired_installations(os.environ), published_cures(os.environ)
    damaged = list(check_installations(os.environ, retired=retired, published=published))
    yield from damaged
    subjects = {finding.subject.replace("installation ", "image ", 1) for finding in damaged}
    yield from (finding for finding in check_fits((), os.environ) if finding.subject not in subjects)


def _is_module(text: str) -> bool:
    """Return whether an argument names a container rather than a file."""
    return not (text.endswith((".sif", ".simg", ".img")) or text.startswith((".", "/")) or Path(text).exists())


def _check_modules(modules: Sequence[str], images: Sequence[Path]) -> Iterator[Finding]:
    """Compare installations with their records, and check that their images and the given ones fit this machine."""
    here, published, fitting = look_around(None), published_cures(os.environ), list(images)
    for text in modules:
        found = find_copy(here, text)
        of_site = f"Verify it, and send what that finds to your support team: hpcmod verify {sh_word(found.module)}"
        cures = {FAIL: published.get(found.root, of_site), UNKNOWN: of_site} if here.is_published(found) else {}
        findings = list(check_installation(found, read_image=False))
        for finding in findings:
            cure = cures.get(finding.level, finding.cure)
            yield replace(finding, subject=f"{found.module} {finding.subject}", cure=cure)
        image = Path(found.image.path)
        is_damaged = any(finding.level == FAIL for finding in findings)
        fitting += [image] if image.is_file() and not is_damaged else []
    if fitting:
        yield from check_fits(fitting, os.environ)
