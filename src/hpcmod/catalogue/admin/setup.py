"""Files that a site sets up once: the module of hpcmod, its default version, and the scripts it puts on PATH."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import hpcmod
from hpcmod import __version__
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.text.site_module import LOGIC, SiteModule, render_launcher, render_site_module
from hpcmod.core import resources
from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.fs.tree import Tree, write_file
from hpcmod.modules import find_parts, render_default
from hpcmod.modules.values.install_record import MODULERC, SUFFIXES

_GROUP_BITS = 0o2020


@dataclass(frozen=True)
class SetupFile:
    """A file to create."""

    path: Path
    text: str
    executable: bool = False


def setup_files(
    place: Path, catalogues: Sequence[Catalogue], *, completions: Mapping[str, str], site: str = "", eb: bool = False
) -> Iterator[SetupFile]:
    """Yield the files of a setup, the modulefiles last: users must not see a module before its files exist.

    `completions`: The script of each shell of COMPLETION.
    `eb`: Whether users get the `eb` of hpcmod's environment, which finds the easyblocks by itself, instead of the
        site's.

    Raises LackingError if hpcmod or `eb` is not installed next to this Python; BadInputError if a path is not valid as
    an element of a list.
    """
    parts = find_parts(ours=eb)
    man = Path(sys.prefix, "share/man")
    module = SiteModule(
        version=__version__,
        bin=str(place / "bin"),
        python=parts.python,
        libraries=parts.libraries,
        easyconfigs=(*(str(catalogue.easyconfigs) for catalogue in catalogues), str(resources.easyconfigs_directory())),
        images=tuple(str(catalogue.images) for catalogue in catalogues),
        easyblocks=parts.easyblocks,
        own_eb="" if eb else str(Path(sys.executable).parent),
        catalogues=tuple(str(catalogue.directory) for catalogue in catalogues),
        modules=tuple(str(catalogue.modules) for catalogue in catalogues),
        site=site,
        man=str(man) if Path(man, "man1/hpcmod.1").is_file() else "",
    )
    for path in (*module.easyconfigs, *module.images, *module.catalogues, *module.modules, module.bin, module.man):
        if ":" in path:
            raise BadInputError(f"{path}: a colon ends an element of PATH", "Choose another directory.")
    for name in ("hpcmod", "eb") if eb else ("hpcmod",):
        yield _launcher(place, Path(sys.executable).with_name(name))
    scripts, templates = resources.runscript_files(), resources.module_templates()
    yield from (SetupFile(place / name, scripts[name]) for name in LOGIC)
    yield from (SetupFile(place / f"completion/hpcmod.{shell}", text) for shell, text in completions.items())
    directory = place / "modules" / "hpcmod"
    for syntax, suffix in SUFFIXES.items():
        yield SetupFile(directory / f"{__version__}{suffix}", render_site_module(module, syntax, templates))
    # Only for Lua: for a Tcl module, Lmod 8.6 would start a program at each command, and fail if the path has spaces.
    yield SetupFile(directory / MODULERC["Lua"], render_default(f"hpcmod/{__version__}", templates))


def _launcher(place: Path, program: Path) -> SetupFile:
    if not program.is_file():
        raise LackingError(f"{program} not found", f"Install it there: {program.with_name('pip')} install hpcmod")
    return SetupFile(place / "bin" / program.name, render_launcher(str(program)), executable=True)


def write_setup(files: Iterable[SetupFile]) -> None:
    """Write each file atomically and readable for all, whatever the umask; its group is that of the directory."""
    for file in files:
        _make_directory(file.path.parent)
        clear_leftovers(file.path.parent, file.path.name)
        group = file.path.parent.stat().st_mode & 0o020
        write_file(file.path, file.text, mode=(0o755 if file.executable else 0o644) | group)


def _make_directory(path: Path) -> None:
    """Create a directory that everyone may read, without changing owner and permissions of the parent directory."""
    if path.is_dir():
        return
    _make_directory(path.parent)
    tree = Tree(path.parent)
    tree.make_directory(path.name)
    tree.change_mode(path.name, 0o755 | (path.parent.stat().st_mode & _GROUP_BITS))


def find_closed_to_users(profiles: Iterable[Path], place: Path) -> dict[Path, Path]:
    """Return files and directories that not all users may read, each with a file below that they need.

    Who may enter the directories above a setup may also enter them for other files.

    `profiles`: Files of the site profile.
    `place`: Directory of the setup.
    """
    python = Path(sys.executable)
    closed: dict[Path, Path] = {}
    for path in map(Path.absolute, (python.resolve(), python.with_name("hpcmod"), Path(hpcmod.__file__), *profiles)):
        above = [parent for parent in reversed(path.parents) if parent not in place.parents]
        steps = [*((parent, 0o001) for parent in above), (path, 0o004)]
        first = next((step for step, bit in steps if not step.stat().st_mode & bit), None)
        if first:
            closed.setdefault(first, path)
    return closed
