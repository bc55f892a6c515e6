"""Shipped data: found in the checkout this file is part of, else beside it in an installation."""

from __future__ import annotations

from pathlib import Path

from hpcmod.errors import NotFoundError

_PACKAGE = Path(__file__).resolve().parent


def runscript_templates() -> dict[str, str]:
    """Read the templates of the run scripts: text by file name.

    Raises
    ------
    NotFoundError
        If this installation of hpcmod has none.
    """
    return _texts(_runscripts(_PACKAGE), ".j2")


def site_profiles() -> dict[str, str]:
    """Read the site profiles that come with hpcmod: text by name of the site.

    Raises
    ------
    NotFoundError
        If this installation of hpcmod has none.
    """
    return {name[: -len(".toml")]: text for name, text in _texts(_PACKAGE / "sites", ".toml").items()}


def recipes() -> dict[str, str]:
    """Read the recipes that come with hpcmod: TOML text by name of the recipe.

    Raises
    ------
    NotFoundError
        If this installation of hpcmod has none.
    """
    return {name[: -len(".toml")]: text for name, text in _texts(_shipped("recipes"), ".toml").items()}


def recipe_components() -> dict[str, str]:
    """Read the scripts that recipes are made of: text by name, without .sh."""
    return {name[: -len(".sh")]: text for name, text in _texts(_shipped("recipes") / "components", ".sh").items()}


def recipe_sources() -> str:
    """Read where the sources of components are: TOML text."""
    return (_shipped("recipes") / "components" / "sources.toml").read_text(encoding="utf-8")


def recipe_lock() -> str:
    """Read the lock file of the recipes that come with hpcmod."""
    return (_shipped("recipes") / "lock").read_text(encoding="utf-8")


def _shipped(folder: str, package: Path = _PACKAGE) -> Path:
    """Return the place of a folder that stands at the top of a checkout, and in an installation within the package."""
    return (package.parent.parent if is_checkout(package) else package) / folder


def _runscripts(package: Path) -> Path:
    return _shipped("runscripts", package)


def _texts(directory: Path, suffix: str) -> dict[str, str]:
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(directory.glob(f"*{suffix}"))}
    if not texts:
        raise NotFoundError(
            f"no file *{suffix} in {directory}", "Install hpcmod again: this installation is not whole."
        )
    return texts


def module_templates() -> dict[str, str]:
    """Read the templates of modulefiles: text by file name."""
    return _texts(_PACKAGE / "render", ".j2")


def page_files() -> dict[str, str]:
    """Read what the pages of the documentation are made of, templates, style and script: text by file name."""
    return _texts(_PACKAGE / "render" / "pages", "")


def easyconfigs_directory() -> Path:
    """Directory of the easyconfigs, for EasyBuild's robot path."""
    return _of_easybuild("easyconfigs", "easyconfigs")


def easyblocks_directory() -> Path:
    """Directory of the easyblocks, for EasyBuild's --include-easyblocks."""
    return _of_easybuild("easyblocks", "easyblocks/generic")


def import_directory() -> Path:
    """Directory that a Python needs on its path to import hpcmod."""
    return _PACKAGE.parent


def is_checkout(package: Path = _PACKAGE) -> bool:
    """Return whether this is a checkout; an installation has the easyblocks where any `eb` with it on its path looks.

    Notes
    -----
    An editable installation copies no data, so a checkout comes first; src/ and setup.cfg tell it from a directory that
    happens to lie there, as `pip install -t` takes any place.
    """
    return package.parent.name == "src" and (package.parent.parent / "setup.cfg").is_file()


def _of_easybuild(in_checkout: str, installed: str) -> Path:
    return _PACKAGE.parent.parent / in_checkout if is_checkout() else _PACKAGE.parent / "easybuild" / installed
