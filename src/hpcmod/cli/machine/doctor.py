"""The commands that inspect an image and this machine: inspect, doctor."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from itertools import chain
from pathlib import Path

import click

from hpcmod import resources
from hpcmod.catalogue.session import check_advisories, retired_installations
from hpcmod.check.doctor import check_machine
from hpcmod.check.fit import check_all
from hpcmod.check.installation import check_installations
from hpcmod.check.security import check_directory, check_policy
from hpcmod.cli.findings import show_findings
from hpcmod.cli.output import print_data, print_text
from hpcmod.image.inspect.contents import read_facts

JSON_VERSION = 1


@click.command()
@click.argument("image", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def inspect(image: Path, as_json: bool) -> None:
    """Show what an image contains, without starting it.

    \b
    Example:
      hpcmod inspect --json image.sif | jq .packages
    """
    facts = read_facts(image)
    if as_json:
        print_data(json.dumps({"version": JSON_VERSION, **asdict(facts)}, indent=1))
        return
    print_text(f"architecture: {facts.architecture}")
    print_text(f"size: {facts.size} bytes")
    python = f"{facts.python.version} {facts.python.executable}" if facts.python else "none found"
    print_text(f"python: {python}")
    for package in facts.packages:
        print_text(f"package: {package.name} {package.version}")


@click.command()
@click.argument("images", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--security",
    "shared",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Shared directory to check for unsafe permissions, instead of this machine.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(images: tuple[Path, ...], shared: Path | None, as_json: bool) -> None:
    """Check this machine for problems.

    Also checks that installed container modules are complete, and that IMAGES (default: those of the modules) fit this
    machine.

    \b
    Examples:
      hpcmod doctor
      hpcmod doctor pytorch.sif
      hpcmod doctor --security /appl/containers
    """
    if shared and images:
        raise click.UsageError("give images, or a directory with --security, not both")
    if shared:
        show_findings(chain(check_directory(shared), check_policy(os.environ)), as_json=as_json)
    machine = check_machine(os.environ, str(resources.easyconfigs_directory()))
    installed = () if images else check_installations(os.environ, retired=retired_installations(os.environ))
    fits = check_all(images, os.environ)
    show_findings(chain(machine, installed, check_advisories(os.environ), fits), as_json=as_json)
