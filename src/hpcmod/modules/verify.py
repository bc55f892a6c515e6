"""Check that an installation is complete and unchanged: its image, its scripts and wrappers, its modulefile."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from itertools import chain
from pathlib import Path

from hpcmod.core.errors import VerificationError
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.fs.reading import read_file
from hpcmod.core.progress import Progress
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.finding import FAIL, OK, UNKNOWN, Finding
from hpcmod.core.values.text import listed
from hpcmod.modules.installed import Installed, find_installed, module_trees, read_record
from hpcmod.modules.values.install_record import IMAGE, MODULEFILE, NO_RECORD, PACKAGES, SCRIPTS, is_started, link_of

_LISTED = 3  # files named in one finding
_LARGEST = 4 << 20  # bytes; a modulefile or script is smaller


def find_damage(installed: Installed) -> str:
    """Return what is missing or changed in an installation; empty if nothing is. The image is not read."""
    if installed.record == NO_RECORD:
        return f"{installed.root} has no record of what was installed"
    findings = chain(_check_image_size(installed), _check_scripts(installed), _check_modulefile(installed))
    return next((finding.found for finding in findings if finding.level == FAIL), "")


def _check_image_size(installed: Installed) -> Iterator[Finding]:
    """Yield a failure if the image is missing or has another size, and nothing otherwise."""
    image = Path(installed.image.path)
    if not image.is_file():
        if not _has_other_image(installed):
            yield Finding(FAIL, IMAGE, f"the image is missing: {image}")
    elif image.stat().st_size != installed.image.size:
        expected = f"expected {installed.image.size} as installed"
        yield Finding(FAIL, IMAGE, f"the image has {image.stat().st_size} bytes, {expected}: {image}")


def _has_other_image(installed: Installed) -> bool:
    """Return whether the module uses an image elsewhere, such as the site's: users may remove their own copy."""
    name = Path(installed.image.path).name
    try:
        text = installed.modulefile.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return bool(name) and any(Path(place).is_file() for place in re.findall(rf'"([^"]*/{re.escape(name)})"', text))


def _check_scripts(installed: Installed) -> Iterator[Finding]:
    files, root = dict(installed.record.files), installed.root
    needed = dict.fromkeys([*files, installed.logic]) if files else {}
    missing = [name for name in needed if not os.access(root / name, os.X_OK if is_started(name) else os.R_OK)]
    if missing:
        yield Finding(FAIL, SCRIPTS, f"missing or not executable: {listed(missing, _LISTED)} in {root}")
    present = [name for name in files if name not in missing]
    changed = [name for name in present if files[name] and _is_changed(root / name, files[name], link_of(name))]
    if changed:
        yield Finding(FAIL, SCRIPTS, f"changed since they were installed: {listed(changed, _LISTED)} in {root}")
    unknown = [name for name in present if not files[name]]
    if unknown:
        yield Finding(UNKNOWN, SCRIPTS, f"whether changed: no checksums in the record of {root}")
    if files and not (missing or changed or unknown):
        yield Finding(OK, SCRIPTS, f"{len(files)} files in {root}")


def _check_modulefile(installed: Installed) -> Iterator[Finding]:
    path = installed.modulefile
    if not path.is_file():
        yield Finding(FAIL, MODULEFILE, f"the modulefile is missing: {path}")
    elif installed.record.unfinished:
        yield Finding(FAIL, MODULEFILE, f"the last installation was interrupted: {installed.root}")
    elif not installed.modulefile_sha256:
        yield Finding(UNKNOWN, MODULEFILE, f"whether changed: no checksum of {path} in the record")
    elif _is_changed(path, installed.modulefile_sha256):
        yield Finding(FAIL, MODULEFILE, f"changed since it was installed: {path}")
    else:
        yield Finding(OK, MODULEFILE, str(path))


def _is_changed(path: Path, expected: str, link: str = "") -> bool:
    """Return whether a file differs from its sha256, or a link from its target."""
    try:
        if link and str(path.readlink()) != link:
            return True
        return sha256(read_file(path, _LARGEST)).hexdigest() != expected
    except OSError:
        return True


def check_installation(
    installed: Installed, progress: Progress | None = None, *, read_image: bool = True
) -> Iterator[Finding]:
    """Compare the image, the scripts and the modulefile of an installation with its record.

    `read_image`: If False, the image is read only if its modification time differs from the record.
    """
    if installed.record == NO_RECORD:
        yield Finding(FAIL, "record", f"missing or not readable in {installed.root}", "Install it again.")
        return
    name = sh_word(installed.module)
    cures = {FAIL: f"Repair it: hpcmod repair {name}", UNKNOWN: f"To record checksums: hpcmod update {name}"}
    findings: Iterable[Finding] = chain(
        _check_image(installed, progress, read=read_image), _check_scripts(installed), _check_modulefile(installed)
    )
    for finding in findings:
        yield replace(finding, cure=cures.get(finding.level, ""))


def _check_image(installed: Installed, progress: Progress | None, *, read: bool) -> Iterator[Finding]:
    path, expected = Path(installed.image.path), installed.image.sha256
    wrong = list(_check_image_size(installed))
    if wrong or not path.is_file():
        yield from wrong or [Finding(OK, IMAGE, f"{path} was removed; the module uses the site's image")]
    elif not read and path.stat().st_mtime_ns == installed.image.modified:
        yield Finding(OK, IMAGE, f"{path}, not modified since it was installed")
    else:
        found = file_sha256(path, progress)
        same = Finding(OK, IMAGE, f"{path}, sha256 {found}")
        yield same if found == expected else Finding(FAIL, IMAGE, _differs(path, expected, found))


def _differs(image: Path, expected: str, found: str) -> str:
    return f"{image}: expected sha256 {expected} as installed, found {found}"


def exit_code_of(findings: Iterable[Finding]) -> int:
    """Return the exit code for failed findings: 4 if the image or a state of packages is damaged, else 1."""
    damaged = any(finding.rule in (IMAGE, PACKAGES) and finding.level == FAIL for finding in findings)
    return VerificationError.exit_code if damaged else 1


def check_installations(
    environ: Mapping[str, str], *, retired: Collection[Path] = (), published: Mapping[Path, str] | None = None
) -> Iterator[Finding]:
    """Yield installed container modules with missing or damaged files.

    `retired`: Roots of installations that a site has retired: their modules refuse to load, and `catalogue gc` removes
        them.
    `published`: How to repair an installation that a site has published, by its root.
    """
    for installed in find_installed(module_trees(environ)):
        damage = "" if installed.root in retired and not installed.root.exists() else find_damage(installed)
        if damage:
            own = f"hpcmod repair {sh_word(installed.module)}, if it is your own; else ask its owner."
            cure = (published or {}).get(installed.root, own)
            yield Finding(FAIL, "installation", damage, cure, subject=f"installation {installed.module}")


def check_recorded(image: Path, sha256: str) -> None:
    """Compare the sha256 of a SIF with the record of the installation that contains it, if any.

    Raises VerificationError if the record has another one.
    """
    record = read_record(image.absolute().parent)
    known = record.image
    if Path(known.path).name == image.name and known.sha256 != sha256:
        raise VerificationError(
            _differs(image, known.sha256, sha256), f"Repair it: hpcmod repair {sh_word(record.module)}"
        )
