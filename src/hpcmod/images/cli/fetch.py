"""The command `hpcmod fetch`: an image from anywhere as a verified SIF.

Registry clients are imported where they are needed, because they would slow down the start of every other command.
"""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hpcmod.core.cli.arguments import complete_file, site_option
from hpcmod.core.cli.flags import with_flags
from hpcmod.core.cli.output import json_option, print_data, print_json, print_text, tell
from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.core.fs.checksums import parse_sha256
from hpcmod.core.progress import ProgressLine
from hpcmod.core.values.compression import ANY_OF
from hpcmod.core.values.facts import Provenance
from hpcmod.core.values.json_form import SPLICED
from hpcmod.core.values.reference import LOCAL_KINDS, OCI_KINDS, ImageReference
from hpcmod.images.acquire.locate import recognize
from hpcmod.images.trust.provenance import render_provenance
from hpcmod.machine import find_machine

if TYPE_CHECKING:
    from hpcmod.images.acquire.origin import ObtainOptions


@dataclass(frozen=True)
class FetchedImage:
    """The fetched image."""

    path: Path
    """Path of the SIF."""
    fetched: bool
    """False: it was there already."""
    provenance: Provenance = field(metadata=SPLICED)


@dataclass(frozen=True)
class FetchFlags:
    """Arguments and options of `hpcmod fetch`."""

    image: str
    output: Path | None
    dry_run: bool
    as_json: bool
    no_cache: bool
    checksum: str | None
    compression: str | None
    allow_http: bool
    force: bool
    site: str | None


@click.command()
@click.argument("image", metavar="IMAGE", shell_complete=complete_file)
@click.option(
    "-o", "--output", metavar="FILE|DIRECTORY", type=click.Path(path_type=Path), help="File or directory to write to."
)
@click.option("--dry-run", is_flag=True, help="Print what would be fetched; fetch nothing.")
@json_option(FetchedImage, "hpcmod.images.acquire.origin:FetchPlan")
@click.option("--no-cache", is_flag=True, help="Keep only the SIF on disk, no downloaded layers.")
@click.option("--checksum", metavar="SHA256", help="Expected sha256 of the SIF.")
@click.option("--compression", metavar="NAME[:LEVEL]", help=f"{ANY_OF} (default: the site's).")
@click.option("--allow-http", is_flag=True, help="Allow plain http if a server does not offer https.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@site_option
@with_flags(FetchFlags)
def fetch(flags: FetchFlags) -> None:
    """Fetch an image as a verified SIF and print its path.

    IMAGE is an OCI layout, an archive or a SIF on disk, https://..., docker://HOST/NAME:TAG or @sha256:...,
    or oras://.... To choose one of several images in a layout or archive: oci:DIRECTORY:TAG,
    oci-archive:FILE:TAG or docker-archive:FILE:TAG.

    Container images are converted without a container runtime, and the same image always gives the same SIF.
    Interrupted downloads resume, and an existing image is not fetched again. The source is recorded in a file next to
    the image.

    \b
    Examples:
      hpcmod fetch docker://docker.io/pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime
      hpcmod fetch --dry-run docker://ghcr.io/org/image:1    # its digest, its size, and what is in the cache
      hpcmod fetch torch.tar --compression gzip:6            # from docker save
      hpcmod fetch -o torch.sif --checksum 3f79...d1 https://example.org/torch.sif
    """
    from hpcmod.images.acquire.obtain import obtain
    from hpcmod.images.settings import make_options

    reference = recognize(ImageReference.parse(flags.image.rstrip("/") or flags.image))
    _check_exists(reference, flags.image)
    if flags.compression and reference.kind not in OCI_KINDS:
        fault = f"{flags.image} is already a SIF: --compression applies only to OCI images"
        raise BadInputError(fault, "Omit it, or fetch the OCI image that the SIF was made from.")
    out = flags.output or Path(reference.file_name)
    out = out / reference.file_name if out.is_dir() else out
    site = find_machine(None, os.environ, flag=flags.site).site
    options = replace(
        make_options(
            site,
            os.environ,
            use_cache=not flags.no_cache,
            allow_http=flags.allow_http,
            compression=flags.compression,
            tell=tell,
        ),
        checksum=parse_sha256(flags.checksum) if flags.checksum else None,
    )
    if flags.dry_run:
        _print_fetch_plan(reference, out, options, flags.as_json)
        return
    with ProgressLine(out.name) as progress:
        options = replace(options, replace=flags.force)
        got = obtain(reference, out, options=options, progress=progress)
    if not got.fetched and reference.kind == "url" and not flags.checksum:
        tell(f"{out}: already exists, fetched from this address on {got.provenance.time}; --force fetches it again")
    elif not got.fetched:
        tell(f"{out}: already present (identical)")
    if flags.as_json:
        print_json(FetchedImage(got.path, got.fetched, got.provenance))
        return
    for line in render_provenance(got.provenance):
        tell(line)
    print_data(got.path)


def _check_exists(reference: ImageReference, asked: str) -> None:
    """Check that a local path exists; for one that looks like a registry name, suggest docker://.

    Raises NotFoundError if the file does not exist.
    """
    path = Path(reference.path or asked)
    if reference.kind not in LOCAL_KINDS or path.exists():
        return
    named = re.fullmatch(r"[a-z0-9][a-z0-9._/-]*(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?", asked)
    looks_like_file = path.suffix in (".sif", ".tar", ".img", ".simg", ".def") or asked.endswith(".tar.gz")
    cure = f"For an image in a registry: docker://{asked}" if named and not looks_like_file else "Check the path."
    raise NotFoundError(f"{path}: no such file", cure)


def _print_fetch_plan(reference: ImageReference, out: Path, options: ObtainOptions, as_json: bool) -> None:
    from hpcmod.images.acquire.origin import Origin

    found = Origin(reference, options).plan(out)
    if as_json:
        print_json(found)
        return
    for name, value in asdict(found).items():
        if value not in (None, ""):
            print_text(f"{name.replace('_', ' ')}: {value}")
