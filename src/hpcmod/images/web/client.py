"""Request a file or a part of it from a web server: status checks, redirects, credentials, and retries."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Union
from urllib.parse import unquote, urljoin, urlsplit

from hpcmod.core.errors import BadInputError, NotFoundError, RemoteError
from hpcmod.core.log import Logger
from hpcmod.core.values.reference import check_address, redact
from hpcmod.images.web.pace import Watchdog, call_within

if TYPE_CHECKING:  # loading it takes 0.07 s, which commands that stay on this machine save
    import requests

_LOG = Logger(__name__)

_TIMEOUT = (15.0, 60.0)  # seconds to connect, and between bytes
_HEADER_TIME = 120.0  # seconds until the header of an answer is complete
_SEND_TIMEOUT = (15.0, 600.0)  # a registry reads a blob again before it answers
_DONE = (200, 201, 202, 204)
_CHUNK = 128 << 10  # bytes; a connection that breaks loses at most one chunk
_CHUNK_TIME = 120.0  # seconds until a chunk is complete: about 1 kB/s
_ATTEMPTS = 5  # consecutive attempts without progress
_LONGEST_WAIT = 300.0
_NOTICED_WAIT = 2.0  # seconds; longer waits are reported
FIRST_WAIT = 1.0
"""Seconds before a retry if the server does not say; doubled after each failure."""
_MOST_REDIRECTS = 10
_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_GONE = (404, 410)
_REFUSED = (401, 403, 407)
_CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,18})-[0-9]{1,18}|\*)/([0-9]{1,18})")
_LENGTH = re.compile("[0-9]{1,18}")
_UNPRINTABLE = re.compile("[^ -~]")
_HARMLESS = ("user-agent", "accept", "accept-encoding", "connection")

_LOGIN = "The file needs a login: put the machine, login and password into ~/.netrc (mode 600)."

Auth = Callable[["requests.PreparedRequest"], "requests.PreparedRequest"]
"""Adds credentials to a request to the server they are for."""

_Auth = Union[tuple[str, str], Auth, None]
_Result = TypeVar("_Result")


class Retry(Exception):  # noqa: N818 - a signal to `insist`, not raised to callers
    """A failure that may be temporary; retry after `wait` seconds if the server said so."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class Unreachable(Retry):
    """The server cannot be reached or does not answer."""


class StatusError(RemoteError):
    """The server refused the request; `status` is the HTTP status."""

    def __init__(self, message: str, cure: str, status: int) -> None:
        super().__init__(message, cure)
        self.status = status


class LoginError(StatusError):
    """The server requires a login; `challenge` is its WWW-Authenticate header, empty if missing."""

    def __init__(self, message: str, cure: str, challenge: str = "") -> None:
        super().__init__(message, cure, 401)
        self.challenge = challenge


@dataclass(frozen=True)
class Answer:
    """A server's answer: which part of which version of the file."""

    status: int
    """200: the complete file; 206: a part of it; 416: nothing, because the file ends before the requested part."""
    start: int | None
    """Offset of the part in the file; None if it is not a part."""
    total: int
    """Size of the complete file in bytes; 0 if unknown."""
    bounded: bool
    """Whether the end of the answer can be distinguished from a broken connection."""
    validator: str
    """The server's validator of this version of the file (ETag or date); empty if missing."""
    chunks: Iterator[bytes] = field(repr=False)
    """The bytes as they arrive; raises `Retry` if the connection breaks."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """All headers; names are case-insensitive."""


class Client:
    """Sends requests, follows redirects, and sends credentials only to the server they are for."""

    def __init__(self, session: requests.Session, *, allow_http: bool = False, login: str = _LOGIN) -> None:
        self._session = session
        # the original reads the complete body of each redirect
        session.resolve_redirects = lambda *_, **__: iter(())  # type: ignore[method-assign]
        self._allow_http = allow_http
        self._login = login

    @contextmanager
    def get(
        self, url: str, headers: dict[str, str], *, auth: Auth | None = None, form: Mapping[str, str] | None = None
    ) -> Iterator[Answer]:
        """Request a file; the answer's bytes can be read until the end of the block.

        A user and password in the address are sent to that server only, and never shown. `auth` adds other credentials
        (default: those in the address or in ~/.netrc); a form is sent by POST, and not again after a redirect.

        Raises Retry if the server cannot be reached, or the failure may be temporary; NotFoundError if the server has
        no such file; LoginError if the server requires another login; StatusError if the server refuses for another
        reason; RemoteError if its certificate is not trusted, or it redirects in a loop; BadInputError if it redirects
        to an invalid address.
        """
        here, given = _split_credentials(url)
        asked = {"Accept-Encoding": "identity", **headers}
        with closing(self._follow(here, asked, auth or given, form)) as response:
            self._check_status(response, url)
            yield _parse(response)

    def send(
        self, method: str, url: str, headers: dict[str, str], *, auth: Auth, data: Any = None
    ) -> Mapping[str, str]:
        """Send a request with a body, without following redirects; return the answer's headers. Raises as `get`."""
        with _connecting(url):
            response = self._session.request(
                method, url, headers=headers, auth=auth, data=data, allow_redirects=False, timeout=_SEND_TIMEOUT
            )
        with closing(response):
            status = response.status_code
            _LOG.debug("%s %s: %d", method, redact(url), status)
            if status not in _DONE:
                self._check_status(response, url)
                raise StatusError(f"{redact(url)}: the server answered {status}", self._login, status)
            return response.headers

    def _follow(
        self, url: str, headers: dict[str, str], auth: _Auth, form: Mapping[str, str] | None
    ) -> requests.Response:
        """Send the request and follow redirects; the body of the last answer is not read yet."""
        asked: dict[str, str | None] = {**headers}
        here = url
        for _ in range(_MOST_REDIRECTS):
            response = self._ask(here, asked, auth, form)
            method = "GET" if form is None else "POST"
            length = response.headers.get("Content-Length", "unknown")
            _LOG.debug("%s %s: %d, length %s", method, redact(here), response.status_code, _printable(length))
            if not response.is_redirect or form is not None:
                return response
            response.close()
            there = _pointed_to(here, response.headers["Location"])
            check_address(there, allow_http=self._allow_http)
            if origin(there) != origin(here):
                strangers = {name: None for name in self._session.headers if name.lower() not in _HARMLESS}
                asked, auth = {**strangers, "Authorization": None, **asked}, anonymous
            here, _ = _split_credentials(there)
        raise RemoteError(f"{redact(url)}: more than {_MOST_REDIRECTS} redirects", "Find the file's own address.")

    def _ask(
        self, url: str, headers: dict[str, str | None], auth: _Auth, form: Mapping[str, str] | None
    ) -> requests.Response:
        ask = self._session.get if form is None else partial(self._session.post, data=form)
        try:
            with _connecting(url):
                return call_within(
                    _HEADER_TIME,
                    lambda: ask(url, headers=headers, auth=auth, stream=True, allow_redirects=False, timeout=_TIMEOUT),
                )
        except TimeoutError as err:
            raise RemoteError(
                f"{redact(url)}: the server sent no complete answer within {_HEADER_TIME:.0f} s",
                "Run this again later.",
            ) from err

    def _check_status(self, response: requests.Response, url: str) -> None:
        """Raise an error for an answer without a part of the file."""
        status, reason = response.status_code, _printable(response.reason or "")
        said = f"{redact(url)}: the server answered {status} {reason}"
        if status in _AGAIN:
            raise Retry(f"it answered {status} {reason}", _retry_after(response))
        if status in _GONE:
            raise NotFoundError(said, "Check the address, or look for a newer version of the file.")
        if origin(response.url) != origin(url) and status in _REFUSED:  # do not log in to the redirect's server
            raise RemoteError(f"{said} after a redirect to {redact(response.url)}", "Run this again later.")
        if status == 401:
            raise LoginError(said, self._login, response.headers.get("WWW-Authenticate", ""))
        if status in _REFUSED:
            raise StatusError(said, self._login, status)
        if status not in (200, 206, 416):
            raise StatusError(said, "Open the address in a browser to see what is there.", status)
        if response.headers.get("Content-Encoding", "identity").lower() not in ("", "identity"):
            raise RemoteError(f"{redact(url)}: the server sends the file compressed", "Find the file's own address.")


def insist(
    attempt: Callable[[], _Result],
    url: str,
    *,
    done: Callable[[], int],
    sleep: Callable[[float], None] = time.sleep,
    tell: Callable[[str], None],
) -> _Result:
    """Retry until an attempt succeeds, or several attempts in a row make no progress.

    `attempt` raises Retry if another attempt may succeed; `done` returns how many bytes have arrived. `tell` is called
    with a line about each wait that is long enough to be noticed.

    Raises RemoteError if all attempts failed.
    """
    failures = farthest = 0
    while True:
        try:
            return attempt()
        except Retry as err:
            failures = 1 if done() > farthest else failures + 1
            farthest = max(farthest, done())
            if failures >= _ATTEMPTS:
                raise RemoteError(
                    f"{redact(url)}: {err}; gave up after {failures} attempts, {_kept(farthest)}",
                    "Run this again later: it resumes where it stopped. Check that this machine reaches the server.",
                ) from err
            wait = min(_LONGEST_WAIT, FIRST_WAIT * 2 ** (failures - 1) if err.wait is None else err.wait)
            _LOG.info("%s: %s; trying again in %.0f s, %s", redact(url), err, wait, _kept(farthest))
            if wait > _NOTICED_WAIT:
                why = "" if err.wait is None else f", as the server asks to wait {err.wait:.0f} s"
                tell(f"{redact(url)}: {err}; attempt {failures + 1} of {_ATTEMPTS} in {wait:.0f} s{why}")
            sleep(wait)


@contextmanager
def _connecting(url: str) -> Iterator[None]:
    """Raise our own errors for those of a connection."""
    import requests

    try:
        yield
    except requests.exceptions.SSLError as err:
        raise RemoteError(
            f"{redact(url)}: the server's certificate cannot be verified",
            "Check the address; for a private authority, set REQUESTS_CA_BUNDLE to its certificate.",
        ) from err
    except (requests.ConnectionError, requests.Timeout) as err:
        raise Unreachable(_explain(err, url)) from err
    except (requests.RequestException, ValueError) as err:  # ValueError: an invalid host name
        raise BadInputError(f"{redact(url)}: cannot be fetched ({type(err).__name__})") from err


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub("?", text)


def open_session() -> requests.Session:
    """Return a session with the settings of this machine."""
    import requests

    return requests.Session()


def anonymous(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Send a request without credentials, not even those of ~/.netrc."""
    return request


def _pointed_to(here: str, location: str) -> str:
    try:
        return urljoin(here, location)
    except ValueError as err:
        raise RemoteError(
            f"{redact(here)}: redirects to an invalid address", "Find the file's own address, or run this again later."
        ) from err


def _retry_after(response: requests.Response) -> float | None:
    """Return the seconds of a Retry-After header, given as a number or a date."""
    text = response.headers.get("Retry-After", "")
    if _LENGTH.fullmatch(text):
        return float(text)
    from email import utils  # requests needs it too, but not every command needs requests

    try:
        return max(0.0, utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _parse(response: requests.Response) -> Answer:
    length = _LENGTH.fullmatch(response.headers.get("Content-Length", ""))
    chunked = response.headers.get("Transfer-Encoding", "").lower() == "chunked"
    span = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    start, total = None, 0
    if response.status_code == 200:
        total = int(length.group()) if length else 0
    elif span:
        start, total = int(span.group(1)) if span.group(1) else None, int(span.group(2))
    bounded = length is not None or chunked
    validator, chunks = _validator(response), _chunks(response)
    return Answer(response.status_code, start, total, bounded, validator, chunks, response.headers)


def _validator(response: requests.Response) -> str:
    """Return the ETag or date of this version of the file; weak ETags do not guarantee equal bytes."""
    etag = response.headers.get("ETag", "")
    return etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified", "")


def _explain(err: requests.RequestException, url: str) -> str:
    """Return why there is no connection; requests wraps the reason several times."""
    import requests

    host, said = urlsplit(url).hostname or url, str(err)
    if re.search(r"NameResolution|getaddrinfo|Name or service not known|Temporary failure in name", said):
        return f"unknown host {host}"
    if "refused" in said:
        return f"{host} refused the connection"
    if isinstance(err, requests.Timeout) or "timed out" in said:
        return f"{host} did not answer in time"
    return f"no connection ({type(err).__name__})"


def _kept(done: int) -> str:
    return f"{done} bytes are kept" if done else "nothing downloaded"


def _chunks(response: requests.Response) -> Iterator[bytes]:
    """Yield the body; raise an error if the server sends it too slowly."""
    import requests

    try:
        watchdog = Watchdog(response.raw.fileno(), _CHUNK_TIME)
    except (OSError, ValueError):  # the complete body is already here
        watchdog = None
    try:
        with watchdog or nullcontext():
            for chunk in response.iter_content(_CHUNK):
                if watchdog:
                    watchdog.rest()  # do not count the reader's time
                yield chunk
                if watchdog:
                    watchdog.feed()
    except requests.RequestException as err:
        if watchdog and watchdog.has_bitten:
            raise _too_slow(response.url) from err
        raise Retry(f"the connection broke ({type(err).__name__})") from err
    if watchdog and watchdog.has_bitten:
        raise _too_slow(response.url)


def _too_slow(url: str) -> RemoteError:
    return RemoteError(
        f"{redact(url)}: the server sent less than {_CHUNK >> 10} KiB within {_CHUNK_TIME:.0f} s",
        "Run this again later: it resumes where it stopped.",
    )


def _split_credentials(url: str) -> tuple[str, tuple[str, str] | None]:
    """Split an address into the address without credentials, and user and password."""
    parts = urlsplit(url)
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return bare, (unquote(parts.username), unquote(parts.password or "")) if parts.username else None


def origin(url: str) -> tuple[str, str | None, int]:
    """Return scheme, host and port: credentials are only sent to their own origin."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
