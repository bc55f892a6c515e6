"""Test doubles in front of a real registry: a proxy that injects faults, and a token server."""

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
    """How to answer the next `times` requests whose path matches; later ones get the registry's answer."""

    match: str = "/blobs/"
    times: int = 1
    status: int = 0
    """Answer with this status instead of asking the registry."""
    headers: dict[str, str] = field(default_factory=dict)
    """Headers to add or replace."""
    cut_at: int | None = None
    """Close the connection after this many bytes of the body."""
    stall_at: int | None = None
    """Stop sending after this many bytes, and keep the connection open."""
    flip: int | None = None
    """Corrupt the byte of the body at this offset."""
    ignore_range: bool = False
    body: bytes = b""
    """The body to send with `status`."""
    also: Callable[[], None] = lambda: None
    """Called when this fault is used."""


@dataclass(frozen=True)
class Asked:
    """A request that was received."""

    path: str
    headers: dict[str, str]

    @property
    def start(self) -> int:
        """Offset of the first requested byte."""
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("range", ""))
        return int(match.group(1)) if match else 0


@dataclass
class Proxy:
    """A running proxy: its faults and settings, and the requests it received."""

    upstream: str
    host: str = ""
    faults: list[Fault] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    sent: list[tuple[str, int, int]] = field(default_factory=list)
    """Path, start and end offset of each piece of a body that was sent."""
    rate: float = 0
    """Bytes per second and connection; 0 for unlimited."""
    tokens: TokenServer | None = None
    """Require a token from this server."""
    released: threading.Event = field(default_factory=threading.Event)
    """When set, ends all stalls."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def blobs(self) -> list[Asked]:
        """Return the requests for blobs so far."""
        return [asked for asked in self.asked if "/blobs/" in asked.path]

    def sent_twice(self) -> int:
        """Count the bytes of blobs that were sent more than once."""
        twice, seen = 0, dict[str, list[tuple[int, int]]]()
        for path, start, end in self.sent:
            pieces = seen.setdefault(path, [])
            twice += sum(max(0, min(end, b) - max(start, a)) for a, b in pieces)
            pieces.append((start, end))
        return twice

    def take(self, path: str) -> Fault:
        """Return the next fault for a path, or one that does nothing."""
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
        """Print nothing to stderr."""


@dataclass
class TokenServer:
    """A token server: issues a new token for each correct login, or to anyone if it requires no login."""

    url: str = ""
    login: bool = False
    """Whether to issue tokens only to USER with PASSWORD."""
    uses: int = 0
    """Number of requests after which a token expires; 0 for never."""
    given: list[str] = field(default_factory=list)
    used: dict[str, int] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def knows(self, header: str) -> bool:
        """Return whether an Authorization header has the latest token, and that token has not expired."""
        token = header.removeprefix("Bearer ")
        self.used[token] = self.used.get(token, 0) + 1
        return bool(self.given) and token == self.given[-1] and not 0 < self.uses < self.used[token]

    def expire(self) -> None:
        """Invalidate all tokens."""
        self.given.append("expired")

    def give(self, asked: Asked, form: str = "") -> str:
        """Return a token, or an empty string if the login is wrong."""
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
        """Print nothing to stderr."""


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
    """Run a proxy in front of the registry at `upstream` until the end of the block."""
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
