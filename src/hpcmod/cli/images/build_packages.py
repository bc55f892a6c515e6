"""Build an image from a base image and packages, for `hpcmod build --requirements` and `--conda`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import hpcmod
from hpcmod import machine
from hpcmod.check.compat import make_case
from hpcmod.cli.containers import find_ready, look_around
from hpcmod.cli.findings import finding_values
from hpcmod.cli.output import format_size, print_data, print_json, print_text, print_wrapped, tell
from hpcmod.cli.packages.conda import CondaWanted, read_conda_options, tell_not_run
from hpcmod.cli.packages.index import make_pip_options
from hpcmod.cli.signals import terminate_cleanly
from hpcmod.errors import BadInputError, NotFoundError
from hpcmod.fs.replacing import scratch
from hpcmod.fs.temporary import clear_leftovers
from hpcmod.image.acquire.locate import recognize
from hpcmod.image.trust.policy import verify_local_sif
from hpcmod.install.packages.builder import make_builder
from hpcmod.install.packages.importing import read_list
from hpcmod.install.packages.new_image import (
    BaseImage,
    ImageRequest,
    NewImage,
    PlannedPackages,
    build_with_packages,
    read_base,
    resolve_with_packages,
)
from hpcmod.model.compat.rules import RULES
from hpcmod.model.compat.verdict import Verdict, judge
from hpcmod.model.finding import OK
from hpcmod.model.images.reference import LOCAL_KINDS, ImageReference
from hpcmod.model.packages.conda import NO_CONDA, CondaPackage, CondaPart, merge_conda
from hpcmod.model.packages.lockfile import Lock, parse_package_lock
from hpcmod.model.packages.requirement import Requirements, join, parse_file
from hpcmod.progress import ProgressLine

if TYPE_CHECKING:
    from hpcmod.cli.images.build import BuildFlags
    from hpcmod.model.site import Site

_MOST_TOLD = 5
TOOL = f"hpcmod {hpcmod.__version__}"


@dataclass(frozen=True)
class Wanted:
    """The packages that the options ask for."""

    requirements: Requirements
    conda: CondaPart
    variables: tuple[tuple[str, str], ...]
    lock: Lock | None


def build_from_packages(flags: BuildFlags) -> None:
    """Build the image, or print what would be added; a base in a registry is then not fetched, and nothing resolved."""
    if not flags.base:
        raise BadInputError("no base image given", "Give a SIF, a container or docker://...: --base REFERENCE")
    if flags.base.endswith(".sif") and "://" not in flags.base and not Path(flags.base).exists():
        raise NotFoundError(f"{flags.base}: no such file", "Check the path of --base.")
    if flags.output is None:
        raise BadInputError("no output file given", "Give the file of the new image: -o OUT.sif")
    if flags.lock and not flags.lock.parent.is_dir():
        raise NotFoundError(f"--lock {flags.lock}: no such directory", "Choose another file.")
    wanted = _read_wanted(flags)
    pip = make_pip_options(
        index=flags.index,
        extra_index=flags.extra_index,
        wheel_dirs=flags.wheel_dirs,
        no_index=flags.no_index,
        build=flags.source_builds,
    )
    site = machine.find_machine(None, os.environ, flag=flags.site).site
    if flags.dry_run and _is_remote(flags.base):
        _print_plan(flags, wanted, None, None)
        return
    builder = make_builder(os.environ)
    with terminate_cleanly(), _open_base(flags, site) as base:
        request = ImageRequest(
            base=base,
            requirements=wanted.requirements,
            conda=wanted.conda,
            variables=wanted.variables,
            out=flags.output,
            lock_file=_lock_file(flags),
            tool=TOOL,
            lock=wanted.lock,
            pip=pip,
            allowed=flags.allow_replace,
            force=flags.force,
        )
        if flags.dry_run:
            _print_plan(flags, wanted, base, resolve_with_packages(request, builder))
            return
        tell(f"installing packages for {base.shown} ...")
        with ProgressLine(flags.output.name) as progress:
            built = build_with_packages(request, builder, progress=progress)
    _report(flags, base, built, site)


def _read_wanted(flags: BuildFlags) -> Wanted:
    lock = _read_lock(flags)
    if not (flags.requirements or flags.conda):
        if not lock:
            raise NotFoundError(
                f"--lock {flags.lock}: no such file", "Name packages: --requirements FILE, --conda FILE."
            )
        return Wanted(Requirements(lock.requirements), lock.conda, lock.variables, lock)
    asked = read_conda_options(flags.conda, flags.channels, own=True)
    for left in asked.left_out:
        tell(f"left out: {left.name} ({left.reason})")
    here = str(Path.cwd())
    files = (parse_file(str(one.absolute()), read_list, os.path.exists, here) for one in flags.requirements)
    requirements = join(asked.pip, *files)
    if not (requirements.lines or asked.part.requirements):
        raise BadInputError("the files name no package", "Add a line for each package.")
    if lock and _differs(lock, requirements, asked):
        raise BadInputError(
            f"{flags.lock} locks other requirements than these files have",
            "Choose another file with --lock, or remove it to resolve the packages again.",
        )
    return Wanted(requirements, lock.conda if lock else asked.part, asked.variables, lock)


def _differs(lock: Lock, requirements: Requirements, asked: CondaWanted) -> bool:
    """Return whether a lock is for other packages, channels or variables."""
    conda = merge_conda(NO_CONDA, asked.part)
    locked = (set(lock.requirements), set(lock.conda.requirements), lock.conda.channels, lock.variables)
    return locked != (set(requirements.lines), set(conda.requirements), conda.channels, asked.variables)


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
def _open_base(flags: BuildFlags, site: Site) -> Iterator[BaseImage]:
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


def _fetch(reference: ImageReference, directory: Path, site: Site) -> BaseImage:
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
    wanted: Wanted,
    base: BaseImage | None,
    planned: PlannedPackages | None,
) -> None:
    conda = [f"{one.name}=={one.version}" for one in planned.conda] if planned else None
    added = [one.pin for one in planned.locked] if planned and planned.locked is not None else None
    if flags.as_json:
        print_json(
            base=base.shown if base else flags.base,
            base_sha256=base.sha256 if base else "",
            path=str(flags.output),
            requirements=list(wanted.requirements.lines),
            added=added,
            conda_requirements=list(wanted.conda.requirements),
            conda=conda,
            lock=str(_lock_file(flags)),
        )
        return
    print_text(f"base: {base.shown} (sha256 {base.sha256})" if base else f"base: {flags.base}, to be fetched")
    for line in wanted.conda.requirements:
        print_text(f"requirement: {line} (conda)")
    for line in wanted.requirements.lines:
        print_text(f"requirement: {line}")
    if conda is not None and wanted.conda.requirements:
        print_wrapped(f"added by conda: {', '.join(conda) or 'nothing, the base has all of them'}")
    if added is not None and wanted.requirements.lines:
        print_wrapped(f"added: {', '.join(added) or 'nothing, the base has all of them'}")
    elif planned and wanted.requirements.lines:
        print_text("added by pip: known when the conda packages are installed")
    print_text(f"lock: {_lock_file(flags)}")
    print_text(f"path: {flags.output}")


def _report(flags: BuildFlags, base: BaseImage, built: NewImage, site: Site) -> None:
    written, baked = built.written, built.baked
    verdict = judge(make_case(written.path, site, os.environ), RULES)
    for what in built.left_out:
        tell(f"left out, because it does not fit the new image: {what}")
    for pin in built.from_base:
        tell(f"{pin.replace('==', ' ')} is in the base")
    tell_not_run(built.conda)
    if built.replaced:
        tell(f"conda packages replace files of the base: {', '.join(built.replaced[:_MOST_TOLD])}")
    _tell_verdict(verdict, site)
    if flags.as_json:
        print_json(
            path=str(written.path),
            sha256=written.sha256,
            size=written.size,
            base=base.shown,
            base_sha256=base.sha256,
            python=built.python,
            prefix=baked.prefix if baked else "",
            added=[one.pin for one in built.locked],
            commands=list(baked.commands) if baked else [],
            conda=[_package_values(one) for one in built.conda.packages],
            conda_prefix=built.conda_prefix,
            replaced=list(built.replaced),
            lock=str(_lock_file(flags)),
            compat={
                "site": site.name,
                "level": verdict.level,
                "findings": finding_values(verdict.findings),
            },
        )
        return
    count = len(built.locked) + len(built.conda.packages)
    tell(f"added {count} packages; {format_size(written.size)}, sha256 {written.sha256}")
    tell(f"versions and hashes are in {_lock_file(flags)}")
    print_data(written.path)


def _package_values(package: CondaPackage) -> dict[str, object]:
    values = asdict(package)
    del values["since"]  # the time of this build
    return values


def _tell_verdict(verdict: Verdict, site: Site) -> None:
    """Print whether the new image fits this machine, with the reason and the fix of each finding that is not ok."""
    for one in verdict.findings:
        if one.level != OK:
            tell(" ".join(filter(None, [f"{one.level}: {one.subject}: {one.found}", one.cure])))
    tell(f"compat: {verdict.level} on {site.name}")
