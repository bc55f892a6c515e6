"""Refuse work that will not fit, before it begins: bytes and files needed, against free space and quotas."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcmod.errors import LackingError, NoSpaceError
from hpcmod.image.quota import Quota, read_quotas


@dataclass(frozen=True)
class Need:
    """What one step will write."""

    directory: Path
    """Where; it need not be there yet."""
    bytes: int
    inodes: int
    """Files and directories."""
    what: str
    """What it is, for the message: `the layers of docker://...`."""
    setting: str
    """What puts it elsewhere, as the end of a sentence: `choose another place for ...: NAME=DIRECTORY`."""


@dataclass(frozen=True)
class Room:
    """What may still be written to a file system; None where that is not limited, or not known."""

    bytes: int | None
    inodes: int | None
    of: str
    """Whose limit it is: `free`, or a quota's name."""


def check_room(needs: Sequence[Need], *, quotas: Callable[[Path], Iterable[Quota]] = read_quotas) -> None:
    """Check that all steps together fit; those that write to one file system are added up.

    Raises
    ------
    NoSpaceError
        With what is needed, what is there, and what helps.
    LackingError
        If a directory, or the one that it will be made in, cannot be reached.
    """
    together: dict[int, list[Need]] = {}
    places: dict[int, Path] = {}
    for need in needs:
        place = _existing(need.directory)
        try:
            device = place.stat().st_dev
        except OSError as err:
            raise LackingError(f"{place}: cannot be looked at: {err.strerror}", need.setting) from err
        together.setdefault(device, []).append(need)
        places.setdefault(device, place)
    for device, share in together.items():
        _check_share(share, [_free(places[device]), *(_room_of(quota) for quota in quotas(places[device]))])


def _check_share(needs: Sequence[Need], rooms: Iterable[Room]) -> None:
    size, inodes = sum(need.bytes for need in needs), sum(need.inodes for need in needs)
    for room in rooms:
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
    """Return the directory, or the nearest one above that is there."""
    place = directory.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    return place


def _free(place: Path) -> Room:
    found = os.statvfs(place)
    # f_files is 0 where files are not counted (btrfs, some network file systems)
    return Room(found.f_bavail * found.f_frsize, found.f_favail if found.f_files else None, "free")


def _room_of(quota: Quota) -> Room:
    return Room(quota.bytes_left, quota.inodes_left, f"left of the {quota.name} quota")


def _show(size: int) -> str:
    """Write a number of bytes so that it can be compared: exactly, and in GB where there are many."""
    return f"{size} bytes" + (f" ({size / 1e9:.1f} GB)" if size >= 10**8 else "")
