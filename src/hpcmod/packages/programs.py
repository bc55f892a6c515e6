"""The programs beside a user's packages, and what pip and conda have noted about the packages."""

from __future__ import annotations

import contextlib
import csv
import json
import posixpath
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from hpcmod.core.fs.reading import read_file, read_start
from hpcmod.core.fs.tree import write_file
from hpcmod.images import Sif, Squashfs
from hpcmod.images.values.metadata import METADATA, read_package
from hpcmod.modules import read_packages_in
from hpcmod.packages.values.plan import PackageTarget
from hpcmod.packages.values.requirement import normalize_package
from hpcmod.packages.values.sources import PipMetadata

_PYTHON = re.compile(r"/[^\s'\"]*/python[0-9.]*")
_SCRIPT = re.compile(rf"#! *({_PYTHON.pattern})|#!/bin/sh\n'''exec' \"?({_PYTHON.pattern})")
"""The start of a program as pip writes it, the second form where the path is long."""
_OF_VENV = re.compile(r"(?:python|pip|activate|Activate)[0-9.]*(?:\..*)?|.*/.*")
_LONGEST = 1 << 16  # bytes of a script that starts a Python package, and of a file of metadata
_BIN = "../../../bin/"
"""The directory of programs, relative to site-packages."""
_OF_SYSTEM = ("/usr", "/usr/local")
_RECORD_LIMIT = 64 << 20  # bytes of a package's list of files, of pip or conda


def copy_programs(target: PackageTarget, venv: Path) -> None:
    """Copy the Python programs of the image, such as torchrun, into the virtual environment of the user's packages.

    The originals start the image's Python, which does not see the packages; nor do the ranks that they start.

    `venv`: The virtual environment on this host.
    """
    with Sif(target.sif).root() as root:
        for name, text in _find_programs(root, target):
            script = venv / "bin" / name
            if not script.exists():
                write_file(script, _PYTHON.sub(f"{target.venv}/bin/python", text, count=1), mode=0o755)


def _find_programs(squashfs: Squashfs, target: PackageTarget) -> Iterator[tuple[str, str]]:
    """Yield name and text of each script that the image's Python runs, except those of the operating system."""
    prefix = target.python.prefix
    directory = "/usr/local/bin" if prefix in _OF_SYSTEM else f"{prefix}/bin"
    own = {f"{prefix}/bin", posixpath.dirname(target.python.executable)}
    own |= {squashfs.real_path(path) or path for path in own}
    for name in squashfs.listdir(directory):
        inode = None if _OF_VENV.fullmatch(name) else squashfs.find(f"{directory}/{name}")
        if inode is None or not inode.executable or inode.size > _LONGEST:
            continue
        text = squashfs.read_bytes(f"{directory}/{name}", _LONGEST).decode("utf-8", "surrogateescape")
        script = _SCRIPT.match(text) if text.isascii() else None
        if script and posixpath.dirname(script[1] or script[2]) in own:
            yield name, text


def read_pip_lists(packages: Path) -> tuple[dict[str, int], tuple[str, ...]]:
    """Read what pip has listed in a directory site-packages.

    Returns
    -------
    sizes
        Installed bytes of each package, by its normalized name.
    programs
        Names of the programs that the packages have brought, sorted.
    """
    sizes, programs = {}, set()
    for info in sorted(packages.glob("*.dist-info")):
        with contextlib.suppress(OSError, ValueError, csv.Error):
            rows = list(csv.reader(read_file(info / "RECORD", _RECORD_LIMIT).decode().splitlines()))
            name = normalize_package(info.name.split("-")[0])
            sizes[name] = sum(int(row[2]) for row in rows if len(row) > 2 and row[2].isdigit())
            programs |= {row[0].removeprefix(_BIN) for row in rows if row and row[0].startswith(_BIN)}
    return sizes, tuple(sorted(name for name in programs if not _OF_VENV.fullmatch(name)))


def read_pip_metadata(packages: Path) -> Iterator[PipMetadata]:
    """Yield what pip has written about the packages in a directory site-packages, sorted by name."""
    for info in sorted(path for path in packages.glob("*") if path.name.endswith(METADATA)):
        package = read_package(str(info), partial(read_start, most=_LONGEST))
        if package:
            url = read_start(f"{info}/direct_url.json", _LONGEST)
            yield PipMetadata(package.name, package.version, (info / "REQUESTED").exists(), url)


def find_conda_metadata(prefix: Path) -> frozenset[tuple[str, str]]:
    """Return name and version of the Python packages that conda has installed in a prefix.

    A damaged record counts as one without packages.
    """
    directories = {
        str(parent)
        for record in sorted((prefix / "conda-meta").glob("*.json"))
        for name in _files_of(record)
        for parent in Path(name).parents
        if parent.name.endswith(METADATA)
    }
    sites = {(prefix / directory).parent for directory in directories}
    kept = {(prefix / directory).name for directory in directories}
    return frozenset((package.name, package.version) for site in sites for package in read_packages_in(site, only=kept))


def _files_of(record: Path) -> list[str]:
    try:
        listed = json.loads(read_file(record, _RECORD_LIMIT))["files"]
        return [name for name in listed if isinstance(name, str)]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
