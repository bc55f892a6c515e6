"""Access one repository of a registry: find its API, log in if required, and read manifests and blobs."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urljoin

from hpcmod.core.errors import BadInputError, NotFoundError, RemoteError, VerificationError
from hpcmod.core.log import Logger
from hpcmod.core.values.reference import ImageReference, check_address
from hpcmod.images.cache import Cache
from hpcmod.images.values.oci import CONFIG_LIMIT, MANIFEST_LIMIT, OciDescriptor, parse_manifest
from hpcmod.images.web.authorization import Authorizer, read_limited, show_realm
from hpcmod.images.web.client import (
    Answer,
    Client,
    LoginError,
    Retry,
    StatusError,
    Unreachable,
    anonymous,
    insist,
    origin,
)
from hpcmod.images.web.credentials import Access

if TYPE_CHECKING:
    import requests

_LOG = Logger(__name__)

_API_HOSTS = {"docker.io": "registry-1.docker.io"}
_KINDS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_LOGIN = "Check the name, and that your login has read access."


class Body(Protocol):
    """A body that can be sent again from its first byte."""

    def rewind(self) -> None:
        """Start again from the first byte."""


class Repository:
    """One repository; its login is only sent to its registry and that registry's token server."""

    def __init__(
        self,
        reference: ImageReference,
        session: requests.Session,
        access: Access,
        *,
        actions: str = "pull",
    ) -> None:
        self._actions = actions
        self._reference = reference
        self.tell = access.announce
        """Called with a line for the user when waiting for a server."""
        self._access = access
        self._client = Client(session, allow_http=access.allow_http, login=_LOGIN)
        self._lock = threading.Lock()
        self._api: tuple[str, Authorizer] | None = None

    @contextmanager
    def ask(self, path: str, headers: dict[str, str]) -> Iterator[Answer]:
        """Request a path below the repository; as `Client.get`, with a login if required."""
        address, login = self._found()
        url = f"{address}/v2/{self._reference.repository}/{path}"
        shown = login.header
        with ExitStack() as asked:
            try:
                answer = asked.enter_context(self._client.get(url, headers, auth=show_realm(shown)))
            except LoginError as refused:  # no login yet, or it has expired
                login.answer(refused, shown)
                try:
                    answer = asked.enter_context(self._client.get(url, headers, auth=show_realm(login.header)))
                except LoginError as err:
                    raise login.no_login() from err
            yield answer

    def send(self, method: str, path: str, headers: dict[str, str], data: Body | bytes | None) -> Mapping[str, str]:
        """Send a request with a body, with a login if required; return the answer's headers.

        A path is below the repository, or a complete address: another server gets no login.
        """
        address, login = self._found()
        url = urljoin(f"{address}/v2/{self._reference.repository}/", path)
        check_address(url, allow_http=self._access.allow_http)
        shown = login.header if origin(url) == origin(address) else ""
        try:
            return self._client.send(method, url, headers, auth=show_realm(shown), data=data)
        except LoginError as refused:
            if origin(url) != origin(address):
                raise
            login.answer(refused, shown)
            if data is not None and not isinstance(data, bytes):
                data.rewind()
            return self._client.send(method, url, headers, auth=show_realm(login.header), data=data)

    def _found(self) -> tuple[str, Authorizer]:
        with self._lock:
            if self._api is None:
                self._api = self._find_api()
            return self._api

    def _find_api(self) -> tuple[str, Authorizer]:
        """Find the registry over https or, if allowed, http; log in if its API root requires it."""
        registry = self._reference.registry
        host = _API_HOSTS.get(registry, registry)
        failed: Exception = RemoteError(f"{registry}: cannot be reached")
        for scheme in self._schemes(host):
            login = Authorizer(
                self._client, self._reference, self._access, scope=self._actions, secure=scheme == "https"
            )
            try:
                self._check_api(f"{scheme}://{host}/v2/", login)
            except (Unreachable, RemoteError) as err:
                if not _may_be_the_other(scheme, err):
                    raise
                _LOG.info("%s does not answer at %s://%s: %s", registry, scheme, host, err)
                failed = failed if getattr(err, "status", 0) else err
                continue
            _LOG.info("%s answers at %s://%s", registry, scheme, host)
            return f"{scheme}://{host}", login
        raise failed

    def _schemes(self, host: str) -> tuple[str, ...]:
        if self._access.allow_http:
            return "https", "http"
        try:
            check_address(f"http://{host}/")
        except BadInputError:
            return ("https",)
        return "http", "https"  # a registry on this machine usually has no certificate

    def _check_api(self, url: str, login: Authorizer) -> None:
        try:
            with self._client.get(url, {}, auth=anonymous):
                return
        except NotFoundError as err:
            raise RemoteError(f"{url}: not a registry ({err.message})", "Check its name.") from err
        except LoginError as refused:
            try:
                login.answer(refused, "")
            except LoginError:
                if login.credentials:
                    raise
                # this repository may be public all the same

    def manifest(self, name: str, cache: Cache | None = None) -> tuple[str, bytes]:
        """Read a manifest or an index by tag or digest; return its verified digest and its content.

        Raises NotFoundError if it does not exist; VerificationError if it does not match its digest; RemoteError if the
        registry refuses, or fails several times in a row.
        """
        path = f"manifests/{name}"
        if ":" in name:
            return name, self._by_digest(path, name, MANIFEST_LIMIT, cache)
        digest, text = self._small(path, "", MANIFEST_LIMIT)
        if cache and not cache.find(digest, len(text)):
            cache.store(digest, text)
        return digest, text

    def referrers(self, digest: str) -> tuple[OciDescriptor, ...]:
        """Read the list of manifests that refer to an image (OCI 1.1); of an older registry, the list at its tag.

        Raises as `manifest`.
        """
        try:
            text = self._small(f"referrers/{digest}", "", MANIFEST_LIMIT)[1]
        except (NotFoundError, StatusError):
            try:
                text = self.manifest(digest.replace(":", "-"))[1]
            except NotFoundError:
                return ()
        index = parse_manifest(text)
        return index if isinstance(index, tuple) else ()

    def config(self, blob: OciDescriptor, cache: Cache | None = None) -> bytes:
        """Read an image's configuration; raises as `manifest`."""
        if blob.size > CONFIG_LIMIT:
            raise BadInputError(f"{self._reference.canonical}: its configuration has {blob.size} bytes")
        return self._by_digest(f"blobs/{blob.digest}", blob.digest, CONFIG_LIMIT, cache)

    def _by_digest(self, path: str, digest: str, limit: int, cache: Cache | None) -> bytes:
        def fetch() -> bytes:
            return self._small(path, digest, limit)[1]

        return cache.load_or_fetch(digest, limit, fetch) if cache else fetch()

    def _small(self, path: str, digest: str, limit: int) -> tuple[str, bytes]:
        """Read a small file; without a digest, verify the one in the registry's answer."""
        where = self._reference.canonical

        def attempt() -> tuple[str, bytes]:
            with self.ask(path, {"Accept": ", ".join(_KINDS)} if path.startswith("manifests/") else {}) as answer:
                text = read_limited(answer.chunks, limit, where)
            if answer.total and len(text) != answer.total:
                raise Retry(f"it sent {len(text)} of {answer.total} bytes")
            found = f"sha256:{hashlib.sha256(text).hexdigest()}"
            said = answer.headers.get("Docker-Content-Digest", "")
            expected = digest or (said if said.startswith("sha256:") else found)
            if found != expected:
                raise VerificationError(
                    f"{where}: {path}: the digest is {found}, expected {expected}",
                    "Check whether a proxy answers instead of the registry, then try again.",
                )
            return found, text

        try:
            return insist(attempt, where, done=lambda: 0, sleep=time.sleep, tell=self.tell)
        except NotFoundError as err:
            raise NotFoundError(
                f"{where}: {self._reference.registry} has no such image ({err.message})",
                "Check the name and tag; a private image may need a login: apptainer registry login.",
            ) from err


def _may_be_the_other(scheme: str, err: Exception) -> bool:
    """Return whether the other scheme may work: http was used for a TLS server, or https for a plain one."""
    if isinstance(err, StatusError):
        return scheme == "http" and err.status == 400
    return isinstance(err, Unreachable) or scheme == "https"
