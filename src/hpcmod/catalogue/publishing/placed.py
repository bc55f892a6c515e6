"""Copy what `eb` installed in the publisher's private directory into the catalogue.

EasyBuild and easyblocks open files by path. In a catalogue that a group may write, a member could exchange a directory
for a symbolic link while they run, and they would write to its target. So they run where no other user can write, and
only this copy goes into the catalogue: by descriptors, following no link.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hpcmod.catalogue.records.sharing import check_open_directory, file_mode, removal_group
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.visible.kept import without_checksums
from hpcmod.errors import BadInputError, CheckFailedError
from hpcmod.fs.removal import remove_at
from hpcmod.fs.replacing import replacing
from hpcmod.fs.temporary import clear_leftovers
from hpcmod.fs.tree import link_at, write_at
from hpcmod.install import user_layer
from hpcmod.install.installed import RECORD, read_record, scripts_of

_LOGS = "easybuild"
_TEXT_LIMIT = 64 << 20  # bytes; a larger file is copied unchanged
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP)


@dataclass(frozen=True)
class PrivateInstallation:
    """An installation in a private directory, and its place in the catalogue."""

    catalogue: Catalogue
    target: Path
    """Its directory in the catalogue."""
    prefix: str
    """The private directory, which precedes every path of the catalogue in the installed files."""
    digest: str
    """A part of the prefix that occurs in no other path."""

    @property
    def root(self) -> Path:
        """Return its directory below the private one."""
        return Path(f"{self.prefix}{self.target}")

    def final_text(self, text: str) -> str:
        """Return a generated text with the paths of the catalogue.

        Raises
        ------
        BadInputError
            If the text still names the private directory: some characters are written differently in some languages.
        """
        final = text.replace(self.prefix, "")
        if self.digest in final:
            raise BadInputError(
                f"modules and scripts cannot be moved from {self.prefix}: its path has unusual characters",
                "Set XDG_STATE_HOME to a directory whose path has only letters, digits and ./_+-",
            )
        return final

    def place(self) -> None:
        """Copy it into the catalogue, the record last; packages that users added to an earlier one stay.

        Raises
        ------
        CheckFailedError
            If `eb` made something else.
        LackingError
            If a directory may be another user's.
        OSError
            ELOOP if a directory is a symbolic link.
        """
        if not (self.root / RECORD).is_file():
            raise CheckFailedError(
                f"eb installed no container in {self.root}", "Use the easyblock ContainerModule in the easyconfig."
            )
        with self._opened(Path()) as top:
            self._copy_files()
            user_layer.copy(self.root, self.catalogue.tree, self.target)
            text = without_checksums((self.root / RECORD).read_text(encoding="utf-8"))
            record = self._link_image(self.final_text(text))
            write_at(top, RECORD, record, file_mode(self.catalogue.directory))

    def _copy_files(self) -> None:
        before = {Path(name) for name in scripts_of(read_record(self.target))}
        for directory, below, names in os.walk(self.root):
            relative = Path(directory).relative_to(self.root)
            if relative == Path():
                below[:] = [name for name in below if name != user_layer.DIRECTORY]
                names.remove(RECORD)
            new = [*names, *(name for name in below if Path(directory, name).is_symlink())]
            with self._opened(relative) as opened:
                for name in new:
                    self._copy(relative / name, opened)
                for old in before:
                    if old.parent == relative and old.name not in new:
                        remove_at(opened, old.name, open_to=removal_group(self.catalogue, self.target))

    @contextmanager
    def _opened(self, relative: Path) -> Iterator[int]:
        """Open a directory of the installation in the catalogue; create it first if it does not exist."""
        path, tree = self.target / relative, self.catalogue.tree
        tree.make_directory(path)
        opened = tree.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            check_open_directory(self.catalogue, path, opened)
            clear_leftovers(Path(f"/proc/self/fd/{opened}"), alone=True)
            yield opened
        finally:
            os.close(opened)

    def _copy(self, relative: Path, directory: int) -> None:
        """Copy a file or a link into an open directory; EasyBuild makes nothing else."""
        source = self.root / relative
        status = source.lstat()
        if stat.S_ISLNK(status.st_mode):
            link_at(directory, source.name, str(source.readlink()).replace(self.prefix, ""))
            return
        mode = file_mode(self.catalogue.directory)
        if status.st_mode & stat.S_IXUSR:
            mode |= (mode & 0o444) >> 2
        if status.st_size <= _TEXT_LIMIT:
            write_at(directory, source.name, self._final_content(relative, source.read_bytes()), mode)
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

    def _link_image(self, text: str) -> str:
        """Give the image a second name in the installation, if possible; return the record with it."""
        record = json.loads(text)
        image = Path(record["image"]["path"])
        own = self.target / image.name
        if not image.parent.samefile(self.catalogue.images):
            return text
        try:
            self.catalogue.tree.link(self.catalogue.images / image.name, own)
        except OSError as err:
            if err.errno not in _NO_LINKS:
                raise
            self.catalogue.tree.remove(own)  # the module would prefer it to the image of the catalogue
            return text
        return (
            json.dumps({**record, "image": {**record["image"], "path": str(own), "method": "hardlink"}}, indent=1)
            + "\n"
        )
