"""Check that an installation is complete: its image, its scripts and its wrappers."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from hpcmod.check.doctor import FAIL, Finding
from hpcmod.errors import VerificationError
from hpcmod.image.integrity import Progress, file_sha256
from hpcmod.install.installed import Installed, find_installed, module_trees, read_record
from hpcmod.render.quote import sh_word


def find_damage(installed: Installed) -> str:
    """Return what is missing or changed in an installation; empty if nothing is. The image is not read."""
    if not installed.record:
        return f"{installed.root} has no record of what was installed"
    image = Path(installed.of_image("path"))
    if not image.is_file():
        return "" if _has_other_image(installed) else f"the image is missing: {image}"
    if image.stat().st_size != installed.size:
        return f"the image has {image.stat().st_size} bytes, expected {installed.size} as installed: {image}"
    listed = installed.record.get("files")
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    missing = [name for name in names if not os.access(installed.root / name, os.X_OK)]
    if not missing:
        return ""
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return f"missing or not executable: {', '.join(missing[:3])}{more} in {installed.root}"


def _has_other_image(installed: Installed) -> bool:
    """Return whether the module uses an image elsewhere, such as the site's: users may remove their own copy."""
    name = Path(installed.of_image("path")).name
    try:
        text = installed.modulefile.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return bool(name) and any(Path(place).is_file() for place in re.findall(rf'"([^"]*/{re.escape(name)})"', text))


def check_installations(environ: Mapping[str, str], *, retired: Collection[Path] = ()) -> Iterator[Finding]:
    """Yield installed container modules with missing or damaged files.

    Parameters
    ----------
    retired
        Roots of installations that a site has retired: their modules refuse to load, and `hpcmod gc` removes the files.
    """
    for one in find_installed(module_trees(environ)):
        damage = "" if one.root in retired and not one.root.exists() else find_damage(one)
        if damage:
            cure = f"hpcmod update {sh_word(one.module)}, if it is your own; else ask who installed it."
            yield Finding(FAIL, f"installation {one.module}", damage, cure)


def check_recorded(image: Path, sha256: str) -> None:
    """Compare the sha256 of a SIF with the record of the installation that contains it, if any.

    Raises
    ------
    VerificationError
        If the record has another one.
    """
    record = read_record(image.absolute().parent)
    known = record.get("image")
    if isinstance(known, dict) and Path(str(known.get("path"))).name == image.name and known.get("sha256") != sha256:
        raise VerificationError(
            f"{image}: expected sha256 {known.get('sha256')} as installed, found {sha256}",
            f"Install it again: hpcmod update {sh_word(str(record.get('module')))}",
        )


def verify_installed(installed: Installed, progress: Progress | None = None) -> str:
    """Compare the image of an installation with its record, byte by byte, and return its sha256.

    Raises
    ------
    VerificationError
        If something is missing, or the image differs.
    """
    cure = f"Install it again: hpcmod update {sh_word(installed.module)}, or hpcmod install --rebuild."
    damage = find_damage(installed)
    if damage:
        raise VerificationError(f"{installed.module}: {damage}", cure)
    image, expected = installed.of_image("path"), installed.of_image("sha256")
    found = file_sha256(image, progress)
    if found != expected:
        raise VerificationError(f"{image}: expected sha256 {expected} as installed, found {found}", cure)
    return found
