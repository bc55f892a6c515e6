"""Log in to a registry: parse its challenge, request a token, and a new token when it has expired."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit

from hpcmod.core.errors import RemoteError
from hpcmod.core.log import Logger
from hpcmod.core.values.reference import ImageReference, check_address, redact
from hpcmod.images.web.client import Auth, Client, LoginError, anonymous
from hpcmod.images.web.credentials import Access, Credentials

if TYPE_CHECKING:
    import requests

_LOG = Logger(__name__)

_LIMIT = 1 << 20  # bytes of a token server's answer
_CLIENT = "hpcmod"
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - RFC 9110, 5.6.2
_SCHEME = re.compile(rf"({_TOKEN})(?:[ \t]+|(?=,)|$)")
_PARAMETER = re.compile(rf'({_TOKEN})[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|({_TOKEN}))[ \t]*(?:,|$)')
_BETWEEN = re.compile(r"[ \t,]*")
_VISIBLE = re.compile(r"[!-~]+")


def parse_challenges(text: str) -> dict[str, dict[str, str]]:
    """Parse a WWW-Authenticate header (RFC 9110, 11.6.1) up to the first syntax error: parameters by login scheme.

    Schemes and names of parameters are in lower case; of two challenges with the same scheme, the first counts.
    """
    found: dict[str, dict[str, str]] = {}
    place = _end(_BETWEEN, text, 0)
    while scheme := _SCHEME.match(text, place):
        parameters: dict[str, str] = {}
        place = _end(_BETWEEN, text, scheme.end())
        while parameter := _PARAMETER.match(text, place):
            name, quoted, plain = parameter.groups()
            parameters[name.lower()] = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            place = _end(_BETWEEN, text, parameter.end())
        found.setdefault(scheme.group(1).lower(), parameters)
    return found


def _end(pattern: re.Pattern[str], text: str, place: int) -> int:
    match = pattern.match(text, place)
    return match.end() if match else place


class Authorizer:
    """The login for one repository, shared by all threads that fetch from it.

    `secure` is whether the registry was reached over https: then its token server must use https too. `scope` is asked
    for if the registry does not specify one. The user's login is looked for once, when first needed.
    """

    def __init__(self, client: Client, reference: ImageReference, access: Access, *, scope: str, secure: bool) -> None:
        self._client, self._access = client, access
        self._registry, self._repository = reference.registry, reference.repository
        self._scope = f"repository:{reference.repository}:{scope}"
        self._secure = secure
        self._lock = threading.Lock()
        self.header = ""
        """The current Authorization header; empty for none."""
        self.credentials: Credentials | None = None
        """The login for the repository, once it was looked for and found."""

    def answer(self, refused: LoginError, shown: str) -> None:
        """Replace the refused credentials, unless another thread has just done so.

        Raises LoginError if there are no others; RemoteError if the token server fails; Retry if a later attempt may
        succeed.
        """
        with self._lock:
            if self.header != shown:
                return
            if self.credentials is None:
                self.credentials = self._access.find_credentials(self._registry, self._repository)
            header = self._choose(parse_challenges(refused.challenge))
            if not header or header == shown:  # a new token differs each time, a password does not
                raise self.no_login() from refused
            self.header = header

    def _choose(self, schemes: Mapping[str, Mapping[str, str]]) -> str:
        known = self.credentials
        if "bearer" in schemes:
            if known and known.registry_token:
                return _bearer(known.registry_token, self._registry)
            return _bearer(self._ask_for_token(schemes["bearer"], known), self._registry)
        if "basic" in schemes:
            _LOG.info("%s wants a password: using %s", self._registry, _described(known))
            return _basic(known) if known and known.user else ""
        offered = ", ".join(sorted(schemes)) or "none named"
        raise RemoteError(
            f"{self._registry}: requires an unsupported kind of login: {offered}",
            "Registries offer Bearer or Basic; check whether a proxy answers instead of the registry.",
        )

    def no_login(self) -> LoginError:
        """Return the error for refused or missing credentials."""
        cure = f"Log in with: apptainer registry login docker://{self._registry} (or podman login, docker login)."
        if self.credentials:
            said = f"{self._registry}: rejected the login from {self.credentials.source}"
        else:
            said = f"{self._registry}: requires a login, but none was found"
        return LoginError(said, cure)

    def _ask_for_token(self, challenge: Mapping[str, str], known: Credentials | None) -> str:
        realm = challenge.get("realm", "")
        if check_address(realm, allow_http=self._access.allow_http).scheme == "http" and self._secure:
            raise RemoteError(f"{redact(realm)}: the registry's token server uses plain http, which is not allowed")
        wanted = {"scope": challenge.get("scope") or self._scope}
        if "service" in challenge:
            wanted["service"] = challenge["service"]
        server = urlsplit(realm).netloc.rpartition("@")[2].lower()
        if known and (known.user or known.identity_token) and server != self._registry:
            self._access.announce(f"sending the login for {self._registry} to its token server {server}")
        _LOG.info("asking %s for a token, %s", redact(realm), _described(known))
        try:
            return self._exchange(realm, wanted, known)
        except LoginError as err:
            raise self.no_login() from err

    def _exchange(self, realm: str, wanted: dict[str, str], known: Credentials | None) -> str:
        if known and known.identity_token:
            grant = {"grant_type": "refresh_token", "client_id": _CLIENT, "refresh_token": known.identity_token}
            with self._client.get(realm, {}, auth=anonymous, form={**wanted, **grant}) as answer:
                return _parse_token(realm, answer.chunks)
        query = urlencode([*parse_qsl(urlsplit(realm).query, keep_blank_values=True), *wanted.items()])
        auth = show_realm(_basic(known) if known and known.user else "")
        with self._client.get(urlsplit(realm)._replace(query=query).geturl(), {}, auth=auth) as answer:
            return _parse_token(realm, answer.chunks)


def _described(known: Credentials | None) -> str:
    return f"login from {known.source}" if known else "without a login"


def show_realm(header: str) -> Auth:
    """Return an Auth that sets an Authorization header; `anonymous` if the header is empty."""

    def put(request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = header
        return request

    return put if header else anonymous


def _basic(known: Credentials) -> str:
    return "Basic " + base64.b64encode(f"{known.user}:{known.password}".encode()).decode()


def _bearer(token: str, registry: str) -> str:
    if not _VISIBLE.fullmatch(token):
        raise RemoteError(f"{registry}: its token contains invalid characters", "Log in again.")
    return f"Bearer {token}"


def _parse_token(realm: str, chunks: Iterator[bytes]) -> str:
    text = read_limited(chunks, _LIMIT, redact(realm))
    try:
        answer = json.loads(text)
        token = answer.get("token") or answer["access_token"]
    except (ValueError, KeyError, AttributeError, RecursionError):
        token = None
    if not isinstance(token, str) or not token:
        raise RemoteError(f"{redact(realm)}: the token server's answer contains no token", "Run this again later.")
    return token


def read_limited(chunks: Iterator[bytes], limit: int, what: str) -> bytes:
    """Read a short answer.

    Raises RemoteError if it has more than `limit` bytes.
    """
    found = bytearray()
    for chunk in chunks:
        found += chunk
        if len(found) > limit:
            raise RemoteError(f"{what}: the answer has more than {limit} bytes")
    return bytes(found)
