"""Check free space and quotas before work starts: bytes and files needed against those available."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcmod.core.errors import LackingError, NoSpaceError
from hpcmod.core.fs.mounts import find_file_system
from hpcmod.core.process import run

_BLOCK = 1024  # bytes in which `lfs` counts
_TIMEOUT = 5.0  # seconds; a slow server must not delay the work
_LUSTRE = re.compile(r"\s(\d+)\*?\s+(\d+)\s+(\d+)\s+\S+\s+(\d+)\*?\s+(\d+)\s+(\d+)\s")


@dataclass(frozen=True)
class Need:
    """The space that one step needs."""

    directory: Path
    """Target directory, which may not exist yet."""
    bytes: int
    inodes: int
    """Number of files and directories."""
    what: str
    """Description for the message: `the layers of docker://...`."""
    setting: str
    """How to write it elsewhere, as the end of a sentence: `choose another place for ...: NAME=DIRECTORY`."""


@dataclass(frozen=True)
class SpaceLeft:
    """The space left on a file system; None where unlimited or unknown."""

    bytes: int | None
    inodes: int | None
    of: str
    """Origin of the limit: `free`, or `left of the user quota`."""


def check_room(needs: Sequence[Need]) -> None:
    """Check that all steps together fit; steps that write to the same file system are added up.

    Raises NoSpaceError with the space needed, the space left, and what to do, and LackingError if a directory or its
    nearest existing parent cannot be accessed.
    """
    together: dict[int, list[Need]] = {}
    paths: dict[int, Path] = {}
    for need in needs:
        existing = _existing(need.directory)
        try:
            device = existing.stat().st_dev
        except OSError as err:
            raise LackingError(f"{existing}: cannot be accessed: {err.strerror}", need.setting) from err
        together.setdefault(device, []).append(need)
        paths.setdefault(device, existing)
    for device, share in together.items():
        _check_share(share, [_free(paths[device]), *read_quotas(paths[device])])


def _check_share(needs: Sequence[Need], spaces: Iterable[SpaceLeft]) -> None:
    size, inodes = sum(need.bytes for need in needs), sum(need.inodes for need in needs)
    for room in spaces:
        if room.bytes is not None and size > room.bytes:
            raise _no_room(needs, f"{_show(size)} needed, {_show(room.bytes)} {room.of}")
        if room.inodes is not None and inodes > room.inodes:
            raise _no_room(needs, f"{inodes} files needed, {room.inodes} {room.of}")


def _no_room(needs: Sequence[Need], numbers: str) -> NoSpaceError:
    parts = ", ".join(f"{need.what} {_show(need.bytes)}" for need in needs)
    settings = "; or ".join(dict.fromkeys(need.setting for need in needs))
    return NoSpaceError(
        f"{needs[0].directory}: no space: {numbers} ({parts})", f"Free some space there, or {settings}."
    )


def _existing(directory: Path) -> Path:
    """Return the directory, or its nearest existing parent."""
    path = directory.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _free(directory: Path) -> SpaceLeft:
    status = os.statvfs(directory)
    # f_files is 0 if the file system does not count files (btrfs, some network file systems)
    return SpaceLeft(status.f_bavail * status.f_frsize, status.f_favail if status.f_files else None, "free")


def _show(size: int) -> str:
    """Format a number of bytes exactly, and also in GB if large."""
    return f"{size} bytes" + (f" ({size / 1e9:.1f} GB)" if size >= 10**8 else "")


def read_quotas(directory: Path) -> Iterator[SpaceLeft]:
    """Yield what the quotas of this user and group leave on the file system of a directory, if it is Lustre.

    Project quotas of Lustre and XFS are included in the free space of the file system.
    """
    if find_file_system(directory) != "lustre":
        return
    for name, number in (("user", os.getuid()), ("group", directory.stat().st_gid)):
        try:
            done = run(["lfs", "quota", "-q", f"-{name[0]}", str(number), str(directory)], timeout=_TIMEOUT)
        except LackingError:
            return
        left = parse_lfs(done.stdout) if done.status == 0 else (None, None)
        yield SpaceLeft(*left, f"left of the {name} quota")


def parse_lfs(text: str) -> tuple[int | None, int | None]:
    """Return the bytes and files left by a line of `lfs quota -q`: path, KiB used, quota, limit, grace, files, ..."""
    match = _LUSTRE.search(f"{text} ")
    if match is None:
        return None, None
    used, soft, hard, files, files_soft, files_hard = (int(number) for number in match.groups())
    return _left(used * _BLOCK, soft * _BLOCK, hard * _BLOCK), _left(files, files_soft, files_hard)


def _left(used: int, soft: int, hard: int) -> int | None:
    """Return what a limit leaves; 0 means none."""
    limit = hard or soft
    return max(0, limit - used) if limit else None
