"""The command `hpcmod bake`: put packages into a new image."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hpcmod.catalogue import complete_image, find_ready, look_around
from hpcmod.core.cli.arguments import complete_file, site_option
from hpcmod.core.cli.flags import with_flags
from hpcmod.core.cli.output import format_size, json_option, print_data, print_json, print_text, print_wrapped, tell
from hpcmod.core.cli.signals import terminate_cleanly
from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.core.progress import ProgressLine
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.reference import LOCAL_KINDS, ImageReference
from hpcmod.machine import find_machine
from hpcmod.modules import Installed
from hpcmod.packages.cli.show import count_packages
from hpcmod.packages.cli.wanted import WantedFlags, index_options, read_wanted, tell_not_run, wanted_options

if TYPE_CHECKING:
    from hpcmod.machine.values.site import Site
    from hpcmod.packages.bake.image import BaseImage
    from hpcmod.packages.baking import Baked


@dataclass(frozen=True)
class BakeFlags(WantedFlags):
    """Argument and options of `hpcmod bake`."""

    image: str
    output: Path
    packages: Path | None
    dry_run: bool
    force: bool
    site: str | None
    as_json: bool


@click.command("bake")
@click.argument("image", metavar="NAME[/VERSION]|SIF", shell_complete=complete_image)
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), required=True, help="File to write.")
@wanted_options
@click.option(
    "--packages",
    metavar="PATH",
    type=click.Path(path_type=Path),
    shell_complete=complete_file,
    help="Directory or squashfs with packages that are installed already (default: your own for the container).",
)
@index_options
@click.option("--dry-run", is_flag=True, help="Print what would be added; write nothing.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@site_option
@json_option("hpcmod.packages.baking:Baked")
@with_flags(BakeFlags)
def bake_verb(flags: BakeFlags) -> None:
    """Put packages into a new image.

    Adds the packages that you installed on top of a container, or those of -r, --conda or --lock, which it installs on
    top of a SIF or a container. The new SIF has them without a module, so that others can use
    it or you can publish it. No container is built: the compressed blocks of the image are copied.

    Versions and hashes of -r and --conda are written to pylock.OUT.toml. The same image and packages, or lock file,
    always give the same SIF.

    \b
    Examples:
      hpcmod bake PyTorch -o mine.sif
      hpcmod bake PyTorch -r requirements.txt -o mine.sif --dry-run
      hpcmod bake ubuntu.sif --conda environment.yml -o mine.sif
      hpcmod bake PyTorch --lock pylock.mine.toml -o again.sif
    """
    from hpcmod.packages.bake.writing import NewFile
    from hpcmod.packages.baking import BakeRequest, bake_own, bake_packages, plan_packages
    from hpcmod.packages.builder import make_builder

    _check_image(flags.image)
    wanted = read_wanted(flags, own=True)
    if wanted.adds and flags.packages:
        raise click.UsageError("--packages and -r, --conda or --lock exclude each other")
    if not wanted.adds and (flags.requirement_files or flags.conda):
        raise BadInputError("the files name no package", "Add a line for each package.")
    site = find_machine(None, os.environ, flag=flags.site).site
    lock = Path(flags.lock_file) if flags.lock_file else None
    builder = make_builder(os.environ, tell=tell) if wanted.adds else None
    with terminate_cleanly(), ProgressLine(flags.output.name) as progress:
        new = NewFile(flags.output, force=flags.force, environ=os.environ, progress=progress)
        base, installed = _read_base(flags, site, hashed=builder is not None)
        if builder is None:
            packages = _choose_packages(flags, installed)
            venv = installed.name.lower() if installed else ""
            if not flags.dry_run:
                flags.output.absolute().parent.mkdir(parents=True, exist_ok=True)
            baked = bake_own(base, packages, new, venv=venv, dry_run=flags.dry_run)
        else:
            request = BakeRequest(base, wanted, new, lock)
            tell(f"installing packages for {base.shown} ...")
            baked = plan_packages(request, builder) if flags.dry_run else bake_packages(request, builder)
    _report(flags, baked, base)


def _check_image(image: str) -> None:
    """Check that an image is an existing SIF, or may be the name of a container."""
    from hpcmod.images import recognize

    if recognize(ImageReference.parse(image)).kind not in LOCAL_KINDS:
        raise BadInputError(f"{image}: not a SIF", f"Make one of it: hpcmod fetch {sh_word(image)} -o base.sif")
    if image.endswith(".sif") and not Path(image).exists():
        raise NotFoundError(f"{image}: no such file", "Check the path of the image.")


def _read_base(flags: BakeFlags, site: Site, *, hashed: bool) -> tuple[BaseImage, Installed | None]:
    """Return the image, and the container that it belongs to, if any.

    `hashed`: Whether the checksum of the image is needed.
    """
    from hpcmod.images import LocalImage
    from hpcmod.packages.bake.image import read_base

    path = Path(flags.image)
    if path.is_file():
        reference = ImageReference.parse(str(path.absolute()))
        local = LocalImage.verify(path, reference, site.images.trust, checksum=None, environ=os.environ)
        return read_base(Path(local.place), path.name, sha256=local.sha256 or (None if hashed else "")), None
    installed = find_ready(look_around(flags.site), flags.image)
    sif, sha256 = Path(installed.image.path), installed.image.sha256
    return read_base(sif, installed.module, sha256=sha256), installed


def _choose_packages(flags: BakeFlags, installed: Installed | None) -> Path:
    """Return the path of the packages that are installed already."""
    if flags.packages:
        return flags.packages
    if installed is None:
        raise NotFoundError(
            f"{flags.image}: no packages named, and you have none of your own for an image that is not installed",
            "Name them: -r FILE, --conda FILE or --packages PATH; or name an installed container.",
        )
    from hpcmod.modules import find_packages

    own = find_packages(installed.root, installed.record.own_packages, os.environ)
    if not own.exists():
        raise NotFoundError(
            f"{installed.module}: you have no packages of your own for it",
            f"Add some: hpcmod add {installed.name} PACKAGE; or name them: -r FILE, --conda FILE or --packages PATH",
        )
    return own


def _report(flags: BakeFlags, baked: Baked, base: BaseImage) -> None:
    image = baked.image
    for part in image.left_out:
        tell(f"left out, because it does not fit the new image: {part}")
    for pin in baked.in_base:
        tell(f"{pin.replace('==', ' ')} is in the image")
    for package in image.editable:
        tell(
            f"{package.name} is editable: its code stays in {package.path}, and is not in the image; "
            "install it without -e"
        )
    tell_not_run(baked.of_conda.conda)
    if baked.of_conda.replaced:
        tell(f"conda packages replace files of the image: {', '.join(baked.of_conda.replaced[:5])}")
    if flags.as_json:
        print_json(baked)
    elif flags.dry_run:
        _print_plan(baked)
    else:
        count = len(image.added or ()) + len(baked.of_conda.conda)
        tell(f"added {count_packages(count)}; {format_size(image.size)}, sha256 {image.sha256}")
        if baked.lock:
            tell(f"versions and hashes are in {baked.lock}")
        if base.facts.python and not baked.of_conda.conda:  # conda's is on PATH
            tell(f"to use them: singularity exec {sh_word(baked.path)} {sh_word(base.facts.python.executable)}")
        print_data(baked.path)


def _print_plan(baked: Baked) -> None:
    image = baked.image
    print_text(f"image: {baked.base}{f' (sha256 {baked.base_sha256})' if baked.base_sha256 else ''}")
    if baked.packages:
        print_text(f"packages: {baked.packages}")
    for line in baked.conda_requirements:
        print_text(f"requirement: {line} (conda)")
    for line in baked.requirements:
        print_text(f"requirement: {line}")
    if baked.of_conda.conda:
        pins = ", ".join(f"{package.name}=={package.version}" for package in baked.of_conda.conda)
        print_wrapped(f"added by conda: {pins}")
    if image.added is None:
        print_text("added: known when the conda packages are installed")
    else:
        print_wrapped(f"added: {', '.join(image.added) or 'no Python packages'}")
    if image.commands:
        print_wrapped(f"commands: {', '.join(image.commands)}")
    if image.prefix:
        print_text(f"in the image: {image.prefix}, for Python {image.python}")
    if baked.lock:
        print_text(f"lock: {baked.lock}")
    print_text(f"path: {baked.path}{f', at most {format_size(image.size)}' if image.size else ''}")
