"""Copy what `eb` installed in the publisher's private directory into the catalogue."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from hpcmod.catalogue.records.sharing import check_open_directory, file_mode, removal_group
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.modules import PrivateInstallation
from hpcmod.modules.values.install_record import InstallRecord

_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP)


@dataclass(frozen=True)
class StagedInstallation(PrivateInstallation):
    """An installation in the publisher's private directory, and its place in the catalogue."""

    catalogue: Catalogue

    def mode_of(self, status: os.stat_result) -> int:
        """Return the mode of the catalogue's files."""
        mode = file_mode(self.catalogue.directory)
        return mode | (mode & 0o444) >> 2 if status.st_mode & stat.S_IXUSR else mode

    def check(self, path: Path, directory: int) -> None:
        """Raise LackingError if an open directory of the catalogue may be another user's."""
        check_open_directory(self.catalogue, path, directory)

    def removal_group(self) -> int | None:
        """Return the group that must be able to remove an old script."""
        return removal_group(self.catalogue, self.target)

    def finish(self, record: InstallRecord) -> InstallRecord:
        """Give the image a second name in the installation, if possible; return the record with it, no checksums."""
        record = self.final_record(record.without_checksums())
        path = Path(record.image.path)
        own = self.target / path.name
        if not path.parent.samefile(self.catalogue.images):
            return record
        try:
            self.tree.link(self.catalogue.images / path.name, own)
        except OSError as err:
            if err.errno not in _NO_LINKS:
                raise
            self.tree.remove(own)  # the module would prefer it to the image of the catalogue
            return record
        return replace(record, image=replace(record.image, path=str(own), method="hardlink"))
