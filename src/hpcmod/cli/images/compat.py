"""The command `hpcmod compat`: check whether an image fits this machine."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path

import click

from hpcmod import machine
from hpcmod.check.compat import make_case
from hpcmod.cli.containers import site_option
from hpcmod.cli.findings import finding_values, print_findings
from hpcmod.cli.output import print_json, print_text
from hpcmod.errors import CheckFailedError
from hpcmod.model.compat.rules import RULES
from hpcmod.model.compat.verdict import Case, Verdict, judge
from hpcmod.model.finding import FAIL


@click.command()
@click.argument("image", type=click.Path(path_type=Path))
@site_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def compat(image: Path, site: str | None, as_json: bool) -> None:
    """Check whether an image fits this machine.

    The image is not started. Prints ok, warn or fail, each with the reason and the fix.

    Checks MPI, libfabric, NCCL's network plugin, glibc, CUDA, ROCm and the host libraries that the site profile binds.
    Run it on a compute node too: a login node may lack drivers and directories. What cannot be determined is reported
    as unknown.

    Exit codes: 0 ok or warn, 1 fail.

    \b
    Examples:
      hpcmod compat pytorch.sif
      hpcmod compat --site lumi --json "$SIF" | jq -r .level
    """
    profile = machine.find_machine(None, os.environ, flag=site).site
    case = make_case(image, profile, os.environ)
    verdict = judge(case, RULES)
    if as_json:
        print_json(**_json_values(image, case, verdict))
    else:
        print_findings(verdict.findings)
        print_text(f"{verdict.level}: {image} on {case.site.name}")
    sys.exit(CheckFailedError.exit_code if verdict.level == FAIL else 0)


def _json_values(image: Path, case: Case, verdict: Verdict) -> dict[str, object]:
    sources = {rule.name: rule.source for rule in RULES}
    return {
        "image": str(image),
        "site": case.site.name,
        "level": verdict.level,
        "findings": [{**finding, "source": sources[finding["rule"]]} for finding in finding_values(verdict.findings)],
        "facts": asdict(case.image),
        "host": asdict(case.host),
        "loaded": [asdict(one) for one in case.loaded],
    }
