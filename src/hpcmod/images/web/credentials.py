"""Access to registries: the login that container tools have stored in their files and helpers."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.core.fs.reading import read_file
from hpcmod.core.log import Logger
from hpcmod.core.process import run
from hpcmod.images.web.client import open_session

if TYPE_CHECKING:
    import requests

_LOG = Logger(__name__)

_LIMIT = 4 << 20  # bytes of an auth file
_HELPER_TIMEOUT = 60.0  # seconds; a helper may ask a service, or the user
_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TOKEN_USER = "<token>"  # noqa: S105 - helpers return it as the user of an identity token
_DOCKER_HUB = "docker.io"
_HUB_NAMES = ("index.docker.io", "registry-1.docker.io", "registry.hub.docker.com")
_API = re.compile(r"/v[12]/?$")


@dataclass(frozen=True)
class Credentials:
    """A login: user and password, or a token."""

    source: str
    """File or variable of the login, for messages."""
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    """Token to exchange at the registry's token server."""
    registry_token: str = field(default="", repr=False)
    """Token to send to the registry unchanged."""


def find_credentials(
    registry: str, repository: str, *, env: Mapping[str, str], home: Path | None = None
) -> Credentials | None:
    """Find the login for a repository; None if there is none, because many registries need none.

    The environment's `APPTAINER_DOCKER_USERNAME` and `_PASSWORD` (or `SINGULARITY_...`) apply to all
    registries. Else the files of `auth_files` are read: the longest matching path wins (`host/group/name`, then
    `host/group`, then `host`), then the first file.

    `env` is also the environment of credential helpers; `home` is that in `env` by default.

    Raises BadInputError if a file is invalid.
    """
    for prefix in ("APPTAINER", "SINGULARITY"):
        user, password = env.get(f"{prefix}_DOCKER_USERNAME"), env.get(f"{prefix}_DOCKER_PASSWORD")
        if user and password:
            return Credentials(f"{prefix}_DOCKER_USERNAME", user, password)
    files = [(path, _read(path)) for path in auth_files(env=env, home=home)]
    _LOG.debug("looking for a login for %s in %s", registry, ", ".join(str(path) for path, _ in files) or "no file")
    parts = repository.split("/")
    for count in range(len(parts), -1, -1):  # the most specific key first
        for path, content in files:
            found = _look_up(path, content, "/".join([registry, *parts[:count]]), env)
            if found:
                return found
    stores = ((path, content["credsStore"]) for path, content in files if content.get("credsStore"))
    return next(filter(None, (_ask_helper(path, store, registry, env) for path, store in stores)), None)


def auth_files(*, env: Mapping[str, str], home: Path | None = None) -> list[Path]:
    """List the login files in order of precedence: the runtime's, Podman's, Docker's."""
    home = home or Path(env.get("HOME") or Path.home())
    runtime, config = env.get("XDG_RUNTIME_DIR"), env.get("XDG_CONFIG_HOME") or str(home / ".config")
    candidates = [
        env.get("REGISTRY_AUTH_FILE"),
        Path(env.get("APPTAINER_CONFIGDIR") or home / ".apptainer") / "docker-config.json",
        home / ".singularity" / "docker-config.json",
        runtime and Path(runtime) / "containers" / "auth.json",
        Path(config) / "containers" / "auth.json",
        Path(env.get("DOCKER_CONFIG") or home / ".docker") / "config.json",
    ]
    return list(dict.fromkeys(Path(candidate) for candidate in candidates if candidate))


def _read(path: Path) -> dict[str, Any]:
    """Read an auth file; empty if missing or not readable."""
    if path.is_dir():
        return {}
    try:
        text = read_file(path, _LIMIT)
        content = json.loads(text) if text.strip() else {}
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}
    except OSError as err:
        raise LackingError(f"{path}: cannot be read: {err.strerror}") from err
    except (ValueError, RecursionError):
        raise _bad_file(path, "not JSON") from None  # the parser's message may contain a part of the file
    if not isinstance(content, dict):
        raise _bad_file(path, "not a JSON object")
    return content


def _bad_file(path: Path, reason: str) -> BadInputError:
    return BadInputError(f"{path}: {reason}, expected registry logins", "Fix it, or log in again.")


def _plain_key(key: str) -> str:
    """Normalize an entry's key: tools write `host`, `https://host`, `https://index.docker.io/v1/`, ..."""
    bare = _API.sub("", key.partition("://")[2] or key).rstrip("/")
    host, slash, path = bare.partition("/")
    return (_DOCKER_HUB if host in _HUB_NAMES else host) + slash + path


def _table(path: Path, content: dict[str, Any], name: str) -> dict[str, Any]:
    """Return one of the file's tables with normalized keys."""
    table = {} if content.get(name) is None else content[name]
    if not isinstance(table, dict):
        raise _bad_file(path, f"{name} is not an object")
    return {_plain_key(key): value for key, value in table.items()}


def _look_up(path: Path, content: dict[str, Any], key: str, env: Mapping[str, str]) -> Credentials | None:
    """Find an entry in a file: a credential helper for it takes precedence over a login in the file."""
    helpers, logins = _table(path, content, "credHelpers"), _table(path, content, "auths")
    if key in helpers:
        return _ask_helper(path, helpers[key], key, env)
    return _parse_login(path, logins[key]) if key in logins else None


def _parse_login(path: Path, login: Any) -> Credentials | None:
    """Parse one entry; None if it is empty because the login is in a credential store."""
    if not isinstance(login, dict):
        raise _bad_file(path, "a login is not an object")
    texts = {name: value for name, value in login.items() if isinstance(value, str)}
    user, password = texts.get("username", ""), texts.get("password", "")
    if texts.get("auth"):
        user, password = _decode(path, texts["auth"])
    identity, registry = texts.get("identitytoken", ""), texts.get("registrytoken", "")
    if not (user or identity or registry):
        return None
    return Credentials(str(path), user, password, identity, registry)


def _decode(path: Path, text: str) -> tuple[str, str]:
    try:
        user, colon, password = base64.b64decode(text, validate=True).decode().rstrip("\0").partition(":")
    except (binascii.Error, ValueError):
        raise _bad_file(path, "a login is not base64") from None
    if not colon:
        raise _bad_file(path, "a login has no user and password")
    return user, password


def _ask_helper(path: Path, name: Any, key: str, env: Mapping[str, str]) -> Credentials | None:
    """Ask a credential helper (docker-credential-NAME) for a login; None if it has none or is not installed."""
    if not isinstance(name, str) or not _HELPER.fullmatch(name):
        raise _bad_file(path, "a credential helper has an invalid name")
    program = f"docker-credential-{name}"
    address = "https://index.docker.io/v1/" if key == _DOCKER_HUB else key
    try:
        done = run([program, "get"], env={**os.environ, **env}, stdin=address, timeout=_HELPER_TIMEOUT)
    except LackingError:  # a login file copied from a laptop, whose helper is not installed here
        return None
    if done.status:  # it has no login
        return None
    return _parse_helper(program, done.stdout)


def _parse_helper(program: str, text: str) -> Credentials:
    try:
        answer = json.loads(text)
        user, secret = answer["Username"], answer["Secret"]
        if not (isinstance(user, str) and isinstance(secret, str)):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadInputError(f"{program}: its answer is not a login", "Check that it works on its own.") from None
    if user == _TOKEN_USER:
        return Credentials(program, identity_token=secret)
    return Credentials(program, user, secret)


def _login_of_user(registry: str, repository: str) -> Credentials | None:
    return find_credentials(registry, repository, env=os.environ)


@dataclass(frozen=True)
class Access:
    """Options for accessing registries; `requests` reads proxies and certificates from the environment."""

    session_factory: Callable[[], requests.Session] = open_session
    """Returns the session for all requests."""
    allow_http: bool = False
    """Whether to try plain http if https does not work; always allowed for registries on this machine."""
    find_credentials: Callable[[str, str], Credentials | None] = _login_of_user
    """Returns the login for a registry and repository."""
    announce: Callable[[str], None] = lambda _: None
    """Called with a line for the user before a password goes to another host than the registry, and where a server is
    waited for.
    """


USUAL = Access()
"""https with the user's login."""
