from __future__ import annotations

import hashlib
import threading

import pytest

from hpcmod.core.errors import NotFoundError, RemoteError, VerificationError
from hpcmod.images.blobs.blob import Pull, Stopped
from hpcmod.images.values.oci import OciDescriptor
from tests.unit.images.blobs.blobs import CONTENT, Ask, blob_of, serving
from tests.unit.images.file_server import Answer

HALF = len(CONTENT) // 2


class Sink:
    """Keeps the received bytes, and stops the pull after `stop_at` of them."""

    def __init__(self, stop_at: int = 1 << 60) -> None:
        self.data, self.said = bytearray(), [""][:0]
        self.stop, self.stop_at = threading.Event(), stop_at

    def __call__(self, chunk: bytes) -> None:
        self.data += chunk
        if len(self.data) >= self.stop_at:
            self.stop.set()


def pull(ask: Ask, sink: Sink, blob: OciDescriptor | None = None) -> Pull:
    return Pull(blob or blob_of(CONTENT), ask=ask, where="x", sink=sink, stop=sink.stop, tell=sink.said.append)


def test_a_complete_blob_is_passed_on_and_verified() -> None:
    with serving() as (server, ask):
        pull(ask, sink := Sink()).run()
        assert sink.data == CONTENT
        assert server.ranges == [""]


@pytest.mark.slow
def test_after_a_connection_that_broke_only_the_rest_is_asked_for() -> None:
    with serving() as (server, ask):
        server.answers = [Answer(cut_at=HALF)]
        pull(ask, sink := Sink()).run()
        assert sink.data == CONTENT
        first, second = server.ranges
        assert first == ""
        assert 0 < int(second.removeprefix("bytes=").removesuffix("-")) <= HALF


@pytest.mark.slow
def test_a_server_that_knows_no_ranges_sends_all_and_nothing_is_handed_on_twice() -> None:
    with serving() as (server, ask):
        server.answers = [Answer(cut_at=HALF), Answer(ignore_range=True)]
        pull(ask, sink := Sink()).run()
        assert sink.data == CONTENT


def test_a_partial_blob_is_resumed_unless_it_is_damaged() -> None:
    with serving() as (server, ask):
        whole, damaged = pull(ask, sink := Sink()), pull(ask, Sink())
        whole.resume(HALF, hashlib.sha256(CONTENT[:HALF]))
        whole.run()
        assert sink.data == CONTENT[HALF:]
        assert server.ranges == [f"bytes={HALF}-"]
        damaged.resume(HALF, hashlib.sha256(b"x" * HALF))
        with pytest.raises(VerificationError, match="the digest is"):
            damaged.run()


@pytest.mark.parametrize("more", [-1, 1])
def test_wrong_length_fails_before_any_byte_is_returned(more: int) -> None:
    with serving() as (_, ask):
        with pytest.raises(VerificationError, match="the server reports"):
            pull(ask, sink := Sink(), OciDescriptor("x", blob_of(CONTENT).digest, len(CONTENT) + more)).run()
        assert sink.data == b""


def test_excess_bytes_fail_if_the_server_sends_no_length() -> None:
    with serving() as (server, ask):
        server.answers = [Answer(chunked=True)]
        with pytest.raises(VerificationError, match="sent more than"):
            pull(ask, Sink(), OciDescriptor("x", blob_of(CONTENT).digest, HALF)).run()


def test_a_missing_blob_is_reported_at_once() -> None:
    with serving() as (server, ask):
        server.path = "/elsewhere"
        with pytest.raises(NotFoundError):
            pull(ask, Sink()).run()
        assert len(server.asked) == 1


def test_stops_when_no_one_needs_it() -> None:
    with serving() as (_, ask):
        with pytest.raises(Stopped) as stopped:
            pull(ask, sink := Sink(stop_at=1)).run()
        assert isinstance(stopped.value, RemoteError)
        assert 0 < len(sink.data) < len(CONTENT)
