"""The verbs for users: install, inspect, doctor."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from itertools import chain
from pathlib import Path

import click

from hpcmod import resources
from hpcmod.catalogue.loaded import check_advisories
from hpcmod.check.doctor import check_machine
from hpcmod.check.fit import check_all
from hpcmod.cli.containers import complete_container, look_around
from hpcmod.cli.findings import show_findings
from hpcmod.cli.recipes import eb_environ, find_recipe, is_easyconfig
from hpcmod.image.contents import read_facts
from hpcmod.process import call
from hpcmod.render.quote import terminal

JSON_VERSION = 1


@click.command()
@click.argument(
    "containers", metavar="CONTAINER|EASYCONFIG...", nargs=-1, required=True, shell_complete=complete_container
)
@click.option("--dry-run", is_flag=True, help="Print the plan and install nothing.")
@click.option("--rebuild", is_flag=True, help="Install again; your own packages and an unchanged image are kept.")
@click.option("--site", help="Name or file of the site profile.")
def install(containers: tuple[str, ...], dry_run: bool, rebuild: bool, site: str | None) -> None:
    """Install container modules by name, or from easyconfigs: composes and runs `eb`.

    CONTAINER is NAME, NAME/VERSION or NAME/ALIAS of a catalogue.

    \b
    Examples:
      hpcmod install PyTorch
      hpcmod install PyTorch-2.7.1-rocm-6.2.4-singularity.eb
      hpcmod install --dry-run --site lumi PyTorch-2.7.1-rocm-6.2.4-singularity.eb
    """
    flags = ["--extended-dry-run"] * dry_run + ["--rebuild"] * rebuild
    named = [text for text in containers if not is_easyconfig(text)]
    here = look_around(site) if named else None
    recipes = {text: find_recipe(here, text) for text in named} if here else {}
    environ = eb_environ(site, [recipe.images for recipe in recipes.values()])
    easyconfigs = [str(recipes[text].easyconfig) if text in recipes else text for text in containers]
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
@click.argument("images", nargs=-1, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(images: tuple[Path, ...], as_json: bool) -> None:
    """Look at this machine, and say what an installation would stumble over.

    Looks, too, whether IMAGES fit this machine: by default those of the container modules that are installed.

    \b
    Examples:
      hpcmod doctor
      hpcmod doctor pytorch.sif
    """
    machine = check_machine(os.environ, str(resources.easyconfigs_directory()))
    fits = check_all(images, os.environ)
    show_findings(chain(machine, check_advisories(os.environ), fits), as_json=as_json)
