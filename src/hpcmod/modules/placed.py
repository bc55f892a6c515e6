"""Copy what `eb` installed in a private directory to its final place, where others may write too.

EasyBuild and easyblocks open files by path. In a directory that a group may write, a member could exchange a directory
for a symbolic link while they run, and they would write to its target. So they run where no other user can write, and
only this copy goes to the shared directory: by descriptors, following no link.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hpcmod.core.errors import BadInputError, CheckFailedError
from hpcmod.core.fs.beneath import closing
from hpcmod.core.fs.removal import remove_at
from hpcmod.core.fs.replacing import replacing
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.fs.tree import Tree, link_at, write_at
from hpcmod.modules import user_layer
from hpcmod.modules.installed import read_record
from hpcmod.modules.values.install_record import (
    RECORD,
    USER_SOFTWARE,
    InstallRecord,
    parse_install_record,
    render_install_record,
)

_LOGS = "easybuild"
_TEXT_LIMIT = 64 << 20  # bytes; a larger file is copied unchanged


@dataclass(frozen=True)
class PrivateInstallation:
    """An installation in a private directory, and its final place."""

    target: Path
    """Its final directory, as scripts and modules name it."""
    tree: Tree
    """The shared directory that contains the final place."""
    at: Path
    """The final directory in the tree."""
    prefix: str
    """The private directory, which precedes every final path in the installed files."""
    digest: str
    """A part of the prefix that occurs in no other path."""
    sums: dict[str, str] = field(default_factory=dict, init=False, compare=False)
    """The sha256 of each file that was copied, by its path relative to the root."""

    @property
    def root(self) -> Path:
        """Return its directory below the private one."""
        return Path(f"{self.prefix}{self.target}")

    def mode_of(self, status: os.stat_result) -> int:
        """Return the final mode of a file with this status: the one that `eb` gave it."""
        return status.st_mode & 0o777

    def check(self, path: Path, directory: int) -> None:
        """Raise LackingError if an open directory at a final path may be another user's, or not the installation's."""
        raise NotImplementedError

    def removal_group(self) -> int | None:
        """Return the group that must be able to remove an old script; None for no restriction."""
        return None

    def finish(self, record: InstallRecord) -> InstallRecord:
        """Put the image in place; return the final record for the private one."""
        raise NotImplementedError

    def final_text(self, text: str) -> str:
        """Return a generated text with the final paths.

        Raises BadInputError if the text still names the private directory: some characters are written differently in
        some languages.
        """
        final = text.replace(self.prefix, "")
        if self.digest in final:
            raise BadInputError(
                f"modules and scripts cannot be moved from {self.prefix}: its path has unusual characters",
                "Set XDG_STATE_HOME to a directory whose path has only letters, digits and ./_+-",
            )
        return final

    def final_record(self, record: InstallRecord) -> InstallRecord:
        """Return a record with the final paths."""
        return parse_install_record(self.final_text(render_install_record(record)).encode())

    def place(self) -> None:
        """Copy it to its final place, the record last; packages that users added to an earlier installation are kept.

        Raises CheckFailedError if `eb` made something else; LackingError if a directory may be another user's; OSError
        (ELOOP if a directory is a symbolic link).
        """
        if not (self.root / RECORD).is_file():
            raise CheckFailedError(
                f"eb installed no container in {self.root}", "Use the easyblock ContainerModule in the easyconfig."
            )
        with self._opened(Path()) as top:
            self._copy_files()
            user_layer.copy(self.root, self.tree, self.at)
            path = self.root / RECORD
            record = self.finish(parse_install_record(path.read_bytes()))
            write_at(top, RECORD, render_install_record(record), self.mode_of(path.stat()))

    def _copy_files(self) -> None:
        before = {Path(name) for name in read_record(self.at).scripts}
        for directory, below, names in os.walk(self.root):
            relative = Path(directory).relative_to(self.root)
            if relative == Path():
                below[:] = [name for name in below if name != USER_SOFTWARE]
                names.remove(RECORD)
            new = [*names, *(name for name in below if Path(directory, name).is_symlink())]
            with self._opened(relative) as opened:
                for name in new:
                    self._copy(relative / name, opened)
                for old in before:
                    if old.parent == relative and old.name not in new:
                        remove_at(opened, old.name, open_to=self.removal_group())

    @contextmanager
    def _opened(self, relative: Path) -> Iterator[int]:
        """Open a final directory of the installation; create it first if it does not exist."""
        path = self.at / relative
        self.tree.make_directory(path)
        with closing(self.tree.open(path, os.O_RDONLY | os.O_DIRECTORY)) as opened:
            self.check(path, opened)
            clear_leftovers(Path(f"/proc/self/fd/{opened}"), alone=True)
            yield opened

    def _copy(self, relative: Path, directory: int) -> None:
        """Copy a file or a link into an open directory; EasyBuild makes nothing else."""
        source = self.root / relative
        status = source.lstat()
        if stat.S_ISLNK(status.st_mode):
            target = str(source.readlink()).replace(self.prefix, "")
            if target != str(self.target / relative):  # the private one points to the existing directory
                link_at(directory, source.name, target)
            return
        mode = self.mode_of(status)
        if status.st_size <= _TEXT_LIMIT:
            content = self._final_content(relative, source.read_bytes())
            self.sums[str(relative)] = hashlib.sha256(content).hexdigest()
            write_at(directory, source.name, content, mode)
            return
        with replacing(Path(f"/proc/self/fd/{directory}", source.name)) as new:
            shutil.copyfile(source, new)
            new.chmod(mode)

    def _final_content(self, relative: Path, content: bytes) -> bytes:
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return content
        final = text.replace(self.prefix, "") if relative.parts[0] == _LOGS else self.final_text(text)
        return final.encode()
