"""Send blobs and manifests to a repository of a registry."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import BinaryIO

import requests

from hpcmod.core.errors import NotFoundError
from hpcmod.core.values.reference import ImageReference
from hpcmod.images.web.client import insist
from hpcmod.images.web.credentials import Access
from hpcmod.images.web.repository import Repository


class Counted:
    """A file that is being sent; its length is known, and its bytes are counted."""

    def __init__(self, file: BinaryIO, size: int, count: Callable[[int], None] | None) -> None:
        self._file, self._size, self._count, self._sent = file, size, count, 0

    def __len__(self) -> int:
        return self._size

    def read(self, size: int = -1) -> bytes:
        """Read the next bytes."""
        block = self._file.read(size)
        self._sent += len(block)
        if self._count:
            self._count(self._sent)
        return block

    def rewind(self) -> None:
        """Start again from the first byte."""
        self._file.seek(0)
        self._sent = 0


class WritableRepository(Repository):
    """A repository to which this user may push."""

    def __init__(self, reference: ImageReference, session: requests.Session, access: Access) -> None:
        super().__init__(reference, session, access, actions="pull,push")
        self._name = reference.canonical

    def has_blob(self, digest: str) -> bool:
        """Return whether the repository has a blob."""
        try:
            self._insist(lambda: self.send("HEAD", f"blobs/{digest}", {}, None))
        except NotFoundError:
            return False
        return True

    def upload(
        self, digest: str, size: int, opener: Callable[[], BinaryIO], count: Callable[[int], None] | None = None
    ) -> None:
        """Send a blob, again from its beginning if the connection breaks.

        `count` is called with the number of bytes that are sent.
        """

        def attempt() -> None:
            place = self.send("POST", "blobs/uploads/", {}, b"").get("Location", "")
            place += f"{'&' if '?' in place else '?'}digest={digest}"
            with opener() as file:
                self.send("PUT", place, {"Content-Type": "application/octet-stream"}, Counted(file, size, count))

        self._insist(attempt)

    def put_manifest(self, name: str, media_type: str, text: bytes) -> None:
        """Store a manifest or an index under a tag or its digest."""
        self._insist(lambda: self.send("PUT", f"manifests/{name}", {"Content-Type": media_type}, text))

    def _insist(self, attempt: Callable[[], object]) -> None:
        insist(attempt, self._name, done=lambda: 0, sleep=time.sleep, tell=self.tell)
