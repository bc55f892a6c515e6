"""Read the space left by quotas from the operating system or from Lustre's `lfs`, where available."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hpcmod.core.errors import LackingError
from hpcmod.core.fs.mounts import find_file_system
from hpcmod.core.process import run

_QUOTACTL_FD = 443  # system call of Linux 5.14 and later, the same number on all architectures
_GET = 0x800007  # Q_GETQUOTA, linux/quota.h
_KINDS = (("user", 0), ("group", 1))
_BLOCK = 1024  # bytes per quota block, linux/quota.h: QIF_DQBLKSIZE
_TIMEOUT = 5.0  # seconds; a slow server must not delay the work
_LUSTRE = re.compile(r"\s(\d+)\*?\s+(\d+)\s+(\d+)\s+\S+\s+(\d+)\*?\s+(\d+)\s+(\d+)\s")


@dataclass(frozen=True)
class Quota:
    """The space left by one quota; None for no limit."""

    name: str
    """Kind of quota: user or group."""
    bytes_left: int | None
    inodes_left: int | None


class _Block(ctypes.Structure):
    """The kernel's struct if_dqblk: limits in blocks of 1 KiB, use in bytes, and files."""

    _fields_ = [
        (name, ctypes.c_uint64) for name in ("hard", "soft", "used", "files_hard", "files_soft", "files", "t1", "t2")
    ] + [("valid", ctypes.c_uint32)]


def read_quotas(directory: Path) -> Iterator[Quota]:
    """Yield the quotas of this user and group for the file system of `directory`, if they can be read.

    Notes
    -----
    Project quotas of Lustre and XFS are included in the free space of the file system.
    """
    for name, kind in _KINDS:
        number = os.getuid() if name == "user" else directory.stat().st_gid
        found = _ask_kernel(directory, kind, number)
        if found is not None:
            yield make_quota(name, found)
        elif find_file_system(directory) == "lustre":
            yield from _ask_lustre(directory, name, number)


def make_quota(name: str, numbers: tuple[int, int, int, int, int, int]) -> Quota:
    """Make a Quota from bytes used, soft and hard limit, files used, soft and hard limit; a limit of 0 means none."""
    size, soft, hard, files, files_soft, files_hard = numbers
    return Quota(name, _left(size, soft, hard), _left(files, files_soft, files_hard))


def _left(used: int, soft: int, hard: int) -> int | None:
    limit = hard or soft
    return max(0, limit - used) if limit else None


def _ask_kernel(directory: Path, kind: int, number: int) -> tuple[int, int, int, int, int, int] | None:
    block = _Block()
    try:
        place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        library = ctypes.CDLL(None, use_errno=True)
        failed = library.syscall(_QUOTACTL_FD, place, (_GET << 8) | kind, number, ctypes.byref(block))
    except (OSError, AttributeError):
        return None
    finally:
        os.close(place)
    if failed:
        return None
    soft, hard = block.soft * _BLOCK, block.hard * _BLOCK
    return block.used, soft, hard, block.files, block.files_soft, block.files_hard


def _ask_lustre(directory: Path, name: str, number: int) -> Iterator[Quota]:
    try:
        done = run(["lfs", "quota", "-q", f"-{name[0]}", str(number), str(directory)], timeout=_TIMEOUT)
    except LackingError:
        return
    found = parse_lfs(done.stdout) if done.status == 0 else None
    if found is not None:
        yield make_quota(name, found)


def parse_lfs(text: str) -> tuple[int, int, int, int, int, int] | None:
    """Parse the line of `lfs quota -q`: path, KiB used, quota, limit, grace, files, quota, limit, grace."""
    match = _LUSTRE.search(f"{text} ")
    if match is None:
        return None
    used, soft, hard, files, files_soft, files_hard = (int(number) for number in match.groups())
    return used * _BLOCK, soft * _BLOCK, hard * _BLOCK, files, files_soft, files_hard
