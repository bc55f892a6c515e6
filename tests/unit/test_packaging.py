"""What `pip install .` installs according to setup.cfg: installations contain only what is listed there."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE = CHECKOUT / "src" / "hpcmod"

SETUP = configparser.ConfigParser()
SETUP.read(CHECKOUT / "setup.cfg")


def test_the_build_needs_only_what_is_installed_too() -> None:
    """The man pages are made from the commands, which import what hpcmod requires."""
    text = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    needed = {name.replace("'", '"') for name in re.findall(r'^    "(.+)",$', text, re.MULTILINE)} - {"setuptools>=64"}
    assert needed
    assert needed <= set(SETUP["options"]["install_requires"].strip().splitlines())


def dotted(directory: Path) -> str:
    """Return the name of the package in a directory below src/."""
    return ".".join(directory.relative_to(PACKAGE.parent).parts)


def test_pip_installs_every_package() -> None:
    listed = set(SETUP["options"]["packages"].split())
    missing = {dotted(source.parent) for source in PACKAGE.rglob("*.py")} - listed
    assert not missing, f"add to `packages` in setup.cfg: {sorted(missing)}"


def test_pip_installs_every_data_file() -> None:
    data = SETUP["options.package_data"]
    installed = {
        path
        for package, patterns in data.items()
        for pattern in patterns.replace(",", " ").split()
        for path in PACKAGE.parent.joinpath(*package.split(".")).glob(pattern)
    }
    files = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in {".py", ".pyc"}}
    assert files - installed == set()
