"""The command `hpcmod verify`: an image, or a published or installed container by its name.

Registry clients are imported where they are needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NoReturn

import click

from hpcmod.catalogue.cli.containers import complete_image, find_copy, look_around
from hpcmod.catalogue.cli.installed import find_publisher
from hpcmod.catalogue.finding.find import find_container
from hpcmod.catalogue.publishing.trial import CheckRun, repeat_checks
from hpcmod.catalogue.records.store import Catalogue, find_catalogues, open_catalogue
from hpcmod.catalogue.values.record import CatalogueRecord
from hpcmod.catalogue.verify import verify_container
from hpcmod.core.cli.arguments import site_option
from hpcmod.core.cli.findings import Findings, show_findings
from hpcmod.core.cli.flags import with_flags
from hpcmod.core.cli.output import json_option, print_json, print_wrapped, tell
from hpcmod.core.errors import BadInputError, CheckFailedError, NotFoundError
from hpcmod.core.fs.checksums import parse_sha256
from hpcmod.core.progress import ProgressLine
from hpcmod.core.registry import offered
from hpcmod.core.values.finding import FAIL, OK, Finding
from hpcmod.core.values.reference import LOCAL_KINDS, ImageReference
from hpcmod.machine import find_machine
from hpcmod.modules import Installed, check_installation, check_recorded, exit_code_of


@dataclass(frozen=True)
class VerifyFlags:
    """Argument and options of `hpcmod verify`."""

    image: str
    checksum: str | None
    keys: tuple[Path, ...]
    checks: bool
    as_json: bool
    allow_http: bool
    site: str | None


@click.command()
@click.argument("image", metavar="NAME[/VERSION]|IMAGE", shell_complete=complete_image)
@click.option("--checksum", metavar="SHA256", help="Expected sha256 of the SIF.")
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Public key; at least one of the given keys must have signed.",
)
@click.option("--checks", is_flag=True, help="Also run the checks of a published container again.")
@json_option("hpcmod.images.verify:Verified", Findings)
@click.option("--allow-http", is_flag=True, help="Allow plain http if a registry does not offer https.")
@site_option
@with_flags(VerifyFlags)
def verify(flags: VerifyFlags) -> None:
    """Verify an image or an installed container.

    Checks that it is complete and unchanged, and that the site's trust policy accepts it.

    IMAGE is a SIF, or docker://... for the signature of an image in a registry. NAME/VERSION is the container that
    `module load` would load, published or your own: its image, scripts and modulefile are compared with its record, and
    so are the packages that you added to it.
    Exit codes: 0 verified, 1 files other than the image differ from the record, 4 tampered with, 9 a signature, digest,
    checksum or attestation that the policy requires is missing, 10 not signed by a key or signer that the policy names.

    \b
    Examples:
      hpcmod verify torch.sif
      hpcmod verify --key /etc/hpcmod/keys/site.pem torch.sif
      hpcmod verify --key cosign.pub docker://ghcr.io/org/image:1
      hpcmod verify --checks PyTorch/2.7.1-rocm-6.2.4-singularity
    """
    image, reference = flags.image, ImageReference.parse(flags.image)
    if reference.kind in LOCAL_KINDS and not Path(image).exists() and not image.endswith(".sif"):
        _verify_container(flags)
    from hpcmod.images import make_options, verify_image

    profile = find_machine(None, os.environ, flag=flags.site).site
    options = make_options(profile, os.environ, allow_http=flags.allow_http)
    options = replace(options, checksum=parse_sha256(flags.checksum) if flags.checksum else None)
    names = tuple(str(key.absolute()) for key in flags.keys)
    with ProgressLine(image) if not flags.as_json else nullcontext() as progress:
        found = verify_image(reference, options=options, keys=names, progress=progress)
    if found.sha256:
        check_recorded(Path(image), found.sha256)
    if flags.as_json:
        print_json(found)
        return
    for name, value in asdict(found).items():
        if value:
            print_wrapped(f"{name}: {value if isinstance(value, str) else '; '.join(value)}")


def _verify_container(flags: VerifyFlags) -> None:
    """Compare a container with its record, print the findings, and exit, with 4 if its image or packages differ.

    If `module load` would load a copy that is not published, that copy is verified. If there is no such copy and no
    catalogue, return without a result: the text is not the name of a container.
    """
    here = look_around(flags.site)
    installed: Installed | None = None
    with suppress(NotFoundError):
        installed = find_copy(here, flags.image)
    if installed and not here.is_published(installed):
        _refuse_keys(flags)
        publisher = find_publisher(installed)
        if publisher:
            open_catalogue(publisher)  # tells how to restore the file that it lost
        _verify_own(installed, as_json=flags.as_json)
    catalogues = find_catalogues(here.site, os.environ, tell=tell)
    if not catalogues:
        return
    container = find_container(catalogues, flags.image)
    _refuse_keys(flags)
    record = container.read_if_allowed()
    with ProgressLine(container.module) as progress:
        findings = list(verify_container(container.catalogue, record, progress=progress))
    if flags.checks:
        findings += _repeat(container.catalogue, record)
    findings += _verify_additions(installed) if installed else ()
    show_findings(findings, as_json=flags.as_json, fail_code=exit_code_of(findings))


def _refuse_keys(flags: VerifyFlags) -> None:
    """Raise BadInputError if a container, which is compared with its record, should have a signature or a checksum."""
    if flags.keys or flags.checksum:
        cure = f"Give the path of its image, which `hpcmod verify {flags.image}` prints."
        raise BadInputError(f"{flags.image} is a container: --key and --checksum are for an image", cure)


def _verify_own(own: Installed, *, as_json: bool) -> NoReturn:
    """Verify an installed copy that is not published, and exit."""
    with ProgressLine(own.module) as progress:
        findings = [*check_installation(own, progress), *_verify_additions(own)]
    show_findings(findings, as_json=as_json, fail_code=exit_code_of(findings))


def _verify_additions(installed: Installed) -> Iterator[Finding]:
    """Yield what other parts of hpcmod find about an installation, such as the user's packages for it."""
    for verify_additions in offered("verifiers"):
        yield from verify_additions(installed, os.environ)


def _repeat(catalogue: Catalogue, record: CatalogueRecord) -> Iterator[Finding]:
    trial = CheckRun(record.module, catalogue.modules, record.sha256, os.environ)
    checks = repeat_checks(trial, record.checks)
    try:
        for check in checks:
            yield Finding(OK, "check", f"{check.name}{' (slurm)' * bool(check.under)}")
    except CheckFailedError as err:
        yield Finding(FAIL, "check", err.message, err.cure)
