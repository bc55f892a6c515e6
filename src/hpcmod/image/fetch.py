"""Fetch a file over https: resumed where it broke off, and never taken for whole when it is not."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import requests

from hpcmod.errors import BusyError, HpcmodError, LackingError, RemoteError, VerificationError
from hpcmod.image.copy import FULL, no_space
from hpcmod.image.integrity import BLOCK, Progress, Ticker, check_sha256, hash_range, parse_sha256
from hpcmod.image.preflight import Need, check_room
from hpcmod.image.web.client import Answer, Client, Retry, insist
from hpcmod.model.reference import check_address, redact

_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)  # a Lustre mounted without flock, say

HEAD = 4096
"""Bytes at the beginning of a file that are looked at before the rest comes."""
LARGEST_OF_UNKNOWN_LENGTH = 64 << 30
"""Bytes of a file whose length the server does not say."""


@dataclass(frozen=True)
class FetchResult:
    """What a fetch did."""

    sha256: str
    size: int
    """Bytes of the file."""
    resumed_from: int
    """Bytes that an earlier, broken fetch had left, and that were used."""


def fetch_file(
    url: str,
    partial: Path | str,
    *,
    checksum: str | None = None,
    session_factory: Callable[[], requests.Session] = requests.Session,
    progress: Progress | None = None,
    resume: bool = True,
    keep_note: bool = False,
    allow_http: bool = False,
    check_head: Callable[[bytes], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
    tell: Callable[[str], None] = lambda _: None,
) -> FetchResult:
    """Fetch a file to a temporary name, and verify its length and sha256 as it streams.

    Parameters
    ----------
    url
        https; http only to this machine itself, or where `allow_http` says so. A user and password in it go to that
        server only, and into no message.
    partial
        Temporary name, the same each time. An interrupted fetch leaves it, with a note beside it, and the next one of
        that address goes on from there. It goes when what was fetched proves wrong, or when the disk is full.
    checksum
        The sha256 that the file must have.
    session_factory
        Makes the session that all requests go through.
    progress
        Called with bytes done and bytes in all (0 if the server does not say), at most ten times a second.
    resume
        Whether to go on from what an earlier fetch left.
    keep_note
        Leave the note (`note_of`) beside the whole file too, so that as long as both are there, the next fetch only
        asks the server whether it is still the same.
    check_head
        Called with the first bytes of the file, up to 4 KiB, before more are asked for; raises what is wrong with them.
    sleep
        Waits so many seconds before the next attempt.
    tell
        Called with a line for the user where the server is waited for.

    Raises
    ------
    BadInputError
        If the address is not one that is fetched, or the checksum is none.
    BusyError
        If another process is fetching to the same temporary name.
    NotFoundError
        If the server has no such file.
    RemoteError
        If the server refuses, or did not send the whole file in several attempts.
    HpcmodError
        If the sha256 is another one, the file does not fit, or a name cannot be written.
    """
    check_address(url, allow_http=allow_http)
    expected = parse_sha256(checksum) if checksum is not None else None
    with closing(session_factory()) as session:
        client = Client(session, allow_http=allow_http)
        fetch = _Fetch(url, Path(partial), keep_note=keep_note, expected=expected, client=client, progress=progress)
        fetch.check_head = check_head
        with _disk_faults(fetch), _alone(fetch):
            if not resume:
                fetch.forget()
            return insist(fetch.attempt, url, done=lambda: fetch.done, sleep=sleep, tell=tell)


def note_of(partial: Path) -> Path:
    """Name the note that tells what an interrupted fetch was fetching."""
    return partial.with_name(partial.name + ".resume")


class _Fetch:
    """One file on its way: what is at the temporary name, and the hash of it."""

    def __init__(
        self,
        url: str,
        partial: Path,
        *,
        keep_note: bool,
        expected: str | None,
        client: Client,
        progress: Progress | None,
    ) -> None:
        self.partial = partial
        self.done = 0
        """Bytes at the temporary name that are hashed."""
        self.total = 0
        """Bytes of the whole file; 0 where that is not known."""
        self.check_head: Callable[[bytes], None] = lambda _: None
        """Called with the first bytes of the file."""
        self._url = url
        self._keep_note = keep_note
        self._expected = expected
        self._client = client
        self._progress = progress
        self._sha256 = hashlib.sha256()
        self._resumed_from = 0
        self.note = note_of(partial)

    def attempt(self) -> FetchResult:
        """Ask for what is missing, and take it in.

        Raises
        ------
        Retry
            If it may go right the next time.
        """
        have, validator = self._left_over()
        headers = {"Range": f"bytes={have}-", **({"If-Range": validator} if validator else {})} if have else {}
        with self._client.get(self._url, headers) as answer:
            whole = self._begin(answer, have, validator)
            if not whole:
                self._receive(answer)
        return self._finish()

    def forget(self) -> None:
        """Remove what is at the temporary name, and empty the note beside it."""
        self.note.write_text("")
        self.partial.unlink(missing_ok=True)
        self.done = self._resumed_from = 0
        self._sha256 = hashlib.sha256()

    def _left_over(self) -> tuple[int, str]:
        """Return how many bytes are there to go on from, and what the server called that version of the file."""
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
        """Get ready for an answer's bytes; True if the file is whole already."""
        if answer.status == 416 and have and answer.total == have:
            self._go_on_from(have, have)
            return True
        if answer.status == 200 and have and answer.total == have and answer.validator == validator != "":
            self._go_on_from(have, have)  # by a server that sends no parts
            return True
        if answer.status == 200:
            self._start_over(answer)
            return False
        fits = answer.status == 206 and have and answer.start == have
        if not fits or answer.validator != validator:
            self.forget()
            raise Retry(f"it answered {answer.status} with another part of the file than asked for")
        self._go_on_from(have, answer.total)
        return False

    def _start_over(self, answer: Answer) -> None:
        self.forget()
        self.total = answer.total
        if not (answer.bounded or self._expected):
            raise RemoteError(
                f"{redact(self._url)}: the server does not say how long the file is, so it may end too early unnoticed",
                "Give its sha256 in `checksums`.",
            )
        self._check_space()
        self.partial.touch()
        self.note.write_text(json.dumps({"address": self._address(), "validator": answer.validator}))

    def _go_on_from(self, have: int, total: int) -> None:
        self.total = total
        self._check_space(have)
        if self.done == have:
            return
        self._sha256 = hashlib.sha256()
        with self.partial.open("rb") as file:
            hash_range(self._sha256, file.fileno(), 0, have, bytearray(BLOCK))
        self.done = self._resumed_from = have

    def _check_space(self, have: int = 0) -> None:
        need = max(0, self.total - have)
        check_room([Need(self.partial.parent, need, 1, "the file", "name another place for it")])

    def _receive(self, answer: Answer) -> None:
        try:
            with self.partial.open("r+b", buffering=0) as file:
                file.truncate(self.done)
                file.seek(self.done)
                self._take_in(answer, file)
                os.fsync(file.fileno())
        except OSError as err:
            if err.errno in FULL:  # whoever has no space left is not helped by half a file
                self.forget()
            raise

    def _take_in(self, answer: Answer, file: FileIO) -> None:
        ticker = Ticker(self._progress, self.total)
        for chunk in answer.chunks:
            if self.done < HEAD:
                self._look_at_head(file, chunk)
            if not answer.total and self.done + len(chunk) > LARGEST_OF_UNKNOWN_LENGTH:
                self.forget()
                raise RemoteError(
                    f"{redact(self._url)}: the server sent more than {LARGEST_OF_UNKNOWN_LENGTH >> 30} GiB and did not "
                    "say how long the file is",
                    "Ask for the file on a server that does.",
                )
            _write_all(file, chunk)
            self._sha256.update(chunk)
            self.done += len(chunk)
            ticker.tick(self.done)

    def _look_at_head(self, file: FileIO, chunk: bytes) -> None:
        """Check the first bytes as soon as they are here; of a file that ends before, its reader says what is wrong."""
        if self.done + len(chunk) < HEAD:
            return
        try:
            self.check_head((os.pread(file.fileno(), self.done, 0) + chunk)[:HEAD])
        except HpcmodError:
            self.forget()
            raise

    def _finish(self) -> FetchResult:
        if self.total and self.done != self.total:
            raise Retry(f"it sent {self.done} of {self.total} bytes")
        found = self._sha256.hexdigest()
        try:
            check_sha256(redact(self._url), expected=self._expected, found=found)
        except VerificationError as err:
            resumed = self._resumed_from
            self.forget()
            if resumed:  # what an earlier fetch left may be to blame
                raise Retry("what was resumed has the wrong sha256") from err
            raise
        if not self._keep_note:
            self.note.write_text("")
        return FetchResult(found, self.done, self._resumed_from)


def _write_all(file: FileIO, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[file.write(view) :]


@contextmanager
def _alone(fetch: _Fetch) -> Iterator[None]:
    """Lock the note, for two processes that write one file would leave holes in it; an empty note goes at the end."""
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
        if os.fstat(note.fileno()).st_nlink == 0:  # who held it has finished and removed it meanwhile
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
            f"See whether you may write to {fetch.partial.parent}.",
        ) from err
