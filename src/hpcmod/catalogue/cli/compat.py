"""The command `hpcmod compat`: check whether an image fits this machine."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

import click

from hpcmod.catalogue.cli.containers import complete_image, find_copy, look_around, names_image
from hpcmod.compat import make_case
from hpcmod.compat.values.rules import RULES
from hpcmod.compat.values.stack import StackFacts
from hpcmod.compat.values.verdict import HostFacts, Loaded, judge
from hpcmod.core.cli.arguments import site_option
from hpcmod.core.cli.findings import print_findings
from hpcmod.core.cli.output import json_option, print_json, print_text, tell
from hpcmod.core.errors import CheckFailedError, NotFoundError
from hpcmod.core.values.finding import FAIL, Finding
from hpcmod.core.values.json_form import SPLICED
from hpcmod.modules import read_record, site_of


@dataclass(frozen=True)
class SourcedFinding:
    """A finding, and where its rule comes from."""

    finding: Finding = field(metadata=SPLICED)
    source: str
    """Document or experiment behind the rule."""


@dataclass(frozen=True)
class Fit:
    """Whether an image fits a machine."""

    image: Path
    site: str
    """Name of the site profile."""
    level: str
    """ok, warn or fail: the worst of the findings."""
    findings: tuple[SourcedFinding, ...]
    facts: StackFacts
    """What the image contains."""
    host: HostFacts
    """What the machine has."""
    loaded: tuple[Loaded, ...]
    """What the dynamic loader would take from the image and from the host."""


@click.command()
@click.argument("image", metavar="NAME[/VERSION]|IMAGE", shell_complete=complete_image)
@site_option
@json_option(Fit)
def compat(image: str, site: str | None, as_json: bool) -> None:
    """Check whether an image fits this machine.

    The image is not started. Prints ok, warn or fail, each with the reason and the fix.

    Checks MPI, libfabric, NCCL's network plugin, glibc, CUDA, ROCm and the host libraries that the site profile binds.
    Run it on a compute node too: a login node may lack drivers and directories. What cannot be determined is reported
    as unknown.

    Exit codes: 0 ok or warn, 1 fail.

    \b
    Examples:
      hpcmod compat pytorch.sif
      hpcmod compat PyTorch
      hpcmod compat --site lumi --json "$SIF" | jq -r .level
    """
    here, path = look_around(site), Path(image)
    if path.is_file():
        record = read_record(path.absolute().parent)
    elif names_image(image):
        raise NotFoundError(f"{image}: no such image", "See hpcmod ls, or hpcmod fetch.")
    else:
        record = find_copy(here, image).record
        path = Path(record.image.path)
        if not record.image.path:
            raise NotFoundError(f"{image}: its image was removed", "See: hpcmod ls")
    case = make_case(path, site_of(record, here.site, os.environ, asked=site, tell=tell), os.environ)
    verdict = judge(case, RULES)
    if as_json:
        sources = {rule.name: rule.source for rule in RULES}
        findings = tuple(SourcedFinding(finding, sources[finding.rule]) for finding in verdict.findings)
        print_json(Fit(path, case.site.name, verdict.level, findings, case.image, case.host, case.loaded))
    else:
        print_findings(verdict.findings)
        print_text(f"{verdict.level}: {path} on {case.site.name}")
    sys.exit(CheckFailedError.exit_code if verdict.level == FAIL else 0)
