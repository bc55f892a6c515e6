"""Carry out an install plan: every file is written under a temporary name, then renamed; the record comes last.

An interrupted installation leaves only temporary files, which the next one removes while it holds the lock.
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from hpcmod import __version__
from hpcmod.core.clock import now_text
from hpcmod.core.errors import BadInputError
from hpcmod.core.fs.checksums import check_sha256, file_sha256
from hpcmod.core.fs.copying import copy_file
from hpcmod.core.fs.replacing import replacing
from hpcmod.core.fs.striping import set_layout
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.fs.tree import Tree, write_file
from hpcmod.core.progress import Progress
from hpcmod.core.resources import runscript_files
from hpcmod.core.values.facts import Provenance, architecture_name
from hpcmod.images import Sif
from hpcmod.machine.values.site import RUNTIMES
from hpcmod.modules import user_layer
from hpcmod.modules.installed import read_record
from hpcmod.modules.shared_prefix import SharedPrefix
from hpcmod.modules.text.modulefile import render_package_list
from hpcmod.modules.text.runscript import LIBEXEC, render_environment, render_runscripts
from hpcmod.modules.values.install_record import (
    DEFINITIONS,
    LOGIC,
    NO_RECORD,
    PACKAGE_LIST,
    PROGRAM,
    RECORD,
    SCRIPT_PLACES,
    Fit,
    InstalledImage,
    InstalledModule,
    InstallRecord,
    is_started,
    link_of,
    render_install_record,
)
from hpcmod.modules.values.plan import InstallPlan, with_own_packages


@dataclass(frozen=True)
class VerifiedSif:
    """An image to install: a verified local file, and its expected properties."""

    path: Path
    checksum: str | None
    architecture: str = field(default_factory=lambda: architecture_name(platform.machine()))
    """GOARCH name; default: this machine's."""
    provenance: Provenance | None = None
    """Source of the image, for the record."""
    believe_record: bool = False
    """Whether an image with the recorded size and time is accepted as the recorded one without reading it."""
    ours: bool = False
    """Whether hpcmod fetched it for this user: a copy may then be a hard link, unless another method is requested."""
    verify: Callable[[Path], object] = lambda _: None
    """Called with the file to be used, before it gets its final name; raises to reject it."""


@dataclass(frozen=True)
class Ways:
    """How an image is put in place."""

    prove: Callable[[Path], None] = lambda _: None
    """Called with the new image under its temporary name if it will replace another; raises to reject it."""
    shared: SharedPrefix | None = None
    """Where the rest of the installation will be copied. A private copy of the image goes there directly, and the
    plan's path becomes a link to it."""
    progress: Progress | None = None
    tell: Callable[[str], None] = lambda _: None
    """Called with each message for the user."""


def install(plan: InstallPlan, source: VerifiedSif, ways: Ways) -> InstalledImage:
    """Install the image, the run scripts and the wrappers, then the record; the caller must hold the lock.

    `install_image` lists the exceptions.
    """
    clear_parts(Path(plan.spec.root), alone=True)
    image = install_image(plan, source, ways)
    plan = with_own_packages(plan, image.sha256)
    write_definition(plan, Path(image.path))
    write_record(plan, image, install_files(plan, runscript_files()), provenance=source.provenance)
    return image


def clear_parts(root: Path, *, alone: bool = False) -> None:
    """Remove the temporary files of interrupted installations; `alone` as in `clear_leftovers`."""
    for directory in ("", *SCRIPT_PLACES, DEFINITIONS):
        clear_leftovers(root / directory, alone=alone)


def write_definition(plan: InstallPlan, image: Path) -> None:
    """Write the definition that an image contains, if any, below share/docker-defs, where LUMI's modules have it."""
    definition = Sif(image).definition()
    if definition:
        tree = Tree(Path(plan.spec.root))
        tree.make_directory(Path(DEFINITIONS))
        tree.write(Path(DEFINITIONS, f"{Path(plan.spec.image).stem}.def"), definition)


def install_image(plan: InstallPlan, source: VerifiedSif, ways: Ways) -> InstalledImage:
    """Check an image and put it in place; the previous image works until the new one is complete.

    Raises HpcmodError if the image is not a SIF for this machine, its checksum does not match, or it does not fit on
    the disk.
    """
    Sif(source.path).check(source.architecture)
    shared = ways.shared
    own = shared.final(plan.own_sif) if shared else Path(plan.own_sif)
    if plan.image_mode == "central" and _is_found_by_module(plan, source.path):
        return _use_central(own, source, ways)
    if shared:
        Tree(Path(plan.spec.root)).symlink(plan.own_sif, str(own))
    kept = _find_unchanged(own, source, ways.progress)
    if kept:
        source.verify(own)
        return _make_installed(own, kept, source, "kept", 0)
    may_link = source.ours and plan.image_mode == "copy" and plan.spec.install_mode == "auto"
    mode = "share" if may_link else plan.image_mode.replace("central", "copy")
    with shared.anchored(own) if shared else nullcontext(own) as anchored, replacing(anchored) as partial:
        set_layout(partial.parent, plan.site.images.striping, ways.tell)
        result = copy_file(source.path, partial, checksum=source.checksum, method=mode, progress=ways.progress)
        source.verify(partial)
        if own.exists():
            ways.prove(partial)
    return _make_installed(own, result.sha256, source, result.method, result.bytes_written)


def _is_found_by_module(plan: InstallPlan, image: Path) -> bool:
    """Return whether the module searches the image's directory, which is required for an image used in place."""
    asked = plan.spec.install_mode == "central"
    places = plan.sif_places[1 : None if asked else 1 + len(plan.site.images.central)]
    found = any(image.samefile(place) for place in places if Path(place).exists())
    if asked and not found:
        raise BadInputError(
            f"install_mode is central, but {image} is not in any of the site's image directories",
            "Use install_mode = 'copy', or add its directory to the site profile: [images] central = [...].",
        )
    return found


def _use_central(own: Path, source: VerifiedSif, ways: Ways) -> InstalledImage:
    """Use the site's file in place; an existing private copy is kept until the new module is in place."""
    found = _recorded(own.parent, source.path, source) or file_sha256(source.path, ways.progress)
    check_sha256(source.path, expected=source.checksum, found=found)
    source.verify(source.path)
    if own.exists():
        ways.prove(source.path)
    return _make_installed(source.path, found, source, "central", 0)


def _make_installed(path: Path, sha256: str, source: VerifiedSif, method: str, written: int) -> InstalledImage:
    status = path.stat()
    return InstalledImage(str(path), sha256, status.st_size, str(source.path), method, written, status.st_mtime_ns)


def _recorded(root: Path, image: Path, source: VerifiedSif) -> str | None:
    """Return an image's digest from the record, if it is trusted, matches this file, and has the right digest."""
    known = read_record(root).image
    if not source.believe_record or not image.is_file():
        return None
    status = image.stat()
    same = (str(image), status.st_size, status.st_mtime_ns) == (known.path, known.size, known.modified)
    wanted = source.checksum or (known.sha256 if source.path.samefile(image) else None)
    return known.sha256 if same and known.sha256 and known.sha256 == wanted else None


def remove_own_copy(plan: InstallPlan) -> None:
    """Remove the private copy of a module that uses the site's image, because the module would prefer the copy."""
    Tree(Path(plan.spec.root)).remove(plan.own_sif)


def _find_unchanged(own: Path, source: VerifiedSif, progress: Progress | None) -> str | None:
    """Return the digest of the existing private image if it is the right one, else None."""
    if not own.is_file() or own.stat().st_size != source.path.stat().st_size:
        return None
    known = _recorded(own.parent, own, source)
    if known:
        return known
    wanted = source.checksum or file_sha256(source.path, progress)
    return wanted if file_sha256(own, progress) == wanted else None


def install_files(plan: InstallPlan, templates: Mapping[str, str]) -> dict[str, str]:
    """Write run scripts and wrappers, and the user layer if missing.

    Returns
    -------
    dict
        The sha256 of each file, by its path relative to the root.
    """
    root = Path(plan.spec.root)
    tree = Tree(root)
    written = {}
    for name, text in make_scripts(plan, templates):
        content = text.encode()
        tree.make_directory(Path(name).parent)
        if link_of(name):
            tree.symlink(name, link_of(name))
        else:
            tree.write(name, content, mode=0o755 if is_started(name) else 0o644)
        written[name] = hashlib.sha256(content).hexdigest()
    if plan.user_layer:
        user_layer.make(plan.user_layer)
    for name in read_record(root).scripts - set(written):  # of an earlier installation; the user's files stay
        Tree(root).remove(name)
    return written


def make_scripts(plan: InstallPlan, templates: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield every script of the plan: its path relative to the root, and its text; see `link_of`."""
    for name, text in render_runscripts(plan.runscripts, plan, templates=templates).items():
        yield f"runscripts/{name}", text
    outside = {name: text for name, text in templates.items() if name.startswith(LIBEXEC) and _is_used(name, plan)}
    readme = outside.pop(f"{LIBEXEC}README")
    yield from outside.items()
    if plan.packages:
        yield PACKAGE_LIST, render_package_list(plan)
    for name in _name_commands(plan):
        yield f"bin/{name}", outside[f"{LIBEXEC}wrapper"]
    yield PROGRAM, outside[f"{LIBEXEC}{PROGRAM}"]
    yield "environment.sh", render_environment(plan, templates=templates)
    yield "README", readme


def _is_used(name: str, plan: InstallPlan) -> bool:
    """Return whether an installation uses a file of libexec/: the logic of its modulefiles, helpers that it calls."""
    suffix, part = Path(name).suffix, Path(name).stem
    is_logic = suffix in LOGIC.values()
    return (
        (not is_logic or suffix in [LOGIC[syntax] for syntax in ("Lua", *plan.spec.syntaxes)])  # Lmod has Lua for Tcl
        and (part != "notices" or bool(plan.notice_places))
        and (not part.startswith("host-command") or bool(plan.site.module.host_commands.allowed))
    )


def add_logic(plan: InstallPlan, templates: Mapping[str, str]) -> None:
    """Add what a modulefile calls to the user's own installation, if it lacks it: another syntax, or notices."""
    root = Path(plan.spec.root)
    record = read_record(root)
    known, suffixes = dict(record.files), tuple(LOGIC.values())
    texts = {name: text for name, text in make_scripts(plan, templates) if name.endswith(suffixes)}
    if record == NO_RECORD or texts.keys() <= known.keys() or root.stat().st_uid != os.geteuid():
        return
    with _writable(root), _writable(root / LIBEXEC):
        for name, text in texts.items():
            write_file(root / name, text)
            known[name] = hashlib.sha256(text.encode()).hexdigest()
        write_file(root / RECORD, render_install_record(replace(record, files=tuple(known.items()))))


@contextmanager
def _writable(directory: Path) -> Iterator[None]:
    """Make a directory writable, which may belong to a read-only installation."""
    mode = stat.S_IMODE(directory.stat().st_mode)
    Tree(directory).change_mode("", mode | stat.S_IWUSR)
    try:
        yield
    finally:
        Tree(directory).change_mode("", mode)


def _name_commands(plan: InstallPlan) -> Iterator[str]:
    yield from (*plan.commands, *RUNTIMES)
    if plan.has_bash:
        yield "start-shell"
    if plan.user_layer:
        yield from (
            *(["list-packages"] if plan.has_bash else []),
            "make-squashfs",
            "unmake-squashfs",
        )


def write_record(
    plan: InstallPlan,
    image: InstalledImage,
    files: Mapping[str, str],
    *,
    provenance: Provenance | None = None,
) -> None:
    """Write the record of the installation: its last file before the modulefile. It is complete with `complete_record`.

    `files`: The sha256 of each script and wrapper, by its path relative to the root.
    """
    record = InstallRecord(
        hpcmod=__version__,
        time=now_text(),
        module=plan.spec.module,
        site=plan.site.name,
        profile=plan.site.profile,
        image=image,
        unfinished=True,
        own_packages=plan.described_packages,
        provenance=provenance,
        files=tuple(files.items()),
        packages=plan.packages,
    )
    write_file(Path(plan.spec.root) / RECORD, render_install_record(record))


def complete_record(root: Path, modulefile: Path, content: bytes, *, fit: Fit | None) -> None:
    """Add what is known last to the record of an installation, also of a read-only one.

    `modulefile`, `content`: The modulefile; its sha256 is recorded.
    `fit`: What the check of the image found; None if there was no image.
    """
    before = read_record(root)
    if before == NO_RECORD:
        return
    module = InstalledModule(str(modulefile), hashlib.sha256(content).hexdigest())
    record = replace(before, unfinished=False, modulefile=module, fit=fit or before.fit)
    if record == before:
        return
    with _writable(root):
        write_file(root / RECORD, render_install_record(record))
