"""The command `hpcmod export`: describe a container for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from hpcmod.cli.containers import complete_image, find_copy, json_option, look_around, site_option
from hpcmod.cli.groups import CommandGroup
from hpcmod.cli.output import print_data, print_json, print_message
from hpcmod.errors import NotFoundError


@click.group("export", cls=CommandGroup)
def exporting() -> None:
    """Describe a container for other tools.

    \b
    Examples:
      hpcmod export edf PyTorch > ~/.edf/pytorch.toml
      hpcmod export reframe PyTorch > pytorch_checks.py
      hpcmod export easystack SAMtools-1.22-singularity.eb > tools.yaml
    """


@exporting.command("edf")
@click.argument("container", shell_complete=complete_image)
@click.option(
    "--image", default="", metavar="IMAGE", help="docker://... or /PATH.sqsh to name as the image (default: its own)."
)
@site_option
@json_option
def edf_verb(container: str, image: str, site: str | None, as_json: bool) -> None:
    """Print an environment definition file (EDF) for CSCS's Container Engine.

    CONTAINER is the name of an installed container, or an easyconfig. Anything that the file cannot have is listed in
    its comments and on stderr.

    \b
    Examples:
      hpcmod export edf PyTorch/2.7.1 > ~/.edf/pytorch.toml
      hpcmod export edf tool-1.2.eb --image /capstor/tool.sqsh
    """
    from hpcmod.check.easyconfigs.files import read_recipe
    from hpcmod.model.easyconfigs.edf import make_edf
    from hpcmod.render.edf import render_edf

    path, _ = _find_easyconfig(container, site)
    edf = make_edf(read_recipe(path), str(path), image=image)
    text = render_edf(edf)
    if as_json:
        print_json(module=edf.module, easyconfig=str(path), edf=text, left_out=edf.left_out, changed=edf.changed)
        return
    print_data(text, nl=False)
    for clause in edf.left_out:
        print_message(f"not carried over: {clause}")
    for clause in edf.changed:
        print_message(f"changed: {clause}")


@exporting.command("reframe")
@click.argument("container", shell_complete=complete_image)
@site_option
@json_option
def reframe_verb(container: str, site: str | None, as_json: bool) -> None:
    """Print ReFrame tests of a container.

    CONTAINER is the name of an installed container, or an easyconfig. There is a test for each command in
    `sanity_check_commands`. For an installed container with PyTorch or mpi4py, two more run `hpcmod verify-net` and
    `hpcmod bench` on two nodes.

    \b
    Examples:
      hpcmod export reframe PyTorch/2.7.1 > pytorch_checks.py
      reframe -C settings.py -c pytorch_checks.py -r
    """
    from hpcmod.check.easyconfigs.files import read_recipe
    from hpcmod.model.easyconfigs.reframe import read_reframe_tests, render_reframe

    path, packages = _find_easyconfig(container, site)
    tests = read_reframe_tests(read_recipe(path), str(path), packages=packages)
    text = render_reframe(tests)
    if as_json:
        print_json(module=tests.module, easyconfig=str(path), reframe=text, network=tests.networked)
    else:
        print_data(text, nl=False)


@exporting.command("easystack")
@click.argument("containers", nargs=-1, required=True, shell_complete=complete_image)
@site_option
@json_option
def easystack_verb(containers: tuple[str, ...], site: str | None, as_json: bool) -> None:
    """Print an easystack file, with which EasyBuild installs several containers.

    CONTAINERS are names of installed containers, or easyconfigs.

    \b
    Examples:
      hpcmod export easystack PyTorch SAMtools > stack.yaml
      eb --easystack stack.yaml
    """
    names = [_find_easyconfig(container, site)[0].name for container in containers]
    if as_json:
        print_json(easyconfigs=names)
    else:
        print_data("easyconfigs:")
        for name in names:
            print_data(f"  - {name}")


def _find_easyconfig(container: str, site: str | None) -> tuple[Path, tuple[str, ...]]:
    """Return an easyconfig, the file itself or that of an installed container, and the packages of its image."""
    if container.endswith(".eb"):
        if not Path(container).is_file():
            raise NotFoundError(f"{container}: no such file", "Give an easyconfig, or the name of a container.")
        return Path(container), ()
    installed = find_copy(look_around(site), container)
    found = sorted((installed.root / "easybuild").glob("*.eb"))
    if not found:
        raise NotFoundError(
            f"{installed.module}: its easyconfig is not in {installed.root / 'easybuild'}",
            "Give the easyconfig that it was installed from: hpcmod export ... FILE.eb",
        )
    return found[0], tuple(package.name for package in installed.packages)
