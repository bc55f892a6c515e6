"""Exceptions with a message and a cure, and the exit codes: the only list of them.

====  =====================================================
code  meaning
====  =====================================================
0     ok
1     a check failed
2     usage, or bad input
3     not found
4     verification failed: the data does not match its checksum, length or digest
5     no space, or over quota
6     busy: another process holds the lock
7     the environment is missing something
8     a remote server failed
9     not trusted: no digest, checksum, signature or attestation where the site's policy requires one
10    not trusted: not signed by any of the keys and signers that the site's policy names
130   interrupted by Ctrl-C
====  =====================================================
"""

from __future__ import annotations

import errno

INTERRUPTED = 130
"""Exit code after Ctrl-C: that of shells, 128 and the number of SIGINT."""


class HpcmodError(Exception):
    """An error with its cure; only the command line and the easyblock's error handler turn it into output.

    `message`: What went wrong and where, and what was found and expected.
    `cure`: The command or edit that helps, as a complete sentence; empty if none is known.
    """

    exit_code = 2

    def __init__(self, message: str, cure: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure

    def __str__(self) -> str:
        return f"{self.message}\n{self.cure}" if self.cure else self.message


class CheckFailedError(HpcmodError):
    """A check of something installed failed."""

    exit_code = 1


class BadInputError(HpcmodError):
    """Input from the user or a file is not in the expected form."""

    exit_code = 2


class NotFoundError(HpcmodError):
    """Something named was not found in any of the places searched."""

    exit_code = 3


class VerificationError(HpcmodError):
    """Data does not match its checksum, length or digest."""

    exit_code = 4


class NoSpaceError(HpcmodError):
    """The file system is full, or a quota would be exceeded."""

    exit_code = 5


class BusyError(HpcmodError):
    """Another process holds the lock."""

    exit_code = 6


class LackingError(HpcmodError):
    """The machine is missing something that is needed, or cannot run what was requested."""

    exit_code = 7


class RemoteError(HpcmodError):
    """A server did not return what was requested."""

    exit_code = 8


class UntrustedError(HpcmodError):
    """The site's policy requires a digest, checksum, signature or attestation, and it is missing."""

    exit_code = 9


class UnknownKeyError(HpcmodError):
    """An image is signed, but not by any of the keys and signers that the site's policy names."""

    exit_code = 10


FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors for a full disk or an exhausted quota."""

ELSEWHERE = "hpcmod install --prefix DIRECTORY (with eb: --prefix=DIRECTORY)"
"""The option that installs below another directory."""

SETS_ELSEWHERE = "hpcmod add --prefix DIRECTORY with the first package, else HPCMOD_PACKAGES_DIR=DIRECTORY for new ones"
"""The same for a user's packages."""


def explain_os_error(err: OSError, elsewhere: str = "") -> HpcmodError:
    """Return an error with a cure for an operating system error: a full disk, a quota, or missing permissions.

    `elsewhere`: The option that chooses another directory, if the command has one; see `ELSEWHERE`.
    """
    how = f": {elsewhere}" if elsewhere else "."
    where = f"{err.filename}: " if err.filename else ""
    what = f"{where}{err.strerror or err}"
    if err.errno in FULL:
        return NoSpaceError(what, f"Free some space there, or choose another directory{how}")
    if err.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return LackingError(what, f"Choose a directory that you may read and write{how}")
    return HpcmodError(what)
