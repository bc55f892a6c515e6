"""The command `hpcmod bake`: put a user's packages into a new image."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

import hpcmod
from hpcmod.cli.containers import complete_file, complete_image, find_ready, look_around, site_option
from hpcmod.cli.output import format_size, print_data, print_json, print_text, print_wrapped, tell
from hpcmod.cli.signals import terminate_cleanly
from hpcmod.errors import NotFoundError
from hpcmod.install.installed import Installed
from hpcmod.progress import ProgressLine

if TYPE_CHECKING:
    from hpcmod.image.bake.image import BakePlan, BakeRequest

_PATH = click.Path(path_type=Path)


@click.command("bake")
@click.argument("image", metavar="CONTAINER|IMAGE.sif", shell_complete=complete_image)
@click.option("-o", "--output", metavar="OUT.sif", type=_PATH, required=True, help="File to write.")
@click.option(
    "--packages",
    metavar="PATH",
    type=_PATH,
    shell_complete=complete_file,
    help="Directory or squashfs of the packages (default: your own for this container).",
)
@click.option("--venv", metavar="NAME", default="", help="Virtual environment to use if there are several.")
@click.option("--dry-run", is_flag=True, help="Print what would be added; write nothing.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@site_option
def bake_verb(
    image: str,
    output: Path,
    packages: Path | None,
    venv: str,
    dry_run: bool,
    force: bool,
    as_json: bool,
    site: str | None,
) -> None:
    """Put your own packages into a new image.

    The new SIF has the packages that you installed on top of a container, so that others can use them or you can
    publish it. Nothing is built or unpacked: the compressed blocks of the image are copied. Labels are kept. The same
    image and packages always give the same SIF.

    \b
    Examples:
      hpcmod bake PyTorch -o mine.sif
      hpcmod bake torch.sif --packages user-software.squashfs -o mine.sif
      hpcmod bake --dry-run PyTorch -o mine.sif      # what would be added
    """
    from hpcmod.image.bake.image import bake, plan_bake

    request = _request(image, packages, site, output=output, venv=venv, force=force)
    if dry_run:
        plan = plan_bake(request)
        _tell_editable(plan)
        if as_json:
            print_json(**asdict(plan))
        else:
            _print_plan(plan)
        return
    with terminate_cleanly(), ProgressLine(output.name) as progress:
        made = bake(request, progress=progress)
    for what in made.plan.left_out:
        tell(f"left out, because it does not fit the new image: {what}")
    _tell_editable(made.plan)
    if as_json:
        values = {**asdict(made.plan), "path": str(made.path), "sha256": made.sha256, "size": made.size}
        print_json(**values)
        return
    tell(f"added {len(made.plan.added)} packages; {format_size(made.size)}, sha256 {made.sha256}")
    print_data(made.path)


def _request(
    image: str, packages: Path | None, site: str | None, *, output: Path, venv: str, force: bool
) -> BakeRequest:
    from hpcmod.image.bake.image import BakeRequest

    def request(path: Path, place: Path, name: str, sha256: str) -> BakeRequest:
        return BakeRequest(
            image=path,
            packages=place,
            out=output,
            tool=f"hpcmod {hpcmod.__version__}",
            venv=venv or name,
            sha256=sha256,
            force=force,
            environ=os.environ,
        )

    if image.endswith(".sif") or Path(image).is_file():
        if packages is None:
            raise NotFoundError(
                f"{image}: the packages of an image that is not installed are unknown",
                "Give their path: --packages PATH, or name an installed container instead of a file.",
            )
        return request(Path(image), packages, "", "")
    found = find_ready(look_around(site), image)
    own = packages or next((path for path in own_packages(found) if path.exists()), None)
    if own is None:
        raise NotFoundError(
            f"{found.module}: you have no packages of your own for it",
            f"Add some: hpcmod add {found.name} PACKAGE; or give their path: --packages PATH",
        )
    return request(Path(found.of_image("path")), own, found.name.lower(), found.of_image("sha256"))


def own_packages(found: Installed) -> Iterator[Path]:
    """Yield the places of a user's packages: the active state of their set, else the installation itself."""
    if found.record.get("own_packages"):
        from hpcmod.install.packages.changing import read_target
        from hpcmod.install.packages.sets import open_set
        from hpcmod.model.packages.place import CHOICE_VARIABLE, parse_choice, state_file

        place = read_target(found).place
        choice = parse_choice(os.environ.get(CHOICE_VARIABLE, ""))
        chosen = open_set(place.name, choice, os.environ) if choice else None
        number = chosen.chosen_number(place.tag) if chosen else None
        if chosen and number is not None:
            yield chosen.tree.root / state_file(number, place.tag)
    yield from (found.root / "user-software.squashfs", found.root / "user-software")


def _tell_editable(plan: BakePlan) -> None:
    for one in plan.editable:
        tell(f"{one.name} is editable: its code stays in {one.path}, and is not in the image; install it without -e")


def _print_plan(plan: BakePlan) -> None:
    print_text(f"image: {plan.image}")
    print_text(f"packages: {plan.packages}, {plan.files} files")
    print_wrapped(f"added: {', '.join(plan.added) or 'no Python packages'}")
    if plan.commands:
        print_wrapped(f"commands: {', '.join(plan.commands)}")
    print_text(f"in the image: {plan.prefix}, for Python {plan.python}")
    if plan.left_out:
        print_wrapped(f"left out: {', '.join(plan.left_out)}")
    print_text(f"path: {plan.path}, at most {format_size(plan.bytes)}")
