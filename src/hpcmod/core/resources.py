"""Shipped data: read from the checkout that this file is part of, or else from the installation."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hpcmod.core.errors import NotFoundError

_PACKAGE = Path(__file__).resolve().parents[1]


def runscript_files() -> dict[str, str]:
    """Return the files of runscripts/: text by path; `.j2` are templates, the others are installed as they are.

    Raises NotFoundError if this installation of hpcmod has none.
    """
    directory = shipped("runscripts")
    paths = sorted(
        path for pattern in ("*", "lib/*", "libexec/*") for path in directory.glob(pattern) if path.is_file()
    )
    if not paths:
        raise NotFoundError(f"no run scripts in {directory}", "Reinstall hpcmod: this installation is incomplete.")
    return {str(path.relative_to(directory)): path.read_text(encoding="utf-8") for path in paths}


@cache
def site_profiles() -> dict[str, str]:
    """Return the site profiles that come with hpcmod: TOML text by site name.

    Raises NotFoundError if this installation of hpcmod has none.
    """
    return read_texts(_PACKAGE / "machine/sites", ".toml")


def shipped(folder: str) -> Path:
    """Return the path of a folder that is at the top of a checkout, and inside the package in an installation."""
    return (_PACKAGE.parent.parent if is_checkout(_PACKAGE) else _PACKAGE) / folder


def read_texts(directory: Path, suffix: str) -> dict[str, str]:
    """Return the texts of the shipped files with a suffix in a directory, by file name without the suffix.

    Raises NotFoundError if there is none.
    """
    paths = sorted(directory.glob(f"*{suffix}"))
    if not paths:
        raise NotFoundError(f"no file *{suffix} in {directory}", "Reinstall hpcmod: this installation is incomplete.")
    return {path.name[: len(path.name) - len(suffix)]: path.read_text(encoding="utf-8") for path in paths}


def module_templates() -> dict[str, str]:
    """Return the templates of all rooms, from which modulefiles are rendered: text by file name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(_PACKAGE.glob("*/text/*.j2"))}


def schema_file(name: str) -> Path:
    """Return the path of a JSON Schema that the build of a package writes; a checkout has none."""
    return _PACKAGE / "schemas" / f"{name}.json"


def easyconfigs_directory() -> Path:
    """Return the directory of the easyconfigs, for EasyBuild's robot path."""
    return _of_easybuild("easyconfigs", "easyconfigs")


def easyblocks_directory() -> Path:
    """Return the directory of the easyblocks, for EasyBuild's --include-easyblocks."""
    return _of_easybuild("easyblocks", "easyblocks/generic")


def import_directory() -> Path:
    """Return the directory that Python needs on its path to import hpcmod."""
    return _PACKAGE.parent


def is_checkout(package: Path = _PACKAGE) -> bool:
    """Return whether this is a checkout; in an installation, `eb` finds the easyblocks on its path by itself.

    Notes
    -----
    An editable installation copies no data, so a checkout is tried first; src/ and setup.cfg distinguish it from an
    arbitrary directory, because `pip install -t` installs anywhere.
    """
    return package.parent.name == "src" and (package.parent.parent / "setup.cfg").is_file()


def _of_easybuild(in_checkout: str, installed: str) -> Path:
    return _PACKAGE.parent.parent / in_checkout if is_checkout() else _PACKAGE.parent / "easybuild" / installed
