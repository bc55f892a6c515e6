"""Remove an installation, its module first, so that no one loads a partial one; files added by others are kept.

The modulefile is first renamed to a hidden name, and deleted last: an interrupted removal is found by that name and
completed by the next run. What is left then are packages that users added, and empty directories.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path

from hpcmod.core.errors import BadInputError
from hpcmod.core.fs.anchored import renamed_in_errors
from hpcmod.core.fs.beneath import closing
from hpcmod.core.fs.removal import prune
from hpcmod.core.fs.tree import Tree
from hpcmod.core.lock import hold, lock_name
from hpcmod.core.values.text import is_file_name
from hpcmod.images import Sif
from hpcmod.modules.installed import Installed, read_installed, read_record
from hpcmod.modules.own_default import unmark_default
from hpcmod.modules.user_layer import has_additions, is_shipped
from hpcmod.modules.values.install_record import DEFINITIONS, RECORD, is_user_packages

_UNFINISHED = ".hpcmod-removing"

_EMPTY = ("modules/*", "modules", "build", "ebfiles_repo/*", "ebfiles_repo", "sources/*", "sources")
"""Directories that EasyBuild creates below a prefix, deepest first."""
_LOCKS = ("software/.locks", "software")


@dataclass(frozen=True)
class Removal:
    """What removing an installation deletes."""

    modulefiles: tuple[Path, ...]
    """The module, and links to it that EasyBuild creates in a directory for each module class."""
    root: Path
    removed: tuple[Path, ...]
    """Paths in the root to delete, sorted: those created by the installation."""
    kept: tuple[Path, ...]
    """Paths to keep, sorted: files that others added, above all the user's own packages."""

    @property
    def packages(self) -> tuple[Path, ...]:
        """Return the paths to delete that contain packages added by the user."""
        return tuple(path for path in self.removed if _has_users_packages(path))


def make_removal(installed: Installed, *, with_packages: bool) -> Removal:
    """Decide what to remove.

    Raises BadInputError if it belongs to another user, or its directory has no record and may contain anything.
    """
    root, modulefile = installed.root, installed.modulefile.resolve()
    if _is_unfinished(modulefile) and not (root / RECORD).is_file():  # the record is deleted last
        return Removal((modulefile,), root, (), tuple(sorted(root.iterdir())) if root.is_dir() else ())
    if installed.record.module != installed.module:
        raise BadInputError(
            f"{root} has no {RECORD} of {installed.module}, so its files may belong to something else",
            f"Check the directory, then remove the modulefile {modulefile} and the directory yourself.",
        )
    for path in (modulefile, root):
        if not _is_owned(path):
            raise BadInputError(f"{path} belongs to another user", "Ask its owner to remove it.")
    removed, kept = _divide(installed, with_packages=with_packages)
    named = modulefile.parents[2].glob(f"*/{escape(installed.name)}/{escape(modulefile.name)}")
    links = sorted(path for path in named if path.is_symlink() and path.resolve() == modulefile)
    return Removal((modulefile, *links), root, removed, kept)


def _divide(installed: Installed, *, with_packages: bool) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the paths in the root that the installation created, and those that others added."""
    ours = _paths_of(installed)
    holders = {directory for path in ours for directory in path.parents}
    removed: list[Path] = []
    kept: list[Path] = []

    def divide(directory: Path) -> None:
        for path in sorted(directory.iterdir()):
            if path in ours:
                removed.append(path)
            elif directory == installed.root and is_user_packages(path.name):
                (removed if with_packages or not _has_users_packages(path) else kept).append(path)
            elif path in holders and path.is_dir() and not path.is_symlink():
                before = len(removed), len(kept)
                divide(path)
                if len(kept) == before[1]:
                    removed[before[0] :] = [path]
            else:
                kept.append(path)

    divide(installed.root)
    return tuple(removed), tuple(kept)


def _paths_of(installed: Installed) -> set[Path]:
    """Return the paths in the record, the image's definition, and the directory of EasyBuild's logs."""
    image = Path(installed.image.path)
    names = (*(name for name, _ in installed.record.files), f"{DEFINITIONS}/{image.stem}.def", RECORD, "easybuild")
    return {installed.root / name for name in names} | {image, Sif(image).sidecar}


def remove_installation(installed: Installed, removal: Removal, *, tell: Callable[[str], None]) -> None:
    """Remove an installation; if interrupted, the module is either intact or gone, and a new run completes the removal.

    Raises BusyError if it is being installed; BadInputError if its directory, or that of its module, was exchanged
    after the decision what to remove.
    """
    modulefile, *links = removal.modulefiles
    unfinished = modulefile if _is_unfinished(modulefile) else _unfinished_name(modulefile)
    with _opened_modules(installed, modulefile) as modules:
        with _alone(installed, tell), _opened(installed, removal) as tree:
            _remove_links(links, modulefile.parents[2])
            if unfinished != modulefile:
                modules.rename(modulefile.name, unfinished.name)
            unmark_default(replace(installed, modulefile=modules.root / modulefile.name))
            for path in links:
                prune(path.parent)
            record = removal.root / RECORD
            for path in sorted(removal.removed, key=lambda path: path == record):
                tree.remove_all(path.relative_to(removal.root))
            prune(removal.root)
            prune(removal.root.parent)
        modules.remove(unfinished.name)  # after releasing the lock: once this name is gone, nothing is left
    prune(unfinished.parent)
    prune_prefix(removal.root.parents[1])


def _remove_links(links: Iterable[Path], modules: Path) -> None:
    tree = Tree(modules)
    for path in links:
        with suppress(FileNotFoundError):
            if stat.S_ISLNK(tree.status(path).st_mode):
                tree.remove(path)


@contextmanager
def _opened_modules(installed: Installed, modulefile: Path) -> Iterator[Tree]:
    """Open the directory of the modulefile, as `_opened` does that of the installation."""
    with _open_directory(modulefile.parent) as directory, renamed_in_errors(directory / modulefile.name, modulefile):
        found = read_installed(directory / modulefile.name, installed.module)
        if found is None or found.root != installed.root or not _is_owned(found.modulefile):
            raise BadInputError(f"{modulefile} was exchanged meanwhile", f"See who did it: ls -ld {modulefile.parent}")
        yield Tree(directory)


@contextmanager
def _opened(installed: Installed, removal: Removal) -> Iterator[Tree]:
    """Open the directory of an installation: where others may write, they could exchange it while it is emptied."""
    if not removal.removed:
        yield Tree(removal.root)
        return
    with _open_directory(removal.root) as directory, renamed_in_errors(directory / RECORD, removal.root / RECORD):
        if not _is_owned(directory) or read_record(directory).module != installed.module:
            raise BadInputError(f"{removal.root} was exchanged meanwhile", f"See who did it: ls -ld {removal.root}")
        yield Tree(directory)


@contextmanager
def _open_directory(path: Path) -> Iterator[Path]:
    """Open a directory; yield a path that leads to it whatever others rename meanwhile."""
    with closing(os.open(path, os.O_RDONLY | os.O_DIRECTORY)) as directory:
        yield Path(f"/proc/self/fd/{directory}")


def _is_owned(path: Path) -> bool:
    return path.stat().st_uid == os.geteuid()


def find_unfinished_removal(trees: Iterable[Path], module: str) -> Installed | None:
    """Find an installation with an interrupted removal by its full name; None if there is none."""
    if not all(map(is_file_name, module.split("/"))):
        return None
    unfinished = (_unfinished_name(tree / f"{module}{end}") for tree in trees for end in (".lua", ""))
    return next(filter(None, (read_installed(path, module) for path in unfinished)), None)


def _unfinished_name(modulefile: Path) -> Path:
    """Return a modulefile's name during removal, which no module tool sees."""
    suffix = ".lua" if modulefile.suffix == ".lua" else ""
    return modulefile.with_name(f".{modulefile.name.removesuffix('.lua')}{_UNFINISHED}{suffix}")


def _is_unfinished(modulefile: Path) -> bool:
    return modulefile.name.startswith(".") and _UNFINISHED in modulefile.name


@contextmanager
def _alone(installed: Installed, tell: Callable[[str], None]) -> Iterator[None]:
    """Hold the installation lock, if the directories follow EasyBuild's own scheme."""
    software = installed.root.parents[1]
    lock = software / ".locks" / f"{lock_name(str(installed.root))}.lock"
    with ExitStack() as held:
        if os.access(software, os.W_OK):
            held.enter_context(hold(lock, limit=0.0, tell=tell))
        yield


def _has_users_packages(path: Path) -> bool:
    """Return whether a path has packages of the user; those of the easyconfig are the installation's."""
    return is_user_packages(path.name) and not is_shipped(path) and has_additions(path)


def prune_prefix(software: Path) -> None:
    """Remove empty directories that an EasyBuild installation left next to the software directory.

    The prefix itself is removed only if it has the name that EasyBuild and hpcmod give to prefixes.
    """
    prefix = software.parent
    if software.name != "software" or {path.name for path in software.glob("*")} - {".locks"}:
        return
    for directory in (path for pattern in (*_EMPTY, *_LOCKS) for path in prefix.glob(pattern)):
        if directory.resolve() == prefix.resolve() / directory.relative_to(prefix):  # not behind a link of others
            prune(directory)
    if prefix.name == "easybuild":
        prune(prefix)
