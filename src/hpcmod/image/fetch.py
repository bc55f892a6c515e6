"""Fetch a file over https: resumed where it broke off, and never taken for whole when it is not."""

from __future__ import annotations

import email.utils
import errno
import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Union
from urllib.parse import urljoin

import requests

from hpcmod.errors import BadInputError, BusyError, LackingError, NotFoundError, RemoteError, VerificationError
from hpcmod.image.copy import FULL, free_bytes, no_space
from hpcmod.image.integrity import BLOCK, Progress, Ticker, check_sha256, hash_range, parse_sha256
from hpcmod.model.reference import check_address, origin, redact, split_credentials

_TIMEOUT = (15.0, 60.0)  # seconds to connect, and without a byte
_CHUNK = 128 << 10  # bytes; a connection that breaks loses at most one chunk
_ATTEMPTS = 5  # in a row that bring nothing new
_LONGEST_WAIT = 300.0
_MOST_REDIRECTS = 10
_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_GONE = (404, 410)
_REFUSED = (401, 403, 407)
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)  # a Lustre mounted without flock, say
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+)")
_HARMLESS = ("user-agent", "accept", "accept-encoding", "connection")

_Auth = Union[tuple[str, str], Callable[[requests.PreparedRequest], requests.PreparedRequest], None]


@dataclass(frozen=True)
class FetchResult:
    """What a fetch did."""

    sha256: str
    size: int
    """Bytes of the file."""
    resumed_from: int
    """Bytes that an earlier, broken fetch had left, and that were used."""


class _Retry(Exception):  # noqa: N818 - a signal inside this room, never seen outside
    """What went wrong may go right the next time, after `wait` seconds if the server said so."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


def fetch_file(
    url: str,
    partial: Path | str,
    *,
    checksum: str | None = None,
    session_factory: Callable[[], requests.Session] = requests.Session,
    progress: Progress | None = None,
    resume: bool = True,
    allow_http: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> FetchResult:
    """Fetch a file to a temporary name, and verify its length and sha256 as it streams.

    Parameters
    ----------
    url
        https; http only to this machine itself, or where `allow_http` says so. A user and password in it go to that
        server only, and into no message.
    partial
        Temporary name, the same each time. When the fetch is interrupted it stays, with a
        note beside it of what it is part of, and the next fetch of the same address goes on from there. It goes when
        what was fetched proves wrong, or when the disk is full.
    checksum
        The sha256 that the file must have.
    session_factory
        Makes the session that all requests go through.
    progress
        Called with bytes done and bytes in all (0 if the server does not say), at most ten times a second.
    resume
        Whether to go on from what an earlier fetch left.
    sleep
        Waits so many seconds before the next attempt.

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
    VerificationError
        If the sha256 is another one.
    NoSpaceError
        If the file does not fit.
    LackingError
        If the temporary name cannot be written.
    """
    check_address(url, allow_http=allow_http)
    expected = parse_sha256(checksum) if checksum is not None else None
    with closing(session_factory()) as session:
        fetch = _Fetch(url, Path(partial), expected, _Client(session, allow_http), progress)
        with _disk_faults(fetch), _alone(fetch):
            if not resume:
                fetch.forget()
            return _insist(fetch, sleep)


def _insist(fetch: _Fetch, sleep: Callable[[float], None]) -> FetchResult:
    """Try until the file is whole, or several attempts in a row brought nothing new."""
    failures = farthest = 0
    while True:
        try:
            return fetch.attempt()
        except _Retry as err:
            failures = 1 if fetch.done > farthest else failures + 1
            farthest = max(farthest, fetch.done)
            if failures >= _ATTEMPTS:
                raise RemoteError(
                    f"{redact(fetch.url)}: {err}, {failures} times in a row; {farthest} bytes are here",
                    "Run this again later: it goes on from there. See also whether this machine reaches the server.",
                ) from err
            sleep(min(_LONGEST_WAIT, 2.0 ** (failures - 1) if err.wait is None else err.wait))


class _Fetch:
    """One file on its way: what is at the temporary name, and the hash of it."""

    def __init__(
        self, url: str, partial: Path, expected: str | None, client: _Client, progress: Progress | None
    ) -> None:
        self.url = url
        self.partial = partial
        self.done = 0
        """Bytes at the temporary name that are hashed."""
        self.total = 0
        """Bytes of the whole file; 0 where that is not known."""
        self._expected = expected
        self._client = client
        self._progress = progress
        self._sha256 = hashlib.sha256()
        self._resumed_from = 0
        self.note = partial.with_name(partial.name + ".resume")

    def attempt(self) -> FetchResult:
        """Ask for what is missing, and take it in.

        Raises
        ------
        _Retry
            If it may go right the next time.
        """
        have, validator = self._left_over()
        headers = {"Range": f"bytes={have}-", **({"If-Range": validator} if validator else {})} if have else {}
        with closing(self._client.get(self.url, headers)) as response:
            whole = self._begin(response, have, validator)
            if not whole:
                self._receive(response)
        return self._finish()

    def forget(self) -> None:
        """Remove what is at the temporary name, and empty the note beside it."""
        self.note.write_text("")
        self.partial.unlink(missing_ok=True)
        self.done = self._resumed_from = 0
        self._sha256 = hashlib.sha256()

    def _left_over(self) -> tuple[int, str]:
        """Give how many bytes are there to go on from, and what the server called that version of the file."""
        try:
            note = json.loads(self.note.read_text())
            size = self.partial.stat().st_size
            same, validator = note["address"] == self._address(), str(note["validator"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0, ""
        if not same or not (validator or self._expected):  # with neither, two versions could be spliced unnoticed
            return 0, ""
        return size, validator

    def _address(self) -> str:
        return hashlib.sha256(self.url.encode()).hexdigest()  # the address itself may hold keys

    def _begin(self, response: requests.Response, have: int, validator: str) -> bool:
        """Get ready for an answer's bytes; True if the file is whole already."""
        _check_status(response, self.url)
        span = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if response.status_code == 416 and have and span and int(span.group(2)) == have:
            self._go_on_from(have, have)
            return True
        if response.status_code == 200:
            self._start_over(response)
            return False
        fits = span and span.group(1) and int(span.group(1)) == have and have
        if response.status_code != 206 or not span or not fits or _validator(response) != validator:
            self.forget()
            raise _Retry(f"it answered {response.status_code} with another part of the file than asked for")
        self._go_on_from(have, int(span.group(2)))
        return False

    def _start_over(self, response: requests.Response) -> None:
        self.forget()
        length = response.headers.get("Content-Length", "")
        chunked = response.headers.get("Transfer-Encoding", "").lower() == "chunked"
        self.total = int(length) if length.isdigit() else 0
        if not (length.isdigit() or chunked or self._expected):
            raise RemoteError(
                f"{redact(self.url)}: the server does not say how long the file is, so it may end too early unnoticed",
                "Give its sha256 in `checksums`.",
            )
        self._check_space()
        self.partial.touch()
        self.note.write_text(json.dumps({"address": self._address(), "validator": _validator(response)}))

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
        if self.total - have > free_bytes(self.partial.parent):
            raise no_space(self.partial.parent, needed=self.total - have)

    def _receive(self, response: requests.Response) -> None:
        try:
            with self.partial.open("r+b", buffering=0) as file:
                file.truncate(self.done)
                file.seek(self.done)
                self._take_in(response, file)
                os.fsync(file.fileno())
        except OSError as err:
            if err.errno in FULL:  # whoever has no space left is not helped by half a file
                self.forget()
            raise

    def _take_in(self, response: requests.Response, file: FileIO) -> None:
        ticker = Ticker(self._progress, self.total)
        for chunk in _chunks(response):
            _write_all(file, chunk)
            self._sha256.update(chunk)
            self.done += len(chunk)
            ticker.tick(self.done)

    def _finish(self) -> FetchResult:
        if self.total and self.done != self.total:
            raise _Retry(f"it sent {self.done} of {self.total} bytes")
        found = self._sha256.hexdigest()
        try:
            check_sha256(redact(self.url), expected=self._expected, found=found)
        except VerificationError as err:
            resumed = self._resumed_from
            self.forget()
            if resumed:  # what an earlier fetch left may be to blame
                raise _Retry("what was resumed has the wrong sha256") from err
            raise
        self.note.write_text("")
        return FetchResult(found, self.done, self._resumed_from)


class _Client:
    """Asks servers, follows their redirects, and shows credentials only to the server they were given for."""

    def __init__(self, session: requests.Session, allow_http: bool) -> None:
        self._session = session
        self._allow_http = allow_http

    def get(self, url: str, headers: dict[str, str]) -> requests.Response:
        """Ask for a file; the answer's body is not read yet.

        Raises
        ------
        _Retry
            If the server cannot be reached.
        RemoteError
            If it cannot be trusted, or redirects in circles.
        """
        asked: dict[str, str | None] = {"Accept-Encoding": "identity", **headers}
        here, given = split_credentials(url)
        auth: _Auth = given
        for _ in range(_MOST_REDIRECTS):
            response = self._ask(here, asked, auth)
            if not response.is_redirect:
                return response
            response.close()
            there = urljoin(here, response.headers["Location"])
            check_address(there, allow_http=self._allow_http)
            if origin(there) != origin(here):
                strangers = {name: None for name in self._session.headers if name.lower() not in _HARMLESS}
                asked, auth = {**strangers, "Authorization": None, **asked}, _anonymous
            here, _ = split_credentials(there)
        raise RemoteError(f"{redact(url)}: more than {_MOST_REDIRECTS} redirects", "Find the file's own address.")

    def _ask(self, url: str, headers: dict[str, str | None], auth: _Auth) -> requests.Response:
        try:
            return self._session.get(
                url, headers=headers, auth=auth, stream=True, allow_redirects=False, timeout=_TIMEOUT
            )
        except requests.exceptions.SSLError as err:
            raise RemoteError(
                f"{redact(url)}: the server's certificate cannot be verified",
                "Check the address; for a private authority, set REQUESTS_CA_BUNDLE to its certificate.",
            ) from err
        except (requests.ConnectionError, requests.Timeout) as err:
            raise _Retry(f"no connection ({type(err).__name__})") from err
        except requests.RequestException as err:
            raise BadInputError(f"{redact(url)}: cannot be fetched ({type(err).__name__})") from err


def _anonymous(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Stand in for credentials where there are to be none, not even those of ~/.netrc."""
    return request


def _check_status(response: requests.Response, url: str) -> None:
    """Refuse an answer that brings no part of the file."""
    status, said = response.status_code, f"{redact(url)}: the server answered {response.status_code} {response.reason}"
    if status in _AGAIN:
        raise _Retry(f"it answered {status} {response.reason}", _retry_after(response))
    if status in _GONE:
        raise NotFoundError(said, "Check the address, or look for a newer version of the file.")
    if status in _REFUSED:
        raise RemoteError(said, "The file needs a login: put the machine, login and password into ~/.netrc (mode 600).")
    if status not in (200, 206, 416):
        raise RemoteError(said, "Open the address in a browser to see what is there.")
    if response.headers.get("Content-Encoding", "identity").lower() not in ("", "identity"):
        raise RemoteError(f"{redact(url)}: the server sends the file packed", "Find the file's own address.")


def _retry_after(response: requests.Response) -> float | None:
    """Give the seconds that a server asks to wait, however it writes them."""
    text = response.headers.get("Retry-After", "")
    if text.isdigit():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def _validator(response: requests.Response) -> str:
    """Give what the server calls this version of the file; a weak ETag does not promise equal bytes."""
    etag = response.headers.get("ETag", "")
    return etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified", "")


def _chunks(response: requests.Response) -> Iterator[bytes]:
    try:
        yield from response.iter_content(_CHUNK)
    except requests.RequestException as err:
        raise _Retry(f"the connection broke ({type(err).__name__})") from err


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
            f"{fetch.partial}: cannot be written: {err.strerror}",
            f"See whether you may write to {fetch.partial.parent}.",
        ) from err
