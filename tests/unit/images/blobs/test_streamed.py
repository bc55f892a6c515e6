from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hpcmod.core.errors import VerificationError
from hpcmod.images.blobs.streamed import open_stream
from hpcmod.images.values.oci import OciDescriptor
from tests.unit.images.blobs.blobs import CONTENT, blob_of, serving
from tests.unit.images.file_server import Answer


@pytest.mark.parametrize("cut_at", [None, pytest.param(len(CONTENT) // 2, marks=pytest.mark.slow)])
def test_reads_a_blob_and_counts_it_while_nothing_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut_at: int | None
) -> None:
    monkeypatch.chdir(tmp_path)
    counted: list[int] = []
    with serving() as (server, ask):
        server.answers = [Answer(cut_at=cut_at)]
        with open_stream(blob_of(CONTENT), ask=ask, what="x", tell=lambda _: None, count=counted.append) as stream:
            assert stream.read() == CONTENT
        assert len(server.ranges) == (2 if cut_at else 1)
        assert counted == sorted(counted)
        assert counted[-1] == len(CONTENT)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_digest_fails_before_the_last_bytes_are_returned() -> None:
    wrong = OciDescriptor("x", f"sha256:{0:064x}", len(CONTENT))
    with serving() as (server, ask):
        server.path = f"/blobs/{wrong.digest}"
        with open_stream(wrong, ask=ask, what="x", tell=pytest.fail, count=lambda _: None) as stream:
            found = bytearray()
            for _ in range(2):  # reading on after the error returns no more bytes, either
                with pytest.raises(VerificationError, match="the digest is"):
                    while piece := stream.read(10_000):
                        found += piece
            assert len(found) < len(CONTENT)


@pytest.mark.slow
def test_a_reader_that_stops_ends_the_fetch() -> None:
    before = threading.active_count()
    with serving(CONTENT * 40) as (_, ask):
        running = threading.active_count()
        stream = open_stream(blob_of(CONTENT * 40), ask=ask, what="x", tell=pytest.fail, count=lambda _: None)
        assert stream.read(10) == CONTENT[:10]
        stream.close()
        for thread in threading.enumerate():
            if "_work" in thread.name:
                thread.join(10)
        assert not [thread for thread in threading.enumerate() if "_work" in thread.name and thread.is_alive()]
        assert running > before
