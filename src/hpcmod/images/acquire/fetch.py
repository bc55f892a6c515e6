"""Download a file over https: resume interrupted downloads, and never accept an incomplete file."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hpcmod.core.errors import FULL, BusyError, HpcmodError, LackingError, RemoteError, VerificationError
from hpcmod.core.fs.checksums import BLOCK, check_sha256, hash_range, parse_sha256
from hpcmod.core.fs.copying import no_space, write_all_at
from hpcmod.core.fs.space import Need, check_room
from hpcmod.core.progress import Progress, Ticker
from hpcmod.core.values.reference import check_address, redact
from hpcmod.images.web.client import Answer, Client, Retry, insist, open_session

if TYPE_CHECKING:
    import requests

_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)  # e.g. Lustre mounted without flock

HEAD = 4096
"""Bytes at the start of a file that are checked before the rest is downloaded."""
LARGEST_OF_UNKNOWN_LENGTH = 64 << 30
"""Largest file in bytes accepted from a server that does not send its length."""


class FileRequest(NamedTuple):
    """A file to download, and to which temporary path."""

    url: str
    """https; http only for this machine, or with `allow_http`. A user and password in it are sent to that server
    only, and never shown in messages."""
    partial: Path
    """Temporary path, the same each time. An interrupted download leaves it, with a note beside it, and the next
    download of that address resumes there. It is removed if the content is wrong or the disk is full."""
    checksum: str | None = None
    """Expected sha256 of the file."""
    keep_note: bool = False
    """Whether the note (`note_of`) is kept beside the complete file too, so that as long as both exist, the next
    download only asks the server whether the file has changed."""
    allow_http: bool = False
    check_head: Callable[[bytes], None] = lambda _: None
    """Called with the first HEAD bytes of the file before the rest is downloaded; raises an error if invalid."""


def fetch_file(
    request: FileRequest,
    *,
    session_factory: Callable[[], requests.Session] = open_session,
    progress: Progress | None = None,
    sleep: Callable[[float], None] = time.sleep,
    tell: Callable[[str], None] = lambda _: None,
) -> str:
    """Download a file to a temporary path, verify its length and sha256 as it streams, and return the sha256.

    `progress` is called with the bytes done and the total (0 if unknown), at most ten times a second; `tell` with a
    message for the user while waiting for the server.

    Raises BadInputError if the address or the checksum is invalid; BusyError if another process is downloading to the
    same temporary path; NotFoundError if the server has no such file; RemoteError if the server refuses, or did not
    send the complete file in several attempts; HpcmodError if the sha256 differs, the file does not fit, or cannot be
    written.
    """
    check_address(request.url, allow_http=request.allow_http)
    with closing(session_factory()) as session:
        fetch = _Fetch(request, Client(session, allow_http=request.allow_http), progress)
        with _disk_faults(fetch), _alone(fetch):
            return insist(fetch.attempt, request.url, done=lambda: fetch.done, sleep=sleep, tell=tell)


def note_of(partial: Path) -> Path:
    """Return the path of the note with the address and version of an interrupted download."""
    return partial.with_name(partial.name + ".resume")


class _Fetch:
    """The download of one file: the bytes at the temporary path, and their hash."""

    def __init__(self, request: FileRequest, client: Client, progress: Progress | None) -> None:
        self.partial = request.partial
        self.note = note_of(request.partial)
        self.done = 0
        """Bytes at the temporary path that have been hashed."""
        self.total = 0
        """Size of the complete file in bytes; 0 if unknown."""
        self._request, self._url = request, request.url
        self._expected = parse_sha256(request.checksum) if request.checksum is not None else None
        self._client = client
        self._progress = progress
        self._sha256 = hashlib.sha256()
        self._resumed = False
        """Whether bytes of an earlier, interrupted download are used."""

    def attempt(self) -> str:
        """Request and receive the missing bytes.

        Raises Retry if another attempt may succeed.
        """
        have, validator = self._left_over()
        headers = {"Range": f"bytes={have}-", **({"If-Range": validator} if validator else {})} if have else {}
        with self._client.get(self._url, headers) as answer:
            if not self._begin(answer, have, validator):
                self._receive(answer)
        return self._finish()

    def forget(self) -> None:
        """Remove the temporary file, and empty the note beside it."""
        self.note.write_text("")
        self.partial.unlink(missing_ok=True)
        self.done, self._resumed = 0, False
        self._sha256 = hashlib.sha256()

    def _left_over(self) -> tuple[int, str]:
        """Return the bytes to resume from, and the server's validator (ETag or date) of that version of the file."""
        try:
            note = json.loads(self.note.read_text())
            size = self.partial.stat().st_size
            same, validator = note["address"] == self._address(), str(note["validator"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return 0, ""
        if not same or not (validator or self._expected):  # with neither, two versions could be spliced unnoticed
            return 0, ""
        return size, validator

    def _address(self) -> str:
        return hashlib.sha256(self._url.encode()).hexdigest()  # the address itself may hold keys

    def _begin(self, answer: Answer, have: int, validator: str) -> bool:
        """Prepare for an answer's bytes; return True if the file is already complete."""
        if answer.status == 416 and have and answer.total == have:
            self._resume_from(have, have)
            return True
        if answer.status == 200 and have and answer.total == have and answer.validator == validator != "":
            self._resume_from(have, have)  # the server ignores ranges
            return True
        if answer.status == 200:
            self._start_over(answer)
            return False
        fits = answer.status == 206 and have and answer.start == have
        if not fits or answer.validator != validator:
            self.forget()
            raise Retry(f"it answered {answer.status} with another part of the file than asked for")
        self._resume_from(have, answer.total)
        return False

    def _start_over(self, answer: Answer) -> None:
        self.forget()
        self.total = answer.total
        if not (answer.bounded or self._expected):
            raise RemoteError(
                f"{redact(self._url)}: the server does not send the file's length, so truncation would go unnoticed",
                "Give its sha256 in `checksums`.",
            )
        self._check_space()
        self.partial.touch()
        self.note.write_text(json.dumps({"address": self._address(), "validator": answer.validator}))

    def _resume_from(self, have: int, total: int) -> None:
        self.total = total
        self._check_space(have)
        if self.done == have:
            return
        self._sha256 = hashlib.sha256()
        with self.partial.open("rb") as file:
            hash_range(self._sha256, file.fileno(), 0, have, bytearray(BLOCK))
        self.done, self._resumed = have, True

    def _check_space(self, have: int = 0) -> None:
        need = max(0, self.total - have)
        check_room([Need(self.partial.parent, need, 1, "the file", "name another place for it")])

    def _receive(self, answer: Answer) -> None:
        try:
            with self.partial.open("r+b", buffering=0) as file:
                file.truncate(self.done)
                self._take_in(answer, file)
                os.fsync(file.fileno())
        except OSError as err:
            if err.errno in FULL:  # free the space rather than keep half a file
                self.forget()
            raise

    def _take_in(self, answer: Answer, file: FileIO) -> None:
        ticker = Ticker(self._progress, self.total)
        for chunk in answer.chunks:
            if self.done < HEAD:
                self._check_head_of(file, chunk)
            if not answer.total and self.done + len(chunk) > LARGEST_OF_UNKNOWN_LENGTH:
                self.forget()
                raise RemoteError(
                    f"{redact(self._url)}: the server sent more than {LARGEST_OF_UNKNOWN_LENGTH >> 30} GiB without "
                    "sending the file's length",
                    "Use a server that sends the length.",
                )
            write_all_at(file.fileno(), memoryview(chunk), self.done)
            self._sha256.update(chunk)
            self.done += len(chunk)
            ticker.tick(self.done)

    def _check_head_of(self, file: FileIO, chunk: bytes) -> None:
        """Check the first bytes as soon as they arrive; shorter files are checked by their reader."""
        if self.done + len(chunk) < HEAD:
            return
        try:
            self._request.check_head((os.pread(file.fileno(), self.done, 0) + chunk)[:HEAD])
        except HpcmodError:
            self.forget()
            raise

    def _finish(self) -> str:
        if self.total and self.done != self.total:
            raise Retry(f"it sent {self.done} of {self.total} bytes")
        found = self._sha256.hexdigest()
        try:
            check_sha256(redact(self._url), expected=self._expected, found=found)
        except VerificationError as err:
            resumed = self._resumed
            self.forget()
            if resumed:  # the partial download may be the cause
                raise Retry("the resumed download has the wrong sha256") from err
            raise
        if not self._request.keep_note:
            self.note.write_text("")
        return found


@contextmanager
def _alone(fetch: _Fetch) -> Iterator[None]:
    """Lock the note so that only one process writes the file; remove an empty note at the end."""
    with fetch.note.open("a") as note:
        try:
            fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            raise BusyError(
                f"{fetch.partial}: another process is fetching this file", "Wait until it is done, then run this again."
            ) from err
        except OSError as err:
            if err.errno not in _NO_LOCKS:
                raise
        if os.fstat(note.fileno()).st_nlink == 0:  # the other process has finished and removed it
            raise BusyError(f"{fetch.partial}: another process has just fetched this file", "Run this again.")
        try:
            yield
        finally:
            if os.fstat(note.fileno()).st_size == 0:
                fetch.note.unlink(missing_ok=True)


@contextmanager
def _disk_faults(fetch: _Fetch) -> Iterator[None]:
    try:
        yield
    except OSError as err:
        if err.errno in FULL:
            raise no_space(fetch.partial.parent, needed=fetch.total) from err
        raise LackingError(
            f"{err.filename2 or fetch.partial}: cannot be written: {err.strerror}",
            f"Check that you can write to {fetch.partial.parent}.",
        ) from err
