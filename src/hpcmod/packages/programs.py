"""The programs beside a user's packages: those of the image, which must see the packages, and those that they bring."""

from __future__ import annotations

import contextlib
import csv
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from hpcmod.core.fs.reading import read_file
from hpcmod.core.fs.tree import write_file
from hpcmod.images import Squashfs, open_root
from hpcmod.packages.values.plan import PackageTarget
from hpcmod.packages.values.requirement import normalize_package

_PYTHON = re.compile(r"/[^\s'\"]*/python[0-9.]*")
_SCRIPT = re.compile(rf"#! *({_PYTHON.pattern})|#!/bin/sh\n'''exec' \"?({_PYTHON.pattern})")
"""The start of a program as pip writes it, the second form where the path is long."""
_OF_VENV = re.compile(r"(?:python|pip|activate|Activate)[0-9.]*(?:\..*)?|.*/.*")
_LONGEST = 1 << 16  # bytes of a script that starts a Python package
_BIN = "../../../bin/"
"""The directory of programs, relative to site-packages."""
_OF_SYSTEM = ("/usr", "/usr/local")
_RECORD_LIMIT = 64 << 20  # bytes of a package's list of files


def copy_programs(target: PackageTarget, venv: Path) -> None:
    """Copy the Python programs of the image, such as torchrun, into the virtual environment of the user's packages.

    The originals start the image's Python, which does not see the packages; nor do the ranks that they start.

    Parameters
    ----------
    venv
        The virtual environment on this host.
    """
    with open_root(target.sif) as root:
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
