from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import requests

from hpcmod.core.errors import BadInputError, HpcmodError, NotFoundError, RemoteError
from hpcmod.images.web import client as asking
from hpcmod.images.web.client import Answer as Answered
from hpcmod.images.web.client import Client, LoginError, Retry, StatusError, insist
from tests.unit.images.file_server import Answer, Server, serve

pytestmark = pytest.mark.slow

BODY = random.Random(2).randbytes(1_000_000)  # noqa: S311 - noise for a test, the same each time


@pytest.fixture
def server() -> Iterator[Server]:
    with serve(BODY) as running:
        yield running


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def fetch(server: Server, waits: list[float], said: list[str]) -> Any:
    """Get the served file with retries; waits are recorded instead of slept."""

    def call(url: str = server.url, session_factory: Callable[[], requests.Session] = requests.Session) -> bytes:
        def attempt() -> bytes:
            with client.get(url, {}) as answer:
                return b"".join(answer.chunks)

        with closing(session_factory()) as session:
            client = Client(session)
            return insist(attempt, url, done=lambda: 0, sleep=waits.append, tell=said.append)

    return call


@pytest.mark.parametrize(
    ("status", "error", "cure"),
    [
        *((404, NotFoundError, ""), (410, NotFoundError, "")),
        *((401, RemoteError, ".netrc"), (403, RemoteError, ".netrc")),
        *((400, RemoteError, ""), (418, RemoteError, ""), (501, RemoteError, "")),
    ],
)
def test_a_final_answer_is_not_asked_for_again(
    fetch: Any, server: Server, status: int, error: type[HpcmodError], cure: str
) -> None:
    server.answers = [Answer(status)]
    with pytest.raises(error, match=str(status)) as caught:
        fetch()
    assert cure in caught.value.cure
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_temporary_error_is_retried(fetch: Any, server: Server, waits: list[float], status: int) -> None:
    server.answers = [Answer(status), Answer(status)]
    assert fetch() == BODY
    assert waits == [1.0, 2.0]


def test_waits_as_long_as_the_server_asks(fetch: Any, server: Server, waits: list[float], said: list[str]) -> None:
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 100))
    after = ["7", date, "100000", "soon", "Mon, 01 Jan 2001 00:00:00 GMT"]
    server.answers = [Answer(503, {"Retry-After": value}) for value in after[:4]]
    fetch()
    server.answers = [Answer(503, {"Retry-After": after[4]})]
    fetch()
    assert waits[0] == 7.0
    assert 95 < waits[1] <= 100
    assert waits[2:] == [300.0, 8.0, 0.0]
    answer = f"{server.url}: it answered 503 Service Unavailable"
    assert said[0] == f"{answer}; attempt 2 of 5 in 7 s, as the server asks to wait 7 s"
    asked = "as the server asks to wait 100000 s"
    assert said[2:] == [f"{answer}; attempt 4 of 5 in 300 s, {asked}", f"{answer}; attempt 5 of 5 in 8 s"]


def test_a_missing_server_is_tried_several_times(fetch: Any, waits: list[float]) -> None:
    with serve(b"") as gone:
        url = gone.url
    with pytest.raises(RemoteError, match="refused the connection"):
        fetch(url)
    assert waits == [1.0, 2.0, 4.0, 8.0]


def test_a_server_without_a_valid_certificate_is_not_tried_again(fetch: Any, waits: list[float]) -> None:
    class Untrusted(requests.Session):
        def get(self, *_: Any, **__: Any) -> requests.Response:
            raise requests.exceptions.SSLError("certificate verify failed")

    with pytest.raises(RemoteError, match="certificate"):
        fetch("https://host/x.sif", Untrusted)
    assert waits == []


def test_redirects_are_followed_but_credentials_stay(fetch: Any, server: Server) -> None:
    class Logged(requests.Session):
        def __init__(self) -> None:
            super().__init__()
            self.headers["Private-Token"] = "secret"

    with serve(BODY) as other:
        server.answers = [Answer(302, {"Location": "/image.sif?x=1"}), Answer(302, {"Location": other.url})]
        url = server.url.replace("://", "://user:pass%20word@")
        assert fetch(url, Logged) == BODY
    assert [("authorization" in asked, "private-token" in asked) for asked in server.asked] == [(True, True)] * 2
    assert [("authorization" in asked, "private-token" in asked) for asked in other.asked] == [(False, False)]


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (Answer(302, {"Location": "/image.sif"}), RemoteError, "more than 10 redirects"),
        (Answer(302, {"Location": "http://192.0.2.1/x.sif"}), BadInputError, "plain http"),
        (Answer(headers={"Content-Encoding": "gzip"}), RemoteError, "compressed"),
    ],
)
def test_circles_plain_http_elsewhere_and_compressed_files_are_refused(
    fetch: Any, server: Server, answer: Answer, error: type[HpcmodError], words: str
) -> None:
    server.answers = [answer] * 20
    with pytest.raises(error, match=words):
        fetch()


def ask(server: Server, headers: dict[str, str] | None = None) -> Answered:
    """Send one request, and return the answer without its body."""
    with closing(requests.Session()) as session, Client(session).get(server.url, headers or {}) as answer:
        return replace(answer, chunks=iter(()))


@pytest.mark.parametrize(
    ("answer", "total", "bounded"),
    [
        pytest.param(Answer(), len(BODY), True, id="with its length"),
        pytest.param(Answer(chunked=True), 0, True, id="in chunks"),
        pytest.param(Answer(length=-1), 0, False, id="until the connection ends"),
    ],
)
def test_returns_the_length_and_whether_the_end_is_known(
    server: Server, answer: Answer, total: int, bounded: bool
) -> None:
    server.answers = [answer]
    found = ask(server)
    assert (found.status, found.start, found.total, found.bounded) == (200, None, total, bounded)


def test_reports_the_range_of_the_answer(server: Server) -> None:
    part, none = ask(server, {"Range": "bytes=400000-"}), ask(server, {"Range": f"bytes={len(BODY)}-"})
    assert (part.status, part.start, part.total) == (206, 400_000, len(BODY))
    assert (none.status, none.start, none.total) == (416, None, len(BODY))


@pytest.mark.parametrize(
    ("headers", "validator"),
    [
        ({"ETag": '"v2"', "Last-Modified": "today"}, '"v2"'),
        ({"ETag": 'W/"v2"', "Last-Modified": "today"}, "today"),
        ({"ETag": 'W/"v2"'}, ""),
    ],
)
def test_a_weak_etag_names_no_version(server: Server, headers: dict[str, str], validator: str) -> None:
    server.answers = [Answer(headers=headers)]
    assert ask(server).validator == validator


def test_bytes_that_are_new_start_the_count_of_failures_again(waits: list[float], said: list[str]) -> None:
    done = iter([1, 1, 2, 2, *[2] * 20])  # read twice if there is progress

    def attempt() -> None:
        raise Retry("no luck")

    with pytest.raises(RemoteError, match="gave up after 5 attempts, 2 bytes are kept"):
        insist(attempt, "https://host/x.sif", done=lambda: next(done), sleep=waits.append, tell=said.append)
    assert waits == [1.0, 1.0, 2.0, 4.0, 8.0]
    assert said == [f"https://host/x.sif: no luck; attempt {number} of 5 in {2 ** (number - 2)} s" for number in (4, 5)]


def test_the_error_contains_the_servers_login_challenge(server: Server) -> None:
    server.answers = [Answer(401, {"WWW-Authenticate": 'Basic realm="x"'}), Answer(401), Answer(403)]
    with pytest.raises(LoginError) as caught:
        ask(server)
    assert caught.value.challenge == 'Basic realm="x"'
    with pytest.raises(LoginError) as caught:
        ask(server)
    assert caught.value.challenge == ""
    with pytest.raises(StatusError) as refused:
        ask(server)
    assert refused.value.status == 403


def test_a_form_is_not_sent_where_a_server_points_to(server: Server) -> None:
    with serve(BODY) as other, closing(requests.Session()) as session:
        server.answers = [Answer(307, {"Location": other.url})]
        client = Client(session)
        with pytest.raises(StatusError), client.get(server.url, {}, form={"refresh_token": "secret"}):
            pass
        assert other.asked == []
    assert server.asked[-1]["content-type"] == "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("header", "total", "bounded"),
    [
        ({"Content-Length": "9" * 5000}, 0, False),
        ({"Content-Range": f"bytes 0-1/{'9' * 5000}"}, len(BODY), True),
    ],
)
def test_an_invalid_size_counts_as_unknown(server: Server, header: dict[str, str], total: int, bounded: bool) -> None:
    server.answers = [Answer(200, header)]
    answered = ask(server)
    assert (answered.start, answered.total, answered.bounded) == (None, total, bounded)


@pytest.mark.parametrize(("text", "wait"), [("9" * 5000, None), ("Mon, 01 Jan 0001 00:00:00 +2359", 0), ("7", 7)])
def test_an_invalid_time_to_wait_is_ignored(server: Server, text: str, wait: float | None) -> None:
    server.answers = [Answer(503, {"Retry-After": text})]
    with pytest.raises(Retry) as raised:
        ask(server)
    assert raised.value.wait == wait


def test_a_reason_cannot_steer_a_terminal(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BaseHTTPRequestHandler, "responses", {418: ("\x1b[31mred", "")})
    server.answers = [Answer(418)]
    with pytest.raises(RemoteError, match=r"418 \?\[31mred"):
        ask(server)


@pytest.mark.parametrize(
    "location", ["https://[", f"https://{'a' * 70}.example/x", "http://127.0.0.1:99999/", "https://exa mple/", "//[x"]
)
def test_a_redirect_to_an_invalid_address_is_a_clean_error(fetch: Any, server: Server, location: str) -> None:
    server.answers = [Answer(302, {"Location": location})]
    with pytest.raises((RemoteError, BadInputError)):
        fetch()


def test_the_body_of_a_redirect_stays_with_the_server() -> None:
    sent = []

    class Redirecting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302 if self.path == "/" else 404)
            self.send_header("Location", "/gone")
            self.end_headers()
            with suppress(OSError):
                for _ in range(64 if self.path == "/" else 0):
                    self.wfile.write(bytes(1 << 20))
                    sent.append(1 << 20)

        def log_message(self, *_: object) -> None:
            """Print nothing to stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Redirecting) as httpd, closing(requests.Session()) as session:
        threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            with pytest.raises(NotFoundError), Client(session).get(f"http://127.0.0.1:{httpd.server_port}/", {}):
                pass
        finally:
            httpd.shutdown()
    assert len(sent) < 64


@pytest.fixture
def trickling() -> Iterator[Any]:
    """Start servers that send the start of an answer, then one byte every 20 ms while the client is connected."""
    ended = threading.Event()
    listeners: list[socket.socket] = []

    def start(beginning: bytes) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def answer() -> None:
            with suppress(OSError), listener.accept()[0] as connection:
                connection.recv(1 << 16)
                connection.sendall(beginning)
                while not ended.wait(0.02):
                    connection.sendall(b"x")

        threading.Thread(target=answer, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/image.sif"

    yield start
    ended.set()
    for listener in listeners:
        listener.close()


def test_an_endless_header_is_abandoned(fetch: Any, trickling: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_HEADER_TIME", 0.3)
    with pytest.raises(RemoteError, match="no complete answer within"):
        fetch(trickling(b"HTTP/1.1 200 OK\r\nX-Slow: "))


@pytest.mark.parametrize("length", [b"Content-Length: 1000000000", b"Connection: close"])
def test_a_body_that_arrives_too_slowly_is_abandoned(
    fetch: Any, trickling: Any, monkeypatch: pytest.MonkeyPatch, length: bytes
) -> None:
    monkeypatch.setattr(asking, "_CHUNK_TIME", 0.3)
    with pytest.raises(RemoteError, match="sent less than 128 KiB"):
        fetch(trickling(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\n"))


def test_a_command_that_stays_on_this_machine_does_not_load_requests() -> None:
    code = "import hpcmod.catalogue.publishing.publish, sys; print('requests' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
