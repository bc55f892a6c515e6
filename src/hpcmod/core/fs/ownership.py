"""Who else may change a file or a directory, and directories that are private to this user."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from hpcmod.core.errors import BadInputError
from hpcmod.core.fs.beneath import closing

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def others_may_change(status: os.stat_result) -> bool:
    """Return whether anyone but this user and root may change a file or directory with this status.

    Group permissions count regardless of the members, and so does an access control list: its mask shows as group bits.
    """
    return status.st_uid not in (os.geteuid(), 0) or bool(status.st_mode & _OTHERS_WRITE)


def find_closed_to_user(path: Path) -> Path | None:
    """Return the first directory on the way to a file that this user may not enter, or the file if unreadable."""
    steps = (*((parent, os.X_OK) for parent in reversed(path.parents)), (path, os.R_OK))
    return next((step for step, needed in steps if not os.access(step, needed) and os.path.lexists(step)), None)


def check_no_link_of_others(path: Path, option: str) -> None:
    """Check that no link on the way to a path was made by another user where others may write.

    Raises BadInputError if one was, which could lead to the user's private files; `option` is how the path was given.
    """
    for place in (path, *path.parents):
        if place.is_symlink() and place.parent.stat().st_mode & _OTHERS_WRITE:
            owner = place.lstat().st_uid
            if owner not in (os.geteuid(), 0):
                raise BadInputError(
                    f"{place} is a link of {user_name(owner)} to {place.readlink()}, expected a directory",
                    f"If you trust it, use the directory it points to: {option} DIRECTORY",
                )


def make_private_directory(path: Path | str) -> None:
    """Create a directory that only this user may enter, whatever the umask; restrict an existing one of this user.

    Missing parent directories are created the same way; existing ones are not changed.

    Raises OSError if it belongs to another user, or is not a directory.
    """
    path = Path(path)
    if not path.parent.is_dir():
        make_private_directory(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    with closing(os.open(path, os.O_RDONLY | os.O_DIRECTORY)) as descriptor:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            raise OSError(errno.EPERM, f"belongs to user {status.st_uid}, not to you", str(path))
        if stat.S_IMODE(status.st_mode) & 0o777 != 0o700:
            os.fchmod(descriptor, 0o700)


def explain_sticky(path: Path) -> str:
    """Return whom to ask about a file that this user may not remove from a directory with the sticky bit; else ""."""
    try:
        file, directory = path.lstat(), path.parent.stat()
    except OSError:
        return ""
    if os.geteuid() in (0, file.st_uid, directory.st_uid) or not directory.st_mode & stat.S_ISVTX:
        return ""
    owner = user_name(file.st_uid)
    return f"Only {owner} may remove it from {path.parent}: ask {owner}, or work in another directory."


def user_name(number: int) -> str:
    """Return the name of a user; without an entry in passwd, `user` and the number."""
    import pwd  # few commands name a user

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def group_name(number: int) -> str:
    """Return the name of a group; without an entry in group, `group` and the number."""
    import grp

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return f"group {number}"
