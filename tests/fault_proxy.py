"""Test doubles that stand before a real registry: a proxy that misbehaves as told, and a token server."""

from __future__ import annotations

import base64
import http.client
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.registry import PASSWORD, USER

_CHUNK = 64 << 10


@dataclass
class Fault:
    """How to answer requests whose path matches, so many times; then as the registry does."""

    match: str = "/blobs/"
    times: int = 1
    status: int = 0
    """Answer with this status instead of asking the registry."""
    headers: dict[str, str] = field(default_factory=dict)
    """More headers, or other values."""
    cut_at: int | None = None
    """Close the connection after so many bytes of the body."""
    stall_at: int | None = None
    """Send nothing more after so many bytes, and keep the connection open."""
    flip: int | None = None
    """Change the body's byte at this place."""
    ignore_range: bool = False
    body: bytes = b""
    """The body that goes with `status`."""
    also: Callable[[], None] = lambda: None
    """Called when this fault's turn has come."""


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    path: str
    headers: dict[str, str]

    @property
    def start(self) -> int:
        """First byte that was asked for."""
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("range", ""))
        return int(match.group(1)) if match else 0


@dataclass
class Proxy:
    """A running proxy: what it is to do, and what it has seen."""

    upstream: str
    host: str = ""
    faults: list[Fault] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    sent: list[tuple[str, int, int]] = field(default_factory=list)
    """Path, first byte and end of each piece of a body that went out."""
    rate: float = 0
    """Bytes a second of one connection; 0 for all that goes."""
    tokens: TokenServer | None = None
    """Ask for a token of this server."""
    released: threading.Event = field(default_factory=threading.Event)
    """Ends all stalls."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def blobs(self) -> list[Asked]:
        """The requests for blobs so far."""
        return [asked for asked in self.asked if "/blobs/" in asked.path]

    def sent_twice(self) -> int:
        """Count the bytes of bodies of blobs that went out more than once."""
        twice, seen = 0, dict[str, list[tuple[int, int]]]()
        for path, start, end in self.sent:
            pieces = seen.setdefault(path, [])
            twice += sum(max(0, min(end, b) - max(start, a)) for a, b in pieces)
            pieces.append((start, end))
        return twice

    def take(self, path: str) -> Fault:
        """Take the next fault for a path; one that does nothing if there is none."""
        with self.lock:
            for fault in self.faults:
                if re.search(fault.match, path):
                    fault.times -= 1
                    if not fault.times:
                        self.faults.remove(fault)
                    fault.also()
                    return fault
        return Fault()


class _ProxyHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: Proxy

    def do_GET(self) -> None:
        asked = Asked(self.path, {name.lower(): value for name, value in self.headers.items()})
        self.proxy.asked.append(asked)
        fault = self.proxy.take(self.path)
        tokens = self.proxy.tokens
        self.close_connection = True
        with suppress(ConnectionError):
            if tokens is not None and not fault.status and not tokens.knows(asked.headers.get("authorization", "")):
                challenge = f'Bearer realm="{tokens.url}",service="tests",scope="repository:x:pull"'
                self._head(401, {"WWW-Authenticate": challenge, "Content-Length": "0"})
            elif fault.status:
                self._head(fault.status, {"Content-Length": str(len(fault.body)), **fault.headers})
                self.wfile.write(fault.body)
            else:
                self._forward(asked, fault)

    def _forward(self, asked: Asked, fault: Fault) -> None:
        with closing(http.client.HTTPConnection(self.proxy.upstream, timeout=60)) as upstream:
            self._pass_on(upstream, asked, fault)

    def _pass_on(self, upstream: http.client.HTTPConnection, asked: Asked, fault: Fault) -> None:
        skipped = {"host", "connection"} | ({"range"} if fault.ignore_range else set())
        if self.proxy.tokens is not None:
            skipped.add("authorization")
        headers = {name: value for name, value in asked.headers.items() if name not in skipped}
        upstream.request("GET", self.path, headers=headers)
        answer = upstream.getresponse()
        kept = {name: value for name, value in answer.getheaders() if name.lower() not in ("connection", "date")}
        self._head(answer.status, {**kept, **fault.headers})
        if answer.status < 300:
            self._send(answer, 0 if fault.ignore_range else asked.start, fault)

    def _send(self, answer: http.client.HTTPResponse, start: int, fault: Fault) -> None:
        place = 0
        while data := bytearray(answer.read(_CHUNK)):
            if fault.flip is not None and place <= fault.flip < place + len(data):
                data[fault.flip - place] ^= 1
            ends = [end - place for end in (fault.cut_at, fault.stall_at) if end is not None]
            piece = data[: max(0, min(ends))] if ends else data
            self.wfile.write(piece)
            if "/blobs/" in self.path:
                self.proxy.sent.append((self.path, start + place, start + place + len(piece)))
            place += len(piece)
            if len(piece) < len(data) or (ends and min(ends) == len(piece)):
                if fault.stall_at is not None:
                    self.proxy.released.wait(120)
                return
            if self.proxy.rate:
                time.sleep(len(piece) / self.proxy.rate)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing on stderr."""


@dataclass
class TokenServer:
    """A token server: gives a new token for each right login, or for none if it asks for none."""

    url: str = ""
    login: bool = False
    """Whether only USER with PASSWORD gets a token."""
    uses: int = 0
    """Requests after which a token has expired; 0 for never."""
    given: list[str] = field(default_factory=list)
    used: dict[str, int] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def knows(self, header: str) -> bool:
        """Return whether an Authorization header holds the last token, and that has not expired."""
        token = header.removeprefix("Bearer ")
        self.used[token] = self.used.get(token, 0) + 1
        return bool(self.given) and token == self.given[-1] and not 0 < self.uses < self.used[token]

    def expire(self) -> None:
        """Let all tokens be known no more."""
        self.given.append("expired")

    def give(self, asked: Asked, form: str = "") -> str:
        """Return a token, or an empty text to a wrong login."""
        self.asked.append(asked)
        basic = f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"
        refreshed = parse_qs(form).get("refresh_token") == [PASSWORD]
        if self.login and asked.headers.get("authorization") != basic and not refreshed:
            return ""
        self.given.append(f"secret-token-{len(self.given)}")
        return self.given[-1]


class _TokenHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of_tokens: TokenServer

    def do_GET(self, form: str = "") -> None:
        self.close_connection = True
        headers = {name.lower(): value for name, value in self.headers.items()}
        token = self.server_of_tokens.give(Asked(self.path, headers), form)
        text = json.dumps({"token": token, "expires_in": 60}).encode()
        self.send_response(200 if token else 401)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self) -> None:
        self.do_GET(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def log_message(self, *_: object) -> None:
        """Say nothing on stderr."""


@contextmanager
def _running(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def run_proxy(upstream: str) -> Iterator[Proxy]:
    """Run a proxy before the registry at `upstream` until the end of the block."""
    proxy = Proxy(urlsplit(f"//{upstream}").netloc)
    with _running(type("Handler", (_ProxyHandler,), {"proxy": proxy})) as proxy.host:
        try:
            yield proxy
        finally:
            proxy.released.set()


@contextmanager
def run_token_server() -> Iterator[TokenServer]:
    """Run a token server until the end of the block."""
    tokens = TokenServer()
    with _running(type("Handler", (_TokenHandler,), {"server_of_tokens": tokens})) as host:
        tokens.url = f"http://{host}/token"
        yield tokens
