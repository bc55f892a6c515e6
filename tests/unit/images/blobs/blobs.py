"""Shared code of the blob tests: a blob on a real web server, and a registry client that requests it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import requests

from hpcmod.images.values.oci import OciDescriptor
from hpcmod.images.web.client import Answer, Client
from tests.unit.images.file_server import Server, serve

CONTENT = bytes(range(256)) * 4000  # 1 MB: several chunks

Ask = Callable[[str, dict[str, str]], AbstractContextManager[Answer]]


def blob_of(content: bytes) -> OciDescriptor:
    return OciDescriptor("application/octet-stream", f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))


@contextmanager
def serving(content: bytes = CONTENT) -> Iterator[tuple[Server, Ask]]:
    """Serve a blob; yield the server, and a function that sends it requests as to a registry."""
    with serve(content) as server, requests.Session() as session:
        client = Client(session, allow_http=True)
        server.path = f"/blobs/{blob_of(content).digest}"
        yield server, lambda path, headers: client.get(f"http://{server.host}:{server.port}/{path}", headers)
