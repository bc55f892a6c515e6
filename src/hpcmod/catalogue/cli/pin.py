"""The command `hpcmod catalogue pin`: write the digests of images into easyconfigs."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hpcmod.core.cli.arguments import site_option
from hpcmod.core.cli.output import json_option, print_json, print_text, tell
from hpcmod.core.errors import HpcmodError
from hpcmod.core.fs.tree import write_file
from hpcmod.core.values.reference import ImageReference
from hpcmod.machine import find_machine
from hpcmod.modules import read_recipe
from hpcmod.modules.values.easyconfig_text import read_named_image

if TYPE_CHECKING:
    from hpcmod.images import ObtainOptions


@dataclass(frozen=True)
class PinnedEasyconfig:
    """An easyconfig and the digest of its image."""

    path: Path
    image: str
    digest: str
    """Empty: the image is not in a registry."""
    changed: bool


@dataclass(frozen=True)
class PinnedEasyconfigs:
    """Easyconfigs and the digests of their images."""

    dry_run: bool
    easyconfigs: tuple[PinnedEasyconfig, ...]


@click.command("pin")
@click.argument("easyconfigs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--allow-http", is_flag=True, help="Ask a registry without TLS.")
@click.option("--dry-run", is_flag=True, help="Print the digests; write nothing.")
@site_option
@json_option(PinnedEasyconfigs)
def pin_verb(easyconfigs: tuple[Path, ...], allow_http: bool, dry_run: bool, site: str | None, as_json: bool) -> None:
    """Write the digests of images into easyconfigs.

    Asks the registry what the tag of each image means now, and adds that digest to `image`. From then on, the
    easyconfig installs that image, whatever happens to the tag. An image that has a digest is left unchanged. If one
    cannot be pinned, the others are, and the exit code is that of the first error.

    \b
    Examples:
      hpcmod catalogue pin PyTorch-2.10.0-ngc-25.12-singularity.eb
      hpcmod catalogue pin --dry-run easyconfigs/*/*/*.eb
    """
    from hpcmod.images import make_options

    profile = find_machine(None, os.environ, flag=site).site
    options = make_options(profile, os.environ, use_cache=False, allow_http=allow_http, tell=tell)
    rows, failed = [], 0
    for path in easyconfigs:
        try:
            row = _pin(path, options, dry_run=dry_run)
        except HpcmodError as err:
            tell(f"{path}: {err.message}. {err.cure}")
            failed = failed or err.exit_code
            continue
        rows.append(row)
        if not as_json:
            unchanged = "unchanged" if row.digest else "not in a registry"
            print_text(f"{'pinned' if row.changed else unchanged:17} {path}  {row.digest}".rstrip())
    if as_json:
        print_json(PinnedEasyconfigs(dry_run, tuple(rows)))
    sys.exit(failed)


def _pin(path: Path, options: ObtainOptions, *, dry_run: bool) -> PinnedEasyconfig:
    from hpcmod.images import Origin
    from hpcmod.modules.values.pinning import pin_image

    text = read_recipe(path)
    reference = ImageReference.parse(read_named_image(text, str(path)).reference)
    digest = Origin(reference, options).pin().digest
    changed = bool(digest) and not reference.digest
    if changed:
        new = pin_image(text, str(path), digest)
        if not dry_run:
            write_file(path, new, mode=path.stat().st_mode & 0o777)
    return PinnedEasyconfig(path, reference.canonical, digest, changed)
