"""Find installed container modules without a module tool: modulefiles of hpcmod, and the records of what they load."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcmod.fs.reading import open_regular, read_file
from hpcmod.model.facts import Package

RECORD = "record.json"
"""Says what an installation consists of: its last file before the modulefile."""

PROGRAM = "in-environment"
"""Runs the image of an installation with all that its module sets."""

_MARK = b"Written by hpcmod."
_LIMIT = 4 << 20  # bytes of a modulefile that are read; the list of packages of a large image takes 0.1 MB
_ROOT = re.compile(rb'^(?:local root =|set root) "((?:[^"\\]|\\.)*)"$', re.MULTILINE)
_EASYBUILD = (("EASYBUILD_INSTALLPATH_MODULES", "all"), ("EASYBUILD_INSTALLPATH", "modules/all"))


@dataclass(frozen=True)
class Installed:
    """A module that can be loaded, and what it stands on."""

    module: str
    """Short module name, as a module tool shows it."""
    modulefile: Path
    root: Path
    """Directory of the installation."""
    record: Mapping[str, Any]
    """What its record says, not checked; empty if there is none."""

    @property
    def name(self) -> str:
        """Name without the version."""
        return self.module.rpartition("/")[0]

    @property
    def version(self) -> str:
        """Version with its suffix."""
        return self.module.rpartition("/")[2]

    @property
    def program(self) -> Path:
        """Runs the image with all that the module sets; see PROGRAM."""
        return self.root / PROGRAM

    def of_image(self, key: str) -> str:
        """Return what the record says of the image: path, sha256, size, ...; empty if it says nothing."""
        image = self.record.get("image")
        return str(image.get(key, "")) if isinstance(image, dict) else ""

    @property
    def packages(self) -> tuple[Package, ...]:
        """Python packages that the record lists, in its order."""
        listed = self.record.get("packages")
        found = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        return tuple(Package(str(one.get("name", "")), str(one.get("version", ""))) for one in found)

    @property
    def size(self) -> int:
        """Bytes of the image; 0 if that is not known."""
        size = self.of_image("size")
        return int(size) if size.isdigit() else 0


def read_record(root: Path) -> dict[str, Any]:
    """Read what was installed; empty if nothing was."""
    try:
        return parse_install_record(read_file(root / RECORD, _LIMIT))
    except OSError:
        return {}


def parse_install_record(text: str | bytes) -> dict[str, Any]:
    """Parse the record of an installation; empty if the text is not a JSON object."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def module_trees(
    environ: Mapping[str, str], *, more: Iterable[Path] = (), without: Iterable[Path] = ()
) -> tuple[Path, ...]:
    """Directories of modulefiles, first one first: $MODULEPATH, where this user's EasyBuild installs, and more."""
    named = [Path(place) for place in environ.get("MODULEPATH", "").split(":") if place.startswith("/")]
    found = [Path(environ[name], below) for name, below in _EASYBUILD if environ.get(name)]
    prefix = environ.get("EASYBUILD_PREFIX") or (f"{environ['HOME']}/.local/easybuild" if environ.get("HOME") else "")
    found += [Path(prefix, "modules/all")] if prefix else []
    unwanted = {os.path.realpath(place) for place in without}
    return tuple(place for place in dict.fromkeys([*named, *found, *more]) if os.path.realpath(place) not in unwanted)


def find_installed(trees: Iterable[Path], name: str | None = None) -> Iterator[Installed]:
    """Yield the container modules of module trees, of one name if it is given; a module hides a later one."""
    seen = set()
    for tree in trees:
        names = [name] if name else _directories(tree)
        for module, path in sorted(pair for one in names for pair in _modulefiles(tree, one)):
            found = read_installed(path, module)
            if found and module not in seen:
                seen.add(module)
                yield found


def own_trees(trees: Iterable[Path]) -> tuple[Path, ...]:
    """Those of the trees that this user may write to."""
    return tuple(tree for tree in trees if os.access(tree, os.W_OK))


def _directories(tree: Path) -> list[str]:
    with suppress(OSError), os.scandir(tree) as entries:
        return [entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
    return []


def _modulefiles(tree: Path, name: str) -> Iterator[tuple[str, Path]]:
    with suppress(OSError), os.scandir(tree / name) as entries:
        for entry in entries:
            if not entry.name.startswith("."):
                yield f"{name}/{entry.name.removesuffix('.lua')}", Path(entry.path)


def find_in_tree(tree: Path, module: str) -> Installed | None:
    """Find a module in one tree, by its full name."""
    found = (read_installed(tree / f"{module}{end}", module) for end in (".lua", ""))
    return next((one for one in found if one), None)


def read_installed(modulefile: Path, module: str) -> Installed | None:
    """Read a modulefile; None if it is none that loads a container of hpcmod."""
    try:
        with open_regular(modulefile) as file:
            text = file.read(_LIMIT)
    except OSError:
        return None
    is_module = modulefile.suffix == ".lua" or text.startswith(b"#%Module")  # else EasyBuild's copy of a former one
    root = find_root(text) if is_module else None
    return Installed(module, modulefile, root, read_record(root)) if root else None


def find_root(modulefile: bytes) -> Path | None:
    """Return the directory of the installation that the text of a modulefile loads; None if hpcmod did not write it."""
    found = _ROOT.search(modulefile)
    if _MARK not in modulefile or found is None:
        return None
    # the path of an installation has no control character, so a backslash only escapes the character after it
    return Path(os.fsdecode(re.sub(rb"\\(.)", rb"\1", found[1])))
