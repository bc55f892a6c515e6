"""Install below a prefix that others may write: `eb` writes to a private directory, and the result is copied."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hpcmod.core.errors import BusyError, LackingError
from hpcmod.core.fs.anchored import anchored_at, renamed_in_errors
from hpcmod.core.fs.ownership import check_no_link_of_others, make_private_directory, others_may_change
from hpcmod.core.fs.removal import names_in
from hpcmod.core.fs.replacing import scratch
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.fs.tree import Tree
from hpcmod.core.lock import hold, lock_name
from hpcmod.machine import state_directory
from hpcmod.modules.eb import call_eb
from hpcmod.modules.installed import read_record
from hpcmod.modules.placed import PrivateInstallation
from hpcmod.modules.values.install_record import NO_RECORD, RECORD, USER_SOFTWARE, InstalledModule, InstallRecord

_VARIABLE = "HPCMOD_SHARED_PREFIX"
"""Variable that tells the easyblock the final and the current path of the installation."""

_REDIRECTED = ("--prefix=", "--installpath=", "--installpath-software=", "--installpath-modules=")
_OTHERS_WRITE = 0o022


@dataclass(frozen=True)
class SharedPrefix:
    """A prefix that others may write, and the private directory in which `eb` installs for it."""

    prefix: str
    """Path as given by the user; installed files contain it."""
    software: str
    """Directory of the installations, below the prefix."""
    modules: str
    """Directory of the module trees, below the prefix."""
    real: str
    """The prefix with links resolved, once at the start."""
    top: str
    """The topmost directory on its path that others may write; no link below it is followed."""
    private: str
    """The private directory, which precedes every path while `eb` runs."""

    @property
    def tree(self) -> Tree:
        """Return the directory below which no link is followed."""
        return Tree(Path(self.top))

    def at(self, path: Path | str) -> Path:
        """Return a path below the prefix as a path in the tree."""
        return Path(self.real, Path(path).relative_to(self.prefix))

    def now(self, path: Path | str) -> Path:
        """Return the path that `eb` uses for a final path."""
        return Path(f"{self.private}{path}")

    def final(self, path: Path | str) -> Path:
        """Return the final path of a path that `eb` uses."""
        return Path(str(path).replace(self.private, "", 1))

    @contextmanager
    def anchored(self, path: Path) -> Iterator[Path]:
        """Create a file's directory below the prefix; yield a path of the file through the open directory."""
        with anchored_at(self.at(path), Path(self.top)) as anchored, renamed_in_errors(anchored, path):
            clear_leftovers(anchored.parent, path.name, alone=True)
            yield anchored

    def lock(self, root: Path) -> Path:
        """Return the lock of an installation, by its final directory."""
        return self.at(self.software) / ".locks" / f"{lock_name(str(root))}.lock"

    def arguments(self, given: Sequence[str], environ: Mapping[str, str]) -> list[str]:
        """Return the arguments with which `eb` writes only below the private directory; images keep their place."""
        starts = ((word, next((start for start in _REDIRECTED if word.startswith(start)), "")) for word in given)
        moved = [f"{start}{self.private}{word[len(start) :]}" if start else word for word, start in starts]
        if any(word.startswith("--prefix=") for word in given) and not environ.get("EASYBUILD_SOURCEPATH"):
            moved.append(f"--sourcepath={self.prefix}/sources")
        return [
            *(*moved, f"--buildpath={self.private}/build", f"--repositorypath={self.private}/repository"),
            "--disable-read-only-installdir",
        ]

    def environ(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the environment for `eb`, which still finds modules that are already installed."""
        trees = filter(None, (f"{self.modules}/all", given.get("MODULEPATH", "")))
        return {**given, _VARIABLE: json.dumps(asdict(self)), "MODULEPATH": ":".join(trees)}

    def place(self, tell: Callable[[str], None]) -> None:
        """Copy what `eb` installed to its final place, modulefiles last.

        Raises HpcmodError as `PrivateInstallation.place`, and BusyError if another process exchanged the image
        meanwhile; OSError (ELOOP if a directory is a symbolic link).
        """
        for root in sorted(path for path in self.now(self.software).glob("[!.]*/*") if path.is_dir()):
            target = self.final(root)
            with hold(self.lock(target), tell=tell, below=Path(self.top)):
                self.installation(target).place()
        for directory, _, names in os.walk(self.now(self.modules)):
            for name in names:
                self._place_module(Path(directory, name))

    def installation(self, target: Path) -> OwnInstallation:
        """Return an installation, by its final directory."""
        return OwnInstallation(
            target, self.tree, self.at(target), self.private, Path(self.private).parent.name, shared=self
        )

    def _place_module(self, path: Path) -> None:
        final = self.at(self.final(path))
        self.tree.make_directory(final.parent)
        with self.tree.parent(final) as (place, name):
            clear_leftovers(Path(f"/proc/self/fd/{place}"), name)
        if path.is_symlink():
            self.tree.symlink(final, str(path.readlink()).replace(self.private, ""))
        else:
            text = self.installation(self.final(path)).final_text(path.read_text(encoding="utf-8"))
            self.tree.write(final, text, mode=path.stat().st_mode & 0o777)


@dataclass(frozen=True)
class OwnInstallation(PrivateInstallation):
    """An installation in the user's private directory, and its place below a shared prefix."""

    shared: SharedPrefix

    def check(self, path: Path, directory: int) -> None:
        """Check that others have not renamed a different directory of this user to the path of an open directory.

        Raises LackingError if it may be.
        """
        status = os.fstat(directory)
        if status.st_uid != os.geteuid() or not names_in(directory):
            return  # in another user's directory, the system decides what this user may change
        if path == self.at:
            ours = {RECORD, *(entry.name for entry in self.root.iterdir())}
            others = [name for name in {*names_in(directory)} - ours if not name.startswith((".", USER_SOFTWARE))]
            is_ours = read_record(path) != NO_RECORD or not others
        else:
            closed = not status.st_mode & _OTHERS_WRITE
            is_ours = not (closed and os.stat("..", dir_fd=directory).st_mode & _OTHERS_WRITE)
        if not is_ours:
            raise LackingError(
                f"{path}: this directory has files that hpcmod did not install, and others could have put it there",
                f"Move it elsewhere: mv {path} {path}.moved",
            )

    def finish(self, record: InstallRecord) -> InstallRecord:
        """Check that the image is in place; return the record with the checksums of the final files."""
        record = self.final_record(record)
        image = record.image
        own = self.target / Path(image.path).name
        if image.path == str(own):
            status = self.tree.status(self.shared.at(own))
            if (status.st_size, status.st_mtime_ns) != (image.size, image.modified):
                raise BusyError(f"{own}: another process replaced this image meanwhile", "Run the command again.")
        else:
            self.tree.remove(self.shared.at(own))  # the module would prefer it to the site's image
        files = tuple((name, self.sums.get(name, sha256)) for name, sha256 in record.files)
        return replace(record, files=files, modulefile=self._describe_module(record.modulefile))

    def _describe_module(self, known: InstalledModule) -> InstalledModule:
        module = self.shared.now(known.path)
        if not module.is_file():
            return known
        text = self.final_text(module.read_text(encoding="utf-8"))
        return InstalledModule(str(self.shared.final(module)), hashlib.sha256(text.encode()).hexdigest())


@contextmanager
def sharing(places: tuple[Path, Path] | None, environ: Mapping[str, str]) -> Iterator[SharedPrefix | None]:
    """Yield the common prefix of two directories if others may write there; None if `eb` can safely write there.

    `places`: Absolute paths of the directory of installations, and of that of module trees; None: not known.

    Raises LackingError if there is no home directory; BadInputError if a link of another user leads there.
    """
    if places is None:
        yield None
        return
    software, modules = places
    prefix = os.path.commonpath(places)
    check_no_link_of_others(Path(prefix), "--prefix")
    real = os.path.realpath(prefix)
    top = first_shared(real)
    if top is None and any(first_shared(directory) for directory in (software, modules, modules / "all")):
        top = Path(real)
    state = state_directory(environ) / "staging" if top else None
    if top is None or state is None or prefix == "/":
        yield None
        return
    make_private_directory(state)
    if others_may_replace(state):  # `eb` would not be safer there
        yield None
        return
    clear_leftovers(state, "install")
    with scratch(state / "install") as made:
        private = Path(os.path.realpath(made.directory), "root")
        private.mkdir()
        yield SharedPrefix(prefix, str(software), str(modules), real, str(top), str(private))


def install_with_eb(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    shared: SharedPrefix | None,
    *,
    tell: Callable[[str], None],
    shown: bool = False,
    print_plan: Callable[[str], None] | None = None,
) -> int:
    """Run `eb`, as `call_eb`, and put what it installed in place if others may write there."""
    if shared is None:
        return call_eb(arguments, environ, tell=tell, shown=shown, print_plan=print_plan)
    status = call_eb(shared.arguments(arguments, environ), shared.environ(environ), tell=tell, shown=shown)
    if not status:
        shared.place(tell)
    return status


def read_shared_prefix(environ: Mapping[str, str]) -> SharedPrefix | None:
    """Return the shared prefix for which this process, `eb`, installs; None if there is none."""
    text = environ.get(_VARIABLE, "")
    return SharedPrefix(**json.loads(text)) if text else None


def others_may_replace(path: Path | str) -> bool:
    """Return whether anyone but this user and root may replace or change what is at a path.

    All directories on the way to it are checked, with links resolved. In one with the sticky bit, such as /tmp, others
    cannot rename what is not theirs.
    """
    whole = Path(os.path.realpath(path))
    if os.path.lexists(whole) and others_may_change(os.lstat(whole)):
        return True
    return any(_others_may_rename_in(above.stat()) for above in whole.parents)


def first_shared(path: Path | str) -> Path | None:
    """Return the first directory from the root to a path, and the path itself, in which others may rename entries.

    Links are resolved, and what does not exist is left out; None if there is no such directory.
    """
    whole = Path(os.path.realpath(path))
    existing = (path for path in (*reversed(whole.parents), whole) if path.is_dir())
    return next((path for path in existing if _others_may_rename_in(path.stat())), None)


def _others_may_rename_in(status: os.stat_result) -> bool:
    is_foreign = status.st_uid not in (os.geteuid(), 0)
    return is_foreign or bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX)
