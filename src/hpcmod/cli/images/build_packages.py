"""Build an image from a base image and requirements files, for `hpcmod build --requirements`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import hpcmod
from hpcmod import machine
from hpcmod.check.compat import make_case
from hpcmod.cli.containers import find_ready, look_around
from hpcmod.cli.findings import finding_values
from hpcmod.cli.output import format_size, print_data, print_json, print_text, print_wrapped, tell
from hpcmod.cli.packages.index import make_pip_options
from hpcmod.cli.packages.target import make_builder
from hpcmod.cli.signals import terminate_cleanly
from hpcmod.errors import BadInputError, NotFoundError
from hpcmod.fs.replacing import scratch
from hpcmod.fs.temporary import clear_leftovers
from hpcmod.image.acquire.locate import recognize
from hpcmod.image.trust.policy import verify_local_sif
from hpcmod.install.packages.importing import read_list
from hpcmod.install.packages.new_image import (
    ImageRequest,
    NewImage,
    build_with_packages,
    read_base,
    resolve_with_packages,
)
from hpcmod.model.compat.rules import RULES
from hpcmod.model.compat.verdict import Verdict, judge
from hpcmod.model.finding import OK
from hpcmod.model.images.reference import LOCAL_KINDS, ImageReference
from hpcmod.model.packages.lockfile import Lock, parse_package_lock
from hpcmod.model.packages.plan import PackageTarget
from hpcmod.model.packages.requirement import Requirements, join, parse_file
from hpcmod.progress import ProgressLine

if TYPE_CHECKING:
    from hpcmod.cli.images.build import BuildFlags
    from hpcmod.model.packages.state import Locked
    from hpcmod.model.site import Site

TOOL = f"hpcmod {hpcmod.__version__}"


def build_from_requirements(flags: BuildFlags) -> None:
    """Build the image, or print what would be added; a base in a registry is then not fetched, and nothing resolved."""
    if not flags.base:
        raise BadInputError("no base image given", "Give a SIF, a container or docker://...: --base REFERENCE")
    if flags.base.endswith(".sif") and "://" not in flags.base and not Path(flags.base).exists():
        raise NotFoundError(f"{flags.base}: no such file", "Check the path of --base.")
    if flags.output is None:
        raise BadInputError("no output file given", "Give the file of the new image: -o OUT.sif")
    if flags.lock and not flags.lock.parent.is_dir():
        raise NotFoundError(f"--lock {flags.lock}: no such directory", "Choose another file.")
    requirements, lock = _read_requirements(flags), _read_lock(flags)
    if not requirements.lines:
        raise BadInputError("the requirements files name no package", "Add a line for each package.")
    if lock and set(lock.requirements) != set(requirements.lines):
        raise BadInputError(
            f"{flags.lock} locks other requirements than these files have",
            "Choose another file with --lock, or remove it to resolve the packages again.",
        )
    pip = make_pip_options(
        index=flags.index,
        extra_index=flags.extra_index,
        wheel_dirs=flags.wheel_dirs,
        no_index=flags.no_index,
        build=flags.source_builds,
    )
    site = machine.find_machine(None, os.environ, flag=flags.site).site
    if flags.dry_run and _is_remote(flags.base):
        _print_plan(flags, requirements, None, None)
        return
    builder = make_builder()
    with terminate_cleanly(), _open_base(flags, site) as base:
        request = ImageRequest(
            base=base,
            requirements=requirements,
            out=flags.output,
            lock_file=_lock_file(flags),
            tool=TOOL,
            lock=lock,
            pip=pip,
            allowed=flags.allow_replace,
            force=flags.force,
        )
        if flags.dry_run:
            _print_plan(flags, requirements, base, resolve_with_packages(request, builder))
            return
        tell(f"installing with pip of {base.module} ...")
        with ProgressLine(flags.output.name) as progress:
            built = build_with_packages(request, builder, progress=progress)
    _report(flags, base, built, site)


def _read_requirements(flags: BuildFlags) -> Requirements:
    return join(*(parse_file(str(one.absolute()), read_list, os.path.exists) for one in flags.requirements))


def _read_lock(flags: BuildFlags) -> Lock | None:
    if flags.lock is None or not flags.lock.exists():
        return None
    return parse_package_lock(read_list(str(flags.lock)), str(flags.lock))


def _lock_file(flags: BuildFlags) -> Path:
    """Return the path of the lock file; by default next to the image."""
    out = flags.output or Path()
    return flags.lock or out.with_name(f"{out.name}.lock")


def _is_remote(base: str) -> bool:
    """Return whether a base is neither a SIF nor the name of a container: it is fetched, or converted, to a SIF."""
    return recognize(ImageReference.parse(base)).kind not in LOCAL_KINDS


@contextmanager
def _open_base(flags: BuildFlags, site: Site) -> Iterator[PackageTarget]:
    """Yield the base image; one that is not a SIF is fetched to the new image's directory, and removed at the end."""
    path = Path(flags.base)
    if _is_remote(flags.base) and flags.output is not None:
        flags.output.parent.mkdir(parents=True, exist_ok=True)
        clear_leftovers(flags.output.parent, flags.output.name)
        with scratch(flags.output) as made:
            yield _fetch(ImageReference.parse(flags.base), Path(os.path.realpath(made.directory)), site)
        return
    if path.is_file():
        reference = ImageReference.parse(str(path.absolute()))
        found = verify_local_sif(path, reference, site.trust, checksum=None, environ=os.environ)
        yield read_base(Path(found.place), path.name, sha256=found.sha256 or "")
        return
    container = find_ready(look_around(flags.site), flags.base)
    yield read_base(
        Path(container.of_image("path")),
        container.module,
        sha256=container.of_image("sha256"),
    )


def _fetch(reference: ImageReference, directory: Path, site: Site) -> PackageTarget:
    from hpcmod.image.acquire.obtain import obtain
    from hpcmod.image.settings import make_options

    options = make_options(site, os.environ, tool=TOOL, tell=tell)
    with ProgressLine("base.sif") as progress:
        got = obtain(reference, directory / "base.sif", options=options, progress=progress)
    digest = got.provenance.digest
    name = reference.canonical
    shown = name if not digest or "@" in name else f"{name}@{digest}"
    return read_base(got.path, shown, reference=shown, sha256=got.provenance.sha256)


def _print_plan(
    flags: BuildFlags,
    requirements: Requirements,
    base: PackageTarget | None,
    locked: tuple[Locked, ...] | None,
) -> None:
    added = [one.pin for one in locked] if locked is not None else None
    if flags.as_json:
        print_json(
            base=base.module if base else flags.base,
            base_sha256=base.sha256 if base else "",
            path=str(flags.output),
            requirements=list(requirements.lines),
            added=added,
            lock=str(_lock_file(flags)),
        )
        return
    print_text(f"base: {base.module} (sha256 {base.sha256})" if base else f"base: {flags.base}, to be fetched")
    for line in requirements.lines:
        print_text(f"requirement: {line}")
    if added is not None:
        print_wrapped(f"added: {', '.join(added) or 'nothing, the base has all of them'}")
    print_text(f"lock: {_lock_file(flags)}")
    print_text(f"path: {flags.output}")


def _report(flags: BuildFlags, base: PackageTarget, built: NewImage, site: Site) -> None:
    baked = built.baked
    verdict = judge(make_case(baked.path, site, os.environ), RULES)
    for what in baked.plan.left_out:
        tell(f"left out, because it does not fit the new image: {what}")
    for pin in built.from_base:
        tell(f"{pin.replace('==', ' ')} is in the base")
    _tell_verdict(verdict, site)
    if flags.as_json:
        print_json(
            path=str(baked.path),
            sha256=baked.sha256,
            size=baked.size,
            base=base.module,
            base_sha256=base.sha256,
            python=baked.plan.python,
            prefix=baked.plan.prefix,
            added=[one.pin for one in built.locked],
            commands=list(baked.plan.commands),
            lock=str(_lock_file(flags)),
            compat={
                "site": site.name,
                "level": verdict.level,
                "findings": finding_values(verdict.findings),
            },
        )
        return
    tell(f"added {len(built.locked)} packages; {format_size(baked.size)}, sha256 {baked.sha256}")
    tell(f"versions and hashes are in {_lock_file(flags)}")
    print_data(baked.path)


def _tell_verdict(verdict: Verdict, site: Site) -> None:
    """Print whether the new image fits this machine, with the reason and the fix of each finding that is not ok."""
    for one in verdict.findings:
        if one.level != OK:
            tell(" ".join(filter(None, [f"{one.level}: {one.subject}: {one.found}", one.cure])))
    tell(f"compat: {verdict.level} on {site.name}")
