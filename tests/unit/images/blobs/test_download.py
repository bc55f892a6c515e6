from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from hpcmod.core.errors import HpcmodError, NotFoundError, VerificationError
from hpcmod.core.progress import Tally
from hpcmod.images.blobs.download import Downloads
from hpcmod.images.cache import Cache
from hpcmod.images.values.oci import OciDescriptor
from tests.unit.images.blobs.blobs import CONTENT, Ask, blob_of, serving
from tests.unit.images.file_server import Answer, Server

BLOB = blob_of(CONTENT)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    made = Cache(tmp_path / "cache")
    made.prepare()
    return made


@contextmanager
def downloads(cache: Cache, ask: Ask, *blobs: OciDescriptor) -> Iterator[Downloads]:
    tally = Tally("x", {blob.digest: blob.size for blob in blobs})
    with Downloads(cache, ask, blobs=blobs, tally=tally, tell=lambda _: None) as made:
        yield made


@contextmanager
def many(contents: list[bytes]) -> Iterator[tuple[list[Server], Ask]]:
    """Serve each blob from its own server."""
    with ExitStack() as stack:
        found = [stack.enter_context(serving(content)) for content in contents]
        by_path = {server.path: ask for server, ask in found}
        yield [server for server, _ in found], lambda path, headers: by_path[f"/{path}"](path, headers)


def test_a_blob_is_read_while_it_arrives_and_then_is_in_the_cache(cache: Cache) -> None:
    with serving() as (_, ask):
        with downloads(cache, ask, BLOB) as made, made.open(BLOB) as stream:
            assert stream.read() == CONTENT
            made.wait(BLOB)
        assert cache.path(BLOB.digest).read_bytes() == CONTENT
        assert not cache.partial(BLOB.digest).exists()


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize(
    ("left", "ranges"),
    [
        pytest.param(CONTENT[:1000], ["bytes=1000-"], id="of an interrupted fetch"),
        pytest.param(b"x" * 1000, ["bytes=1000-", ""], id="wrong, so discarded"),
        pytest.param(CONTENT + b"x", [""], id="longer than the blob"),
        pytest.param(CONTENT, [], id="whole, so only verified"),
    ],
)
def test_resumes_from_leftovers_unless_it_is_cached(cache: Cache, left: bytes, ranges: list[str], cached: bool) -> None:
    cache.partial(BLOB.digest).write_bytes(left)
    if cached:
        cache.store(BLOB.digest, CONTENT)
    with serving() as (server, ask):
        with downloads(cache, ask, BLOB) as made:
            made.wait(BLOB)
            with made.open(BLOB) as stream:
                assert stream.read() == CONTENT
        assert server.ranges == ([] if cached else ranges)
    assert cache.path(BLOB.digest).read_bytes() == CONTENT


def test_several_readers_ask_each_server_once(cache: Cache) -> None:
    contents = [CONTENT[number:] for number in range(7)]
    blobs = [blob_of(content) for content in contents]
    with many(contents) as (servers, ask), downloads(cache, ask, *blobs) as made:
        found: dict[str, bytes] = {}

        def read(blob: OciDescriptor) -> None:
            with made.open(blob) as stream:
                found[blob.digest] = stream.read()

        threads = [threading.Thread(target=read, args=[blob]) for blob in [*blobs, blobs[0]]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert [found[blob.digest] for blob in blobs] == contents
        assert [len(server.asked) for server in servers] == [1] * 7


def test_one_that_is_wrong_is_an_error_and_leaves_nothing_under_its_name(cache: Cache) -> None:
    wrong = OciDescriptor("x", f"sha256:{0:064x}", len(CONTENT))
    with serving() as (server, ask):
        server.path = f"/blobs/{wrong.digest}"
        with downloads(cache, ask, wrong) as made:
            for _ in range(2):  # later readers get the error, too
                with pytest.raises(VerificationError, match="the digest is"):
                    made.wait(wrong)
    assert not cache.path(wrong.digest).exists()
    assert not cache.partial(wrong.digest).exists()


def test_a_missing_blob_is_an_error_for_each_waiting_reader(cache: Cache) -> None:
    gone = blob_of(b"gone")
    with serving() as (server, ask), downloads(cache, ask, gone, BLOB) as made:
        server.path = "/nothing"
        for blob in (gone, BLOB):
            with pytest.raises(NotFoundError):
                made.wait(blob)


@pytest.mark.slow
def test_keeps_bytes_received_before_a_refusal_for_the_next_run(cache: Cache) -> None:
    with serving() as (server, ask):
        server.answers = [Answer(cut_at=len(CONTENT) // 2), Answer(403)]
        with downloads(cache, ask, BLOB) as made, pytest.raises(HpcmodError):
            made.wait(BLOB)
    left = cache.size_of_partial(BLOB.digest)
    assert 0 < left <= len(CONTENT) // 2
    assert cache.partial(BLOB.digest).read_bytes() == CONTENT[:left]


@pytest.mark.slow
def test_a_reader_that_stops_ends_the_fetch(cache: Cache) -> None:
    with serving(CONTENT * 40) as (_, ask):
        with downloads(cache, ask, blob_of(CONTENT * 40)) as made, made.open(blob_of(CONTENT * 40)) as stream:
            assert stream.read(10) == CONTENT[:10]
        assert not [thread for thread in threading.enumerate() if "_work" in thread.name]
