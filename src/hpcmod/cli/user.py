"""The verbs for users: install, inspect, env, site, doctor."""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import click

from hpcmod import machine, resources
from hpcmod.check.doctor import FAIL, check_machine
from hpcmod.image.contents import read_facts
from hpcmod.process import call

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
    ours = {"EB_PYTHON": sys.executable, **_eb_environment()}
    if find_spec("easybuild.easyblocks.generic.containermodule"):
        # not needed, and EasyBuild takes it only where easybuild-easyblocks is installed as well
        ours.pop("EASYBUILD_INCLUDE_EASYBLOCKS", None)
    environ = {**os.environ, **ours}
    if site:
        environ["HPCMOD_SITE"] = site
    sys.exit(call(["eb", *easyconfigs, *flags], env=environ))


def _eb_environment() -> dict[str, str]:
    """Variables with which any `eb` finds our easyblocks and easyconfigs."""
    robot = os.environ.get("EASYBUILD_ROBOT_PATHS", "")
    path = os.environ.get("PYTHONPATH", "")
    ours = str(resources.easyconfigs_directory())
    include = {"EASYBUILD_INCLUDE_EASYBLOCKS": f"{resources.easyblocks_directory()}/container*.py"}
    return {
        **(include if resources.is_checkout() else {}),
        "EASYBUILD_ROBOT_PATHS": robot if ours in robot.split(":") else f"{ours}:{robot}",
        "PYTHONPATH": ":".join(dict.fromkeys([str(resources.import_directory()), *filter(None, path.split(":"))])),
    }


@click.command()
def env() -> None:
    """Print the exports with which a site's own `eb` finds our easyblocks and easyconfigs.

    \b
    Example:
      eval "$(hpcmod env)"; eb PyTorch-2.7.1-rocm-6.2.4-singularity.eb
    """
    for name, value in _eb_environment().items():
        click.echo(f"export {name}={shlex.quote(value)}")


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
    click.echo(f"python: {facts.python.version + ' ' + facts.python.executable if facts.python else 'none found'}")
    for package in facts.packages:
        click.echo(f"package: {package.name} {package.version}")


@click.group()
def site() -> None:
    """Look at site profiles: what is true of a machine."""


@site.command("list")
def site_list() -> None:
    """List the shipped profiles.

    \b
    Example:
      hpcmod site list
    """
    for name in sorted(resources.site_profiles()):
        click.echo(name)


@site.command("show")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def site_show(name: str | None, as_json: bool) -> None:
    """Show a profile, or the one of this machine, with what it extends.

    \b
    Example:
      hpcmod site show lumi
    """
    values = asdict(machine.load_site(name, {} if name else os.environ))
    if as_json:
        click.echo(json.dumps({"version": JSON_VERSION, **values}, indent=1))
        return
    for key, value in values.items():
        click.echo(f"{key} = {json.dumps(value)}")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(as_json: bool) -> None:
    """Look at this machine, and say what an installation would stumble over.

    \b
    Example:
      hpcmod doctor
    """
    findings = list(check_machine(os.environ, str(resources.easyconfigs_directory())))
    if as_json:
        click.echo(json.dumps({"version": JSON_VERSION, "findings": [asdict(one) for one in findings]}, indent=1))
    else:
        for one in findings:
            click.echo(f"{one.verdict:4} {one.subject}: {one.found}")
            if one.cure:
                click.echo(f"     {one.cure}")
    sys.exit(any(one.verdict == FAIL for one in findings))
