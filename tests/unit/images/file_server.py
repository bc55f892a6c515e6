"""A small real web server for one file that misbehaves on demand: one `Answer` per request, then normal ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Answer:
    """How to respond to a request."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut_at: int | None = None
    """Close the connection after this many bytes of the body."""
    length: int | None = None
    """Content-Length to claim; -1 for none."""
    chunked: bool = False
    ignore_range: bool = False
    shift: int = 0
    """Start this many bytes away from the requested range."""


@dataclass
class Server:
    """A running server: its file, its next answers, and the headers of the requests that it received."""

    body: bytes
    host: str = "127.0.0.1"
    port: int = 0
    etag: str = '"v1"'
    path: str = "/image.sif"
    answers: list[Answer] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}{self.path}"

    @property
    def ranges(self) -> list[str]:
        """The Range headers of the requests so far; empty if a request had none."""
        return [headers.get("range", "") for headers in self.asked]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    file: Server

    def do_GET(self) -> None:
        self.file.asked.append({name.lower(): value for name, value in self.headers.items()})
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = self.file.answers.pop(0) if self.file.answers else Answer()
        self.close_connection = True
        if self.path.partition("?")[0] != self.file.path:
            answer = Answer(404)
        if answer.status != 200:
            self._head(answer.status, {"Content-Length": "0", **answer.headers})
            return
        with suppress(ConnectionError):  # the client may close the connection early
            self._send_file(answer)

    def do_POST(self) -> None:
        self.do_GET()

    def _send_file(self, answer: Answer) -> None:
        start = 0 if answer.ignore_range else self._start()
        total = len(self.file.body)
        if start >= total > 0 and start:
            self._head(416, {"Content-Range": f"bytes */{total}", "Content-Length": "0"})
            return
        body = self.file.body[start + answer.shift :]
        headers = {"ETag": self.file.etag} if self.file.etag else {}
        if start:
            headers["Content-Range"] = f"bytes {start + answer.shift}-{total - 1}/{total}"
        if answer.chunked:
            headers["Transfer-Encoding"] = "chunked"
        elif answer.length != -1:
            headers["Content-Length"] = str(len(body) if answer.length is None else answer.length)
        self._head(206 if start else 200, {**headers, **answer.headers})
        self._send_body(body[: answer.cut_at], answer)

    def _send_body(self, body: bytes, answer: Answer) -> None:
        if not answer.chunked:
            self.wfile.write(body)
            return
        self.wfile.write(b"%x\r\n%s\r\n" % (len(body), body))
        if answer.cut_at is None:
            self.wfile.write(b"0\r\n\r\n")

    def _start(self) -> int:
        asked, condition = self.headers.get("Range", ""), self.headers.get("If-Range")
        if not asked or (condition is not None and condition != self.file.etag):
            return 0
        return int(asked[len("bytes=") :].partition("-")[0])

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Connection": "close", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing to stderr."""


@contextmanager
def serve(body: bytes, host: str = "127.0.0.1") -> Iterator[Server]:
    """Serve a file while the context is open."""
    file = Server(body, host)
    httpd = ThreadingHTTPServer((host, 0), type("Handler", (_Handler,), {"file": file}))
    file.port = httpd.server_address[1]
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield file
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()
