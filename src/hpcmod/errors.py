"""What can go wrong, as one exception type with a message and a cure, and the exit codes: the only list of them.

====  =====================================================
code  meaning
====  =====================================================
0     ok
1     a check failed
2     usage, or bad input
3     not found
4     verification failed: the bytes are not the ones promised
5     no space, or over quota
6     busy: another process holds the lock
7     the environment lacks something
8     a remote server failed
9     not trusted: no digest, checksum or signature where the site's policy wants one
10    not trusted: signed by none of the keys that the site's policy names
====  =====================================================
"""

from __future__ import annotations

import errno


class HpcmodError(Exception):
    """A fault with its cure; only the command line and the easyblock's one boundary turn it into output.

    Parameters
    ----------
    message
        What went wrong and where, and what was found against what was expected.
    cure
        The command or the edit that helps, as a full sentence; empty if none is known.
    """

    exit_code = 2

    def __init__(self, message: str, cure: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure

    def __str__(self) -> str:
        return f"{self.message}\n{self.cure}" if self.cure else self.message


class CheckFailedError(HpcmodError):
    """A check of something installed did not pass."""

    exit_code = 1


class BadInputError(HpcmodError):
    """What the user or a file gave is not of the form it must have."""

    exit_code = 2


class NotFoundError(HpcmodError):
    """Something named does not exist in any place looked at."""

    exit_code = 3


class VerificationError(HpcmodError):
    """Bytes differ from what a checksum, a length or a digest promises."""

    exit_code = 4


class NoSpaceError(HpcmodError):
    """The file system is full, or a quota would be passed."""

    exit_code = 5


class BusyError(HpcmodError):
    """Another process holds the lock."""

    exit_code = 6


class LackingError(HpcmodError):
    """The machine lacks something that is needed, or cannot run what is asked."""

    exit_code = 7


class RemoteError(HpcmodError):
    """A server did not give what was asked of it."""

    exit_code = 8


class UntrustedError(HpcmodError):
    """The site's policy wants a digest, a checksum or a signature, and there is none."""

    exit_code = 9


class UnknownKeyError(HpcmodError):
    """An image is signed, but by no key that the site's policy names."""

    exit_code = 10


ELSEWHERE = "hpcmod install --prefix DIRECTORY (of eb: --prefix=DIRECTORY)"
"""The option that installs below another directory."""


def explain_os_error(err: OSError) -> HpcmodError:
    """Make an error with a cure from one of the operating system's: a full disk, a quota, or a place not ours."""
    where = f"{err.filename}: " if err.filename else ""
    what = f"{where}{err.strerror or err}"
    if err.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpaceError(what, f"Free some space there, or choose another place: {ELSEWHERE}")
    if err.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return LackingError(what, f"Choose a place you may read and write: {ELSEWHERE}")
    return HpcmodError(what)
