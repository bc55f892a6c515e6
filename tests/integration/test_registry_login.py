"""Logins to a real registry and a token server: sent only where they belong, renewed in time, never leaked."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hpcmod.core.errors import RemoteError
from hpcmod.core.log import LogSettings, logging_to
from hpcmod.core.values.reference import ImageReference
from hpcmod.images.cache import Cache
from hpcmod.images.registry import open_registry_image
from hpcmod.images.web import client
from hpcmod.images.web.client import LoginError
from hpcmod.images.web.credentials import Access, find_credentials
from tests.fault_proxy import Fault, Proxy, TokenServer, run_proxy, run_token_server
from tests.registry import PASSWORD, USER, Registry, run_registry, why_no_registry

NOISE = random.Random(11)  # noqa: S311 - noise for a test, the same each time
LAYERS = [NOISE.randbytes(400_000) for _ in range(3)]
TOP = hashlib.sha256(LAYERS[-1]).hexdigest()
AUTH = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A real registry that requires a user name and password."""
    if why_no_registry():
        pytest.skip(why_no_registry())
    with run_registry(tmp_path_factory.mktemp("guarded"), login=True) as running:
        running.push_image("private/image", LAYERS)
        yield running


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_WAIT", 0.01)


@pytest.fixture
def proxy(registry: Registry) -> Iterator[Proxy]:
    registry.push_image("private/image", LAYERS)
    with run_proxy(registry.host) as running:
        yield running


@pytest.fixture
def tokens(proxy: Proxy) -> Iterator[TokenServer]:
    """A token server whose tokens the proxy requires."""
    with run_token_server() as running:
        proxy.tokens = running
        yield running


def logged_in(tmp_path: Path, host: str, login: dict[str, str] | None = None) -> Access:
    """Return the access of a user with one login, in a Docker configuration file."""
    docker = tmp_path / "home" / ".docker"
    docker.mkdir(parents=True)
    auths = {host: login or {"auth": AUTH}}
    (docker / "config.json").write_text(json.dumps({"auths": auths}))
    return Access(find_credentials=partial(find_credentials, env={"HOME": str(tmp_path / "home")}))


NOBODY = Access(find_credentials=lambda *_: None)


def fetch(host: str, cache: Cache | None, access: Access, said: list[str] | None = None) -> list[bytes]:
    """Read the layers of an image; all messages are appended to `said`."""
    access = access if said is None else replace(access, announce=said.append)
    reference = ImageReference.parse(f"docker://{host}/private/image:1")
    with open_registry_image(reference, architecture="amd64", cache=cache, access=access) as image:
        return [layer.open().read() for layer in image.layers]


def test_a_password_opens_a_registry_that_asks_for_one(guarded: Registry, tmp_path: Path) -> None:
    assert fetch(guarded.host, Cache(tmp_path / "c"), logged_in(tmp_path, guarded.host)) == LAYERS
    assert fetch(guarded.host, None, logged_in(tmp_path / "again", f"{guarded.host}/private")) == LAYERS


def test_a_proxy_of_the_environment_is_used(registry: Registry, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://{proxy.host}")
    monkeypatch.setenv("no_proxy", "")
    assert fetch("localhost:1", None, NOBODY) == LAYERS
    assert proxy.asked[0].path.startswith("http://localhost:1/v2/")


def test_a_token_is_given_to_anyone_where_anyone_may_read(proxy: Proxy, tokens: TokenServer, tmp_path: Path) -> None:
    assert fetch(proxy.host, Cache(tmp_path / "c"), NOBODY) == LAYERS
    assert len(tokens.asked) == 1
    assert "service=tests" in tokens.asked[0].path
    assert "scope=repository%3Ax%3Apull" in tokens.asked[0].path
    assert "authorization" not in tokens.asked[0].headers


@pytest.mark.parametrize("login", [{"auth": AUTH}, {"identitytoken": PASSWORD}], ids=["password", "identity token"])
def test_a_login_is_shown_to_the_token_server_and_the_token_to_the_registry(
    proxy: Proxy, tokens: TokenServer, tmp_path: Path, login: dict[str, str]
) -> None:
    tokens.login = True
    assert fetch(proxy.host, Cache(tmp_path / "c"), logged_in(tmp_path, proxy.host, login)) == LAYERS
    shown = {asked.headers.get("authorization", "") for asked in proxy.asked}
    assert shown == {"", "Bearer secret-token-0"}


def test_the_host_of_the_token_server_is_shown_before_it_gets_a_password(
    proxy: Proxy, tokens: TokenServer, tmp_path: Path
) -> None:
    tokens.login = True
    said: list[tuple[str, int]] = []
    access = replace(logged_in(tmp_path, proxy.host), announce=lambda line: said.append((line, len(tokens.asked))))
    assert fetch(proxy.host, None, access) == LAYERS
    server = urlsplit(tokens.url).netloc
    assert said[0] == (f"sending the login for {proxy.host} to its token server {server}", 0)
    nobody = replace(NOBODY, announce=lambda line: pytest.fail(line))
    with pytest.raises(LoginError):
        fetch(proxy.host, None, nobody)


def test_a_login_that_the_token_server_refuses_is_one_error(proxy: Proxy, tokens: TokenServer, tmp_path: Path) -> None:
    tokens.login = True
    with pytest.raises(LoginError, match="requires a login"):
        fetch(proxy.host, None, NOBODY)
    access = logged_in(tmp_path, proxy.host, {"username": USER, "password": "hunter2"})
    with pytest.raises(LoginError, match="rejected the login"):
        fetch(proxy.host, None, access)


@pytest.mark.parametrize("through_cache", [True, False])
def test_an_expired_token_is_renewed_once_and_the_download_continues(
    proxy: Proxy, tokens: TokenServer, tmp_path: Path, through_cache: bool
) -> None:
    proxy.faults = [Fault(TOP, cut_at=200_000, also=tokens.expire)]
    assert fetch(proxy.host, Cache(tmp_path / "c") if through_cache else None, NOBODY) == LAYERS
    assert len(tokens.asked) == 2
    assert proxy.sent_twice() < client._CHUNK


@pytest.mark.parametrize("uses", [1, 2, 3])
def test_tokens_that_expire_after_few_requests_are_renewed_each_time(
    proxy: Proxy, tokens: TokenServer, uses: int
) -> None:
    tokens.uses = uses
    assert fetch(proxy.host, None, NOBODY) == LAYERS
    assert len(tokens.given) > 1


def test_a_token_that_never_opens_is_one_error(proxy: Proxy, tokens: TokenServer) -> None:
    tokens.give = lambda *_: "useless"  # type: ignore[method-assign]
    with pytest.raises(LoginError, match="requires a login"):
        fetch(proxy.host, None, NOBODY)
    assert len(proxy.asked) < 10


@pytest.mark.parametrize("token", ["", "two words", "line\nend", "\u00e4", 5, None, ["x"]])
def test_an_invalid_token_is_one_error(proxy: Proxy, tokens: TokenServer, token: str) -> None:
    tokens.give = lambda *_: token  # type: ignore[method-assign]
    with pytest.raises(RemoteError):
        fetch(proxy.host, None, NOBODY)


def test_credentials_do_not_follow_a_redirect_to_another_host(
    registry: Registry, proxy: Proxy, tokens: TokenServer, tmp_path: Path
) -> None:
    tokens.login = True
    with run_proxy(registry.host) as other:
        other.faults = [Fault(TOP, cut_at=200_000)]
        path = f"/v2/private/image/blobs/sha256:{TOP}"
        proxy.faults = [Fault(TOP, status=307, times=9, headers={"Location": f"http://{other.host}{path}?key=signed"})]
        assert fetch(proxy.host, Cache(tmp_path / "c"), logged_in(tmp_path, proxy.host)) == LAYERS
    assert len(other.asked) == 2
    assert other.asked[1].start > 0
    assert not [asked for asked in other.asked if "authorization" in asked.headers or "cookie" in asked.headers]


def test_a_host_that_a_registry_points_to_cannot_ask_for_the_login(
    registry: Registry, proxy: Proxy, tokens: TokenServer, tmp_path: Path
) -> None:
    with run_proxy(registry.host) as other, run_token_server() as theirs:
        challenge = {"WWW-Authenticate": f'Bearer realm="{theirs.url}",service="x"'}
        other.faults = [Fault(TOP, status=401, times=99, headers=challenge)]
        path = f"/v2/private/image/blobs/sha256:{TOP}"
        proxy.faults = [Fault(TOP, status=307, times=9, headers={"Location": f"http://{other.host}{path}"})]
        with pytest.raises(RemoteError, match="after a redirect to"):
            fetch(proxy.host, Cache(tmp_path / "c"), logged_in(tmp_path, proxy.host))
    assert theirs.asked == []


@pytest.fixture
def own_log(tmp_path: Path) -> Iterator[Path]:
    with logging_to(LogSettings(file=str(tmp_path / "own.log"))):
        yield tmp_path / "own.log"


def test_no_secret_is_printed_logged_or_written(
    proxy: Proxy,
    tokens: TokenServer,
    guarded: Registry,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    own_log: Path,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr("hpcmod.core.log.scrub", str)  # what is logged has no secret even before
    said: list[str] = []
    secrets = [PASSWORD, AUTH, "secret-token", "hunter2", base64.b64encode(f"{USER}:hunter2".encode()).decode()]
    wrong = logged_in(tmp_path / "wrong", proxy.host, {"username": USER, "password": "hunter2"})
    right = logged_in(tmp_path / "right", proxy.host)
    tokens.login = True
    cache = Cache(tmp_path / "cache")
    for access in (wrong, NOBODY):
        with pytest.raises(LoginError) as refused:
            fetch(proxy.host, cache, access, said)
        said.append(f"{refused.value!r} {refused.value}")
    proxy.faults = [Fault(TOP, cut_at=1000), Fault(TOP, status=403, times=9)]
    with pytest.raises(RemoteError) as broken:
        fetch(proxy.host, cache, right, said)
    said += [str(broken.value), repr(broken.value), repr(right.find_credentials(proxy.host, "private/image"))]
    proxy.faults.clear()
    assert fetch(proxy.host, cache, right, said) == LAYERS
    assert fetch(guarded.host, cache, logged_in(tmp_path / "basic", guarded.host), said) == LAYERS
    shown = capfd.readouterr()
    written = b"".join(path.read_bytes() for path in cache.directory.rglob("*") if path.is_file())
    own = own_log.read_text()
    everything = "\n".join([*said, caplog.text, own, shown.out, shown.err]).encode() + written
    assert [secret for secret in secrets if secret.encode() in everything] == []
    assert said
    assert b"manifests" in everything  # this proves that the log of the HTTP library was searched
    assert "for a token, login from" in own
