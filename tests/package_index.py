"""A package index (PEP 503) of the wheels in a directory, over https on loopback, optionally with a login."""

from __future__ import annotations

import base64
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

from tests.registry import PASSWORD, USER, Certificate, make_certificate
from tests.wheels import sha256_of


@dataclass(frozen=True)
class Index:
    """A running index."""

    host: str
    """Host name and port."""
    ca: Path
    """Certificate of the authority that signed the server's."""
    asked: list[str] = field(default_factory=list)
    """Paths of all requests that were answered with a page or a file."""

    @property
    def url(self) -> str:
        return f"https://{self.host}/simple/"

    @property
    def files(self) -> str:
        """Return the common prefix of the URLs of all files."""
        return f"https://{self.host}/files/"

    @property
    def url_with_login(self) -> str:
        return f"https://{USER}:{quote(PASSWORD)}@{self.host}/simple/"


@contextmanager
def run_index(wheels: Path, certificate: Certificate, *, login: bool = False) -> Iterator[Index]:
    """Serve a directory of wheels until the end of the block; wheels may be added meanwhile."""
    wanted = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode() if login else None
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = _answer(self.path, wheels)
            if wanted and self.headers.get("Authorization") != wanted:
                status, body = 401, b""
            self.send_response(status)
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="tests"')
            self.send_header("Content-Type", "text/html" if self.path.endswith("/") else "application/octet-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            if status == 200:
                asked.append(self.path)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.file, certificate.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Index(f"localhost:{server.server_port}", certificate.authority, asked)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(path: str, wheels: Path) -> tuple[int, bytes]:
    """Return the status and body for a path: a project's page, or one of its files."""
    kind, _, rest = path.lstrip("/").partition("/")
    if kind == "files" and (wheels / rest).parent == wheels and (wheels / rest).is_file():
        return 200, (wheels / rest).read_bytes()
    found = sorted(wheels.glob(f"{rest.strip('/').replace('-', '_')}-[0-9]*")) if kind == "simple" else []
    links = [f'<a href="/files/{one.name}#sha256={sha256_of(one)}">{one.name}</a>' for one in found]
    page = f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode()
    return (200, page) if found else (404, b"")


def main() -> None:
    """Serve the directory WHEELS until killed, with a new certificate in TLS; print the URL and the authority's
    certificate.
    """
    wheels, tls = map(Path, sys.argv[1:])
    with run_index(wheels, make_certificate(tls)) as index:
        print(index.url, index.ca, sep="\n", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
