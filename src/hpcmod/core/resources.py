"""Shipped data: read from the checkout that this file is part of, or else from the installation."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hpcmod.core.errors import NotFoundError

_PACKAGE = Path(__file__).resolve().parents[1]


def runscript_files() -> dict[str, str]:
    """Return the files of runscripts/: text by path; `.j2` are templates, the others are installed as they are.

    Raises
    ------
    NotFoundError
        If this installation of hpcmod has none.
    """
    directory = _runscripts(_PACKAGE)
    paths = sorted(
        path for pattern in ("*", "lib/*", "libexec/*") for path in directory.glob(pattern) if path.is_file()
    )
    if not paths:
        raise NotFoundError(f"no run scripts in {directory}", "Reinstall hpcmod: this installation is incomplete.")
    return {str(path.relative_to(directory)): path.read_text(encoding="utf-8") for path in paths}


@cache
def site_profiles() -> dict[str, str]:
    """Return the site profiles that come with hpcmod: TOML text by site name.

    Raises
    ------
    NotFoundError
        If this installation of hpcmod has none.
    """
    return {name[: -len(".toml")]: text for name, text in _texts(_PACKAGE / "machine/sites", ".toml").items()}


def known_endings() -> dict[str, str]:
    """Return the known endings of runs that come with hpcmod: TOML text by file name without .toml."""
    return {name[: -len(".toml")]: text for name, text in _texts(_PACKAGE / "runs/endings", ".toml").items()}


def rank_program() -> str:
    """Return the program that looks at the ranks of a job on one of its nodes; it runs under the host's Python."""
    return (_PACKAGE / "runs/endings" / "list-ranks").read_text(encoding="utf-8")


def recipes() -> dict[str, str]:
    """Return the recipes that come with hpcmod: TOML text by recipe name.

    Raises
    ------
    NotFoundError
        If this installation of hpcmod has none.
    """
    return {name[: -len(".toml")]: text for name, text in _texts(_shipped("recipes"), ".toml").items()}


def recipe_components() -> dict[str, str]:
    """Return the scripts that recipes are made of: text by name, without .sh."""
    return {name[: -len(".sh")]: text for name, text in _texts(_shipped("recipes") / "components", ".sh").items()}


def recipe_sources() -> str:
    """Return the list of component sources as TOML text."""
    return (_shipped("recipes") / "components" / "sources.toml").read_text(encoding="utf-8")


def recipe_lock() -> str:
    """Return the lock file of the recipes that come with hpcmod."""
    return (_shipped("recipes") / "lock").read_text(encoding="utf-8")


def _shipped(folder: str, package: Path = _PACKAGE) -> Path:
    """Return the path of a folder that is at the top of a checkout, and inside the package in an installation."""
    return (package.parent.parent if is_checkout(package) else package) / folder


def _runscripts(package: Path) -> Path:
    return _shipped("runscripts", package)


def _texts(directory: Path, suffix: str) -> dict[str, str]:
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(directory.glob(f"*{suffix}"))}
    if not texts:
        raise NotFoundError(f"no file *{suffix} in {directory}", "Reinstall hpcmod: this installation is incomplete.")
    return texts


def module_templates() -> dict[str, str]:
    """Return the templates of modulefiles: text by file name."""
    rooms = ("modules", "catalogue", "building")
    return {name: text for room in rooms for name, text in _texts(_PACKAGE / room / "text", ".j2").items()}


def page_files() -> dict[str, str]:
    """Return the templates, styles and scripts of the documentation pages: text by file name."""
    return _texts(_PACKAGE / "catalogue/text/pages", "")


def bandwidth_program() -> str:
    """Return the program of `hpcmod bench` that runs on each rank, with the image's Python."""
    return (_PACKAGE / "runs" / "bandwidth" / "ranks.py").read_text(encoding="utf-8")


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


def node_program() -> str:
    """Return the Python program that looks at one node of a job: that of check-nodes, with another end."""
    functions = runscript_files()["lib/check_node.py"].partition("\nif __name__")[0]
    return functions + (_PACKAGE / "runs" / "nodes" / "all-facts").read_text(encoding="utf-8")
