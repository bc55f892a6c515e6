"""Download one blob from a registry: resume at any byte, and verify the length and digest at the end."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from hpcmod.core.errors import RemoteError, VerificationError
from hpcmod.images.values.oci import OciDescriptor
from hpcmod.images.web.client import Answer, Retry, insist

Ask = Callable[[str, dict[str, str]], AbstractContextManager[Answer]]
"""Requests a path below the repository from a registry, with additional headers."""


class Stopped(RemoteError):  # noqa: N818 - stops the fetching threads; raised if a stream is read after close
    """The download was stopped because its reader has closed."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: the download was stopped before it was complete", "Run this again to resume it.")


class Pull:
    """The download of one blob: requests the missing bytes until the blob is complete."""

    def __init__(
        self,
        blob: OciDescriptor,
        *,
        ask: Ask,
        where: str,
        sink: Callable[[bytes], None],
        stop: threading.Event,
        tell: Callable[[str], None],
    ) -> None:
        self.done = 0
        """Bytes sent to the sink, plus those passed to `resume`."""
        self._blob = blob
        self._ask = ask
        self._where = where
        self._sink = sink
        self._stop = stop
        self._tell = tell
        self._sha256 = hashlib.sha256()

    def resume(self, done: int, sha256: hashlib._Hash) -> None:
        """Start after the first `done` bytes; `sha256` is the hash of these bytes."""
        self.done, self._sha256 = done, sha256

    def run(self) -> None:
        """Send the missing bytes to the sink, and verify the complete blob.

        Raises VerificationError if the length or digest is not as expected; RemoteError if the registry refuses, or did
        not send the complete blob in several attempts; NotFoundError if the registry has no such blob; Stopped if the
        reader has closed.
        """
        insist(self._attempt, self._where, done=lambda: self.done, sleep=self._wait, tell=self._tell)

    def _wait(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise Stopped(self._blob.digest)

    def _attempt(self) -> None:
        if self.done < self._blob.size or not self._blob.size:
            headers = {"Range": f"bytes={self.done}-"} if self.done else {}
            with self._ask(f"blobs/{self._blob.digest}", headers) as answer:
                self._receive(answer, self._bytes_to_skip(answer))
        if self.done < self._blob.size:
            raise Retry(f"it sent {self.done} of {self._blob.size} bytes")
        found = f"sha256:{self._sha256.hexdigest()}"
        if found != self._blob.digest:
            raise self._wrong(f"the digest is {found}, expected {self._blob.digest}")

    def _bytes_to_skip(self, answer: Answer) -> int:
        """Return how many bytes of the answer to skip: all received so far if the server ignores ranges."""
        if answer.total and answer.total != self._blob.size:
            raise self._wrong(f"the server reports {answer.total} bytes, expected {self._blob.size}")
        if answer.status == 200:
            return self.done
        if answer.status != 206 or answer.start != self.done:
            raise Retry(f"it answered {answer.status} with a different part of the blob than requested")
        return 0

    def _receive(self, answer: Answer, skip: int) -> None:
        for received in answer.chunks:
            if self._stop.is_set():
                raise Stopped(self._blob.digest)
            chunk, skip = received[skip:], max(0, skip - len(received))
            if not chunk:
                continue
            if self.done + len(chunk) > self._blob.size:
                raise self._wrong(f"the server sent more than the expected {self._blob.size} bytes")
            self._sha256.update(chunk)
            self._sink(chunk)
            self.done += len(chunk)

    def _wrong(self, reason: str) -> VerificationError:
        return VerificationError(
            f"{self._where}: {reason}",
            "Check whether a proxy answers instead of the registry, then try again.",
        )
