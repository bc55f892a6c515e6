"""The command `hpcmod bundle`: export easyconfigs and images as one file, and import it on an offline machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hpcmod.catalogue.bundle import read_bundle, write_bundle
from hpcmod.catalogue.cli.containers import look_around
from hpcmod.catalogue.cli.easyconfigs import find_recipe
from hpcmod.core.cli.arguments import site_option
from hpcmod.core.cli.groups import CommandGroup
from hpcmod.core.cli.output import print_data, tell
from hpcmod.core.cli.signals import terminate_cleanly
from hpcmod.core.errors import BadInputError, NotFoundError, VerificationError
from hpcmod.core.fs.replacing import scratch
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.progress import ProgressLine
from hpcmod.images import Sif
from hpcmod.modules import ImageSource, image_directories, read_recipe, source_directories
from hpcmod.modules.values.easyconfig_text import read_named_image

if TYPE_CHECKING:
    from hpcmod.images import ObtainOptions


@click.group(cls=CommandGroup)
def bundle() -> None:
    """Pack easyconfigs and images for an offline machine.

    \b
    Examples:
      hpcmod bundle export torch.tar torch.eb
      hpcmod bundle import torch.tar
    """


@bundle.command("export")
@click.argument("output", metavar="BUNDLE.tar", type=click.Path(path_type=Path))
@click.argument("what", metavar="NAME[/VERSION]|EASYCONFIG|IMAGE...", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Replace an existing bundle.")
@site_option
def bundle_export(output: Path, what: tuple[str, ...], force: bool, site: str | None) -> None:
    """Write containers of a catalogue, easyconfigs (files that end in .eb) and images into one tar.

    Images are looked for next to their easyconfig, in EasyBuild's source path, in the site's directories and in the
    catalogues; missing ones are fetched. SHA256SUMS in the tar has the checksum of every file, for `sha256sum -c`.

    \b
    Examples:
      hpcmod bundle export torch.tar PyTorch/2.7.1-rocm-6.2.4-singularity
      hpcmod bundle export torch.tar easyconfigs/p/PyTorch/PyTorch-2.13.0-cpu-singularity.eb
      hpcmod bundle export tools.tar docker://ghcr.io/org/tool@sha256:... other.sif
    """
    from hpcmod.images import make_options  # slow to import: see image.py

    _check_output(output, force=force)
    here = look_around(site)
    options = make_options(here.site, os.environ, tell=tell)
    central = (*here.site.images.central, *(str(catalogue.images) for catalogue in here.catalogues))
    named = [str(find_recipe(here, text).easyconfig) if _is_container(text) else text for text in what]
    files: list[Path] = []
    clear_leftovers(output.absolute().parent, output.name)
    with terminate_cleanly(), scratch(output.absolute()) as made:
        sums: dict[str, str] = {}
        for text in named:
            files += _collect(text, made.directory, options, central, sums)
        files = list({path.absolute(): path for path in files}.values())  # two easyconfigs may name one image
        for path in files:
            print_data(path.name if path.parent == made.directory else path)
        with ProgressLine(output.name) as progress:
            write_bundle(files, output, expected=sums, progress=progress)


def _is_container(text: str) -> bool:
    """Return whether an argument names a container of a catalogue rather than a file or an image reference."""
    return not (text.endswith((".eb", ".sif")) or ":" in text or Path(text).exists())


def _check_output(output: Path, *, force: bool) -> None:
    """Raise an error if the bundle would overwrite another file, above all one that should go into it."""
    if output.suffix in (".eb", ".sif") or output.is_dir():
        raise BadInputError(
            f"{output}: not a valid name for a bundle", "Give the bundle first (BUNDLE.tar), then its contents."
        )
    if not output.absolute().parent.is_dir():
        raise NotFoundError(f"{output.absolute().parent}: no such directory", "Create it, or choose another directory.")
    if output.exists() and not force:
        raise BadInputError(f"{output}: already exists", "Choose another name, or replace it with --force.")


@bundle.command("import")
@click.argument("file", metavar="BUNDLE.tar", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path),
    help="Directory to unpack into (default: the bundle's name).",
)
@click.option("--force", is_flag=True, help="Replace existing files.")
def bundle_import(file: Path, output: Path | None, force: bool) -> None:
    """Verify a bundle and unpack it into one directory, from which `eb` can install.

    \b
    Examples:
      hpcmod bundle import torch.tar && eb torch/*.eb
    """
    if not file.is_file():
        raise NotFoundError(f"{file}: no such file", "Give a bundle made by hpcmod bundle export.")
    directory = output or file.with_suffix("")
    if directory.exists() and not directory.is_dir():
        raise BadInputError(
            f"{directory}: already exists, and is not a directory", "Choose another one with -o DIRECTORY."
        )
    with terminate_cleanly(), ProgressLine(file.name) as progress:
        unpacked = read_bundle(file, directory, replace=force, progress=progress)
    for path in unpacked:
        print_data(path)


def _collect(
    text: str, directory: Path, options: ObtainOptions, central: tuple[str, ...], sums: dict[str, str]
) -> Iterator[Path]:
    """Yield the files that go into the bundle for one argument; fetch an image that is missing.

    The checksum that an easyconfig gives for its image is added to `sums`.
    """
    if not text.endswith(".eb"):
        yield from _image(ImageSource.make(text, [], None), ["."], directory, options)
        return
    easyconfig = Path(text)
    named = read_named_image(read_recipe(easyconfig), text)
    source = ImageSource.make(named.reference, named.source_urls, named.checksum)
    if source.reference.kind == "path":
        name = Path(named.reference).name
        raise BadInputError(
            f"{text}: refers to its image by a path, {named.reference}, which does not exist on the other machine",
            f"Write sources = [{name!r}] in the easyconfig, and put a link to the image next to it.",
        )
    parents = [str(easyconfig.absolute().parent), *map(str, source_directories(None, options.environ))]
    places = image_directories(parents, named.software or "_", central)
    yield easyconfig
    image, *beside = _image(source, places, directory, options)
    if source.checksum and sums.setdefault(image.name, source.checksum) != source.checksum:
        raise VerificationError(
            f"{text}: has checksum {source.checksum} for {image.name}, another easyconfig has {sums[image.name]}",
            "Give each image its own name, or fix `checksums`.",
        )
    yield from (image, *beside)


def _image(source: ImageSource, places: list[str], directory: Path, options: ObtainOptions) -> Iterator[Path]:
    """Yield the image and its provenance file, after fetching an image that is missing to the directory."""
    reference = source.reference
    there = source.locate(places)
    if there is None and not source.origins:
        raise source.missing(places)
    sif = there or directory / reference.file_name
    if there is None:
        with ProgressLine(sif.name) as progress:
            source.fetch(directory, options=options, beside=places, progress=progress)
    yield sif
    if Sif(sif).sidecar.is_file():
        yield Sif(sif).sidecar
