"""The verbs for users: install, inspect, doctor."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import click

from hpcmod import resources
from hpcmod.check.doctor import check_machine
from hpcmod.cli.environment import eb_environment
from hpcmod.cli.findings import show_findings
from hpcmod.image.contents import read_facts
from hpcmod.process import call
from hpcmod.render.quote import terminal

JSON_VERSION = 1


@click.command()
@click.argument("easyconfigs", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Print the plan and install nothing.")
@click.option("--rebuild", is_flag=True, help="Install again; your own packages and an unchanged image are kept.")
@click.option("--site", help="Name or file of the site profile.")
def install(easyconfigs: tuple[str, ...], dry_run: bool, rebuild: bool, site: str | None) -> None:
    """Install container modules from easyconfigs: composes and runs `eb`.

    \b
    Examples:
      hpcmod install PyTorch-2.7.1-rocm-6.2.4-singularity.eb
      hpcmod install --dry-run --site lumi PyTorch-2.7.1-rocm-6.2.4-singularity.eb
    """
    flags = ["--extended-dry-run"] * dry_run + ["--rebuild"] * rebuild
    ours = {"EB_PYTHON": sys.executable, **eb_environment()}
    if find_spec("easybuild.easyblocks.generic.containermodule"):
        # not needed, and EasyBuild takes it only where easybuild-easyblocks is installed as well
        ours.pop("EASYBUILD_INCLUDE_EASYBLOCKS", None)
    environ = {**os.environ, **ours}
    if site:
        environ["HPCMOD_SITE"] = site
    sys.exit(call(["eb", *easyconfigs, *flags], env=environ))


@click.command()
@click.argument("image", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def inspect(image: Path, as_json: bool) -> None:
    """Say what is in an image, without starting it.

    \b
    Example:
      hpcmod inspect --json image.sif | jq .packages
    """
    facts = read_facts(image)
    if as_json:
        click.echo(json.dumps({"version": JSON_VERSION, **asdict(facts)}, indent=1))
        return
    click.echo(f"architecture: {facts.architecture}")
    click.echo(f"size: {facts.size} bytes")
    python = f"{facts.python.version} {facts.python.executable}" if facts.python else "none found"
    click.echo(terminal(f"python: {python}"))
    for package in facts.packages:
        click.echo(terminal(f"package: {package.name} {package.version}"))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(as_json: bool) -> None:
    """Look at this machine, and say what an installation would stumble over.

    \b
    Example:
      hpcmod doctor
    """
    show_findings(check_machine(os.environ, str(resources.easyconfigs_directory())), as_json=as_json)
