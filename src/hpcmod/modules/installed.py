"""Find installed container modules without a module tool: hpcmod's modulefiles and installation records."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.core.fs.reading import open_regular, read_file
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.text import is_file_name
from hpcmod.modules.values.install_record import (
    LOGIC,
    MODULES,
    NO_RECORD,
    PROGRAM,
    RECORD,
    RECORD_LIMIT,
    InstalledImage,
    InstallRecord,
    find_root,
    parse_install_record,
)

_LIMIT = 4 << 20  # bytes read from a modulefile; the package list of a large image takes 0.1 MB
_EASYBUILD = {"EASYBUILD_INSTALLPATH_MODULES": "", "EASYBUILD_INSTALLPATH": "modules", "EASYBUILD_PREFIX": "modules"}


@dataclass(frozen=True)
class Installed:
    """A module that can be loaded, and its installation."""

    module: str
    """Short module name, as shown by a module tool."""
    modulefile: Path
    root: Path
    """Root directory of the installation."""
    record: InstallRecord
    """NO_RECORD if there is none."""

    @property
    def name(self) -> str:
        """Return the name without the version."""
        return self.module.rpartition("/")[0]

    @property
    def version(self) -> str:
        """Return the version with its suffix."""
        return self.module.rpartition("/")[2]

    @property
    def program(self) -> Path:
        """Return the program that runs the image with the module's environment; see PROGRAM."""
        return self.root / PROGRAM

    @property
    def logic(self) -> str:
        """Return the file below the root that the modulefile calls."""
        return f"libexec/module{LOGIC['Lua' if self.modulefile.suffix == '.lua' else 'Tcl']}"

    @property
    def has_bash(self) -> bool:
        """Whether the image has bash, as far as is known: if not, no run script that needs it was installed."""
        return not self.record.files or "runscripts/run-in-env" in self.record.scripts

    def check_program(self) -> None:
        """Raise LackingError, with the command that helps, if this program is missing."""
        if not self.program.is_file():
            cure = f"Restore it: hpcmod repair {sh_word(self.module)}; if it is the site's, ask its support."
            raise LackingError(f"{self.module} is not complete: {self.program} is missing", cure)

    @property
    def image(self) -> InstalledImage:
        """Return the image from the record; its path is empty if there is no record."""
        return self.record.image

    @property
    def modulefile_sha256(self) -> str:
        """Return the sha256 of the modulefile as it was installed; empty if the record does not have it."""
        known = self.record.modulefile
        return known.sha256 if os.path.realpath(known.path) == os.path.realpath(self.modulefile) else ""


def read_record(root: Path) -> InstallRecord:
    """Read the record of an installation; NO_RECORD if there is none that can be read."""
    try:
        return parse_install_record(read_file(root / RECORD, RECORD_LIMIT), str(root / RECORD))
    except (OSError, BadInputError):
        return NO_RECORD


def module_trees(
    environ: Mapping[str, str], *, more: Iterable[Path] = (), without: Iterable[Path] = ()
) -> tuple[Path, ...]:
    """Return directories of modulefiles, in order: $MODULEPATH, this user's EasyBuild prefix, and more."""
    named = [Path(place) for place in environ.get("MODULEPATH", "").split(":") if place.startswith("/")]
    usual = {"EASYBUILD_PREFIX": f"{environ['HOME']}/.local/easybuild"} if environ.get("HOME") else {}
    below = environ.get("EASYBUILD_SUFFIX_MODULES_PATH", "all")  # empty on LUMI
    given = {**usual, **{name: place for name, place in environ.items() if place}}
    trees = [Path(given[name], folder, below) for name, folder in _EASYBUILD.items() if name in given]
    unwanted = {os.path.realpath(place) for place in without}
    return tuple(place for place in dict.fromkeys([*named, *trees, *more]) if os.path.realpath(place) not in unwanted)


def find_installed(trees: Iterable[Path], name: str | None = None) -> Iterator[Installed]:
    """Yield the container modules in module trees, optionally of one name; the first of a name hides others."""
    seen = set()
    for tree in trees:
        names = [name] if name else _directories(tree)
        for module, path in sorted(pair for each in names for pair in _modulefiles(tree, each)):
            installed = read_installed(path, module)
            if installed and module not in seen and (module.count("/") == 1 or installed.record.module == module):
                seen.add(module)
                yield installed


def find_without_modulefile(trees: Iterable[Path], text: str) -> Iterator[Installed]:
    """Yield installations below the prefixes of module trees whose modulefile was deleted, by NAME/VERSION or NAME.

    Their modulefile is the deleted one. They are sorted by directory.
    """
    name, _, version = text.partition("/")
    if not all(map(is_file_name, text.split("/"))):
        return
    prefixes = dict.fromkeys(tree.parents[1] for tree in trees if str(tree).endswith(f"/{MODULES}"))
    pattern = f"software/{escape(name)}/{escape(version) or '*'}"
    for root in (root for prefix in prefixes for root in sorted(prefix.glob(pattern))):
        record = read_record(root)
        path = record.modulefile.path
        if path.startswith("/") and not os.path.lexists(path):
            yield Installed(record.module, Path(path), root, record)


def own_trees(trees: Iterable[Path]) -> tuple[Path, ...]:
    """Return the trees that this user may write to."""
    return tuple(tree for tree in trees if os.access(tree, os.W_OK))


def _directories(tree: Path) -> list[str]:
    with suppress(OSError), os.scandir(tree) as entries:
        return [entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
    return []


def _modulefiles(tree: Path, name: str) -> Iterator[tuple[str, Path]]:
    with suppress(OSError), os.scandir(tree / name) as entries:
        for entry in (entry for entry in entries if not entry.name.startswith(".")):
            if entry.is_dir() and "/" not in name:  # below CLASS/, in EasyBuild's CategorizedModuleNamingScheme
                yield from _modulefiles(tree, f"{name}/{entry.name}")
            else:
                yield f"{name}/{entry.name.removesuffix('.lua')}", Path(entry.path)


def find_in_trees(trees: Iterable[Path], module: str) -> Iterator[Installed]:
    """Yield the copies of a module by its full name, at most one of each tree."""
    for tree in trees:
        copies = (read_installed(tree / f"{module}{end}", module) for end in (".lua", ""))
        yield from [copy for copy in copies if copy][:1]


def read_installed(modulefile: Path, module: str) -> Installed | None:
    """Read a modulefile; None if it does not load a container installed by hpcmod."""
    try:
        with open_regular(modulefile) as file:
            text = file.read(_LIMIT)
    except OSError:
        return None
    is_module = modulefile.suffix == ".lua" or text.startswith(b"#%Module")  # else EasyBuild's backup of an earlier one
    root = os.fsdecode(find_root(text)) if is_module else ""
    return Installed(module, modulefile, Path(root), read_record(Path(root))) if root else None
