"""The command `hpcmod export`: describe a container for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from hpcmod.cli.containers import complete_image, find_copy, json_option, look_around, site_option
from hpcmod.cli.output import print_data, print_json, print_message
from hpcmod.errors import NotFoundError


@click.group("export")
def exporting() -> None:
    """Describe a container for other tools.

    \b
    Example:
      hpcmod export edf PyTorch > ~/.edf/pytorch.toml
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

    path = _find_easyconfig(container, site)
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


def _find_easyconfig(container: str, site: str | None) -> Path:
    """Return an easyconfig: the file itself, or the one that a container was installed from."""
    if container.endswith(".eb"):
        if not Path(container).is_file():
            raise NotFoundError(f"{container}: no such file", "Give an easyconfig, or the name of a container.")
        return Path(container)
    installed = find_copy(look_around(site), container)
    found = sorted((installed.root / "easybuild").glob("*.eb"))
    if not found:
        raise NotFoundError(
            f"{installed.module}: its easyconfig is not in {installed.root / 'easybuild'}",
            "Give the easyconfig that it was installed from: hpcmod export edf FILE.eb",
        )
    return found[0]
