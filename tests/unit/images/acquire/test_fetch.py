from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hpcmod.core.errors import (
    BadInputError,
    BusyError,
    LackingError,
    NoSpaceError,
    NotFoundError,
    RemoteError,
    VerificationError,
)
from hpcmod.images.acquire import fetch as fetching
from hpcmod.images.acquire.fetch import FileRequest, fetch_file, note_of
from tests.unit.images.file_server import Answer, Server, serve

pytestmark = pytest.mark.slow

BODY = random.Random(2).randbytes(1_000_000)  # noqa: S311 - noise for a test, the same each time
SUM = hashlib.sha256(BODY).hexdigest()
CUT = Answer(cut_at=400_000)


@pytest.fixture
def server() -> Iterator[Server]:
    with serve(BODY) as running:
        yield running


@pytest.fixture
def partial(tmp_path: Path) -> Path:
    return tmp_path / "image.sif.part"


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def fetch(server: Server, partial: Path, waits: list[float]) -> Any:
    """Fetch the served file; waits are recorded instead of slept."""

    def call(url: str | None = None, **options: Any) -> str:
        asked = {name: options.pop(name) for name in FileRequest._fields if name in options}
        return fetch_file(FileRequest(url or server.url, partial, **asked), **{"sleep": waits.append, **options})

    return call


def break_off(fetch: Any, server: Server, partial: Path, **options: Any) -> int:
    """Fetch until the server disconnects and Ctrl-C interrupts the wait; return the size of the partial file."""

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    server.answers.append(Answer(cut_at=400_000, **options.pop("answer", {})))
    with pytest.raises(KeyboardInterrupt):
        fetch(sleep=interrupt, **options)
    return partial.stat().st_size


@pytest.mark.parametrize("answer", [Answer(), Answer(chunked=True)], ids=["plain", "chunks of unknown length"])
def test_fetches_a_file_and_verifies_it(fetch: Any, server: Server, partial: Path, answer: Answer) -> None:
    server.answers = [answer]
    assert fetch() == SUM
    assert partial.read_bytes() == BODY
    assert not note_of(partial).exists()


def test_resumes_where_the_connection_broke(fetch: Any, server: Server, partial: Path, waits: list[float]) -> None:
    server.answers = [CUT, CUT]
    assert fetch(checksum=SUM) == SUM
    assert partial.read_bytes() == BODY
    starts = [int(asked[6:-1]) for asked in server.ranges[1:]]
    assert 0 < starts[0] <= 400_000 < starts[1] <= 800_000
    assert waits == [1.0, 1.0]


def test_the_next_run_resumes_where_the_last_was_interrupted(fetch: Any, server: Server, partial: Path) -> None:
    left = break_off(fetch, server, partial)
    assert 0 < left <= 400_000
    assert fetch(checksum=SUM) == SUM
    assert server.ranges[-1] == f"bytes={left}-"
    assert server.asked[-1]["if-range"] == '"v1"'
    assert partial.read_bytes() == BODY
    assert not note_of(partial).exists()


@pytest.mark.parametrize(
    ("body", "etag", "answers"),
    [
        pytest.param(BODY[::-1], '"v2"', [], id="the file changed meanwhile"),
        pytest.param(BODY[::-1], '"v1"', [Answer(headers={"ETag": '"v2"'})], id="the condition is ignored"),
        pytest.param(BODY, '"v1"', [Answer(ignore_range=True)], id="the server cannot resume"),
        pytest.param(BODY, '"v1"', [Answer(shift=7)], id="the server sends another part"),
    ],
)
def test_what_is_not_the_rest_of_the_file_is_fetched_again(
    *, fetch: Any, server: Server, partial: Path, body: bytes, etag: str, answers: list[Answer]
) -> None:
    break_off(fetch, server, partial)
    server.body, server.etag, server.answers = body, etag, answers
    assert fetch() == hashlib.sha256(body).hexdigest()
    assert partial.read_bytes() == body


def test_a_file_without_a_name_for_its_version_is_resumed_only_against_a_checksum(
    fetch: Any, server: Server, partial: Path
) -> None:
    server.etag = ""
    left = break_off(fetch, server, partial)
    fetch()
    assert server.ranges[-1] == ""
    break_off(fetch, server, partial)
    assert fetch(checksum=SUM) == SUM
    assert server.ranges[-1] == f"bytes={left}-"


@pytest.mark.parametrize(("left", "asked"), [(bytes(400_000), ""), (BODY, f"bytes={len(BODY)}-")])
def test_a_complete_leftover_is_only_verified_and_a_wrong_one_is_fetched_again(
    *, fetch: Any, server: Server, partial: Path, left: bytes, asked: str
) -> None:
    break_off(fetch, server, partial)
    partial.write_bytes(left)
    assert fetch(checksum=SUM) == SUM
    assert server.ranges[-1] == asked
    assert partial.read_bytes() == BODY


@pytest.mark.parametrize("note", ["", "not json", "[]", '{"address": "of another file", "validator": "x"}'])
def test_a_leftover_of_another_blob_is_not_used(fetch: Any, server: Server, partial: Path, note: str) -> None:
    partial.write_bytes(BODY[::-1][:1000])
    note_of(partial).write_text(note)
    assert fetch(checksum=SUM) == SUM
    assert server.ranges == [""]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"cut_at": 300_000, "ignore_range": True}, id="always cut"),
        pytest.param({"cut_at": 300_000, "ignore_range": True, "chunked": True}, id="always cut, in chunks"),
        pytest.param({"length": 2_000_000, "ignore_range": True}, id="says more than it sends"),
    ],
)
def test_a_truncated_answer_is_never_mistaken_for_whole(
    fetch: Any, server: Server, partial: Path, waits: list[float], answer: dict[str, Any]
) -> None:
    server.answers = [Answer(**answer) for _ in range(20)]
    with pytest.raises(RemoteError, match="gave up after 5 attempts") as caught:
        fetch()
    assert caught.value.cure
    assert len(waits) < 10
    assert waits[-4:] == [1.0, 2.0, 4.0, 8.0]


def test_an_answer_of_unknown_length_needs_a_checksum(fetch: Any, server: Server) -> None:
    server.answers = [Answer(length=-1), Answer(length=-1), Answer(length=-1, cut_at=1000)]
    with pytest.raises(RemoteError, match="does not send the file's length") as caught:
        fetch()
    assert "checksums" in caught.value.cure
    assert fetch(checksum=SUM) == SUM
    with pytest.raises(VerificationError):
        fetch(checksum=SUM)


def test_a_wrong_checksum_leaves_nothing(fetch: Any, server: Server, partial: Path) -> None:
    with pytest.raises(VerificationError, match=f"sha256 is {SUM}, expected {'0' * 64}"):
        fetch(checksum="0" * 64)
    assert not partial.exists()
    assert not note_of(partial).exists()
    assert len(server.asked) == 1


@pytest.mark.parametrize("url", ["http://192.0.2.1/x.sif", "ftp://host/x", "x.sif", "https:///x", "https://[x/y", ""])
def test_addresses_that_are_not_fetched_are_refused(fetch: Any, url: str, partial: Path) -> None:
    with pytest.raises(BadInputError):
        fetch_file(FileRequest(url, partial))


def test_no_message_holds_a_key(fetch: Any, server: Server, partial: Path) -> None:
    url = server.url.replace("://", "://user:hunter2@") + "?token=hunter2"
    server.answers = [Answer(404)]
    with pytest.raises(NotFoundError) as caught:
        fetch(url)
    server.answers = [Answer(500)] * 5
    with pytest.raises(RemoteError) as again:
        fetch(url)
    with pytest.raises(VerificationError) as wrong:
        fetch(url, checksum="0" * 64)
    assert "hunter2" not in f"{caught.value}{again.value}{wrong.value}"
    assert f"{server.port}/image.sif?..." in wrong.value.message


def test_the_note_holds_no_key(fetch: Any, server: Server, partial: Path) -> None:
    break_off(fetch, server, partial, url=server.url + "?token=hunter2")
    note = note_of(partial).read_text()
    assert "hunter2" not in note
    assert json.loads(note)["validator"] == '"v1"'


@pytest.mark.parametrize(
    ("blocks", "files", "said"), [(1, 0, "1000000 bytes needed, 4096 bytes free"), (10**9, 9, "1 files needed, 0 free")]
)
def test_says_at_once_when_it_cannot_fit(
    fetch: Any, monkeypatch: pytest.MonkeyPatch, blocks: int, files: int, said: str
) -> None:
    left = SimpleNamespace(f_bavail=blocks, f_frsize=4096, f_files=files, f_favail=0)
    monkeypatch.setattr(os, "statvfs", lambda _: left)
    with pytest.raises(NoSpaceError, match=said):
        fetch()


def test_a_disk_that_fills_up_leaves_no_files(fetch: Any, partial: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NoSpaceError):
        fetch()
    assert not partial.exists()
    assert not note_of(partial).exists()


def test_a_missing_directory_is_reported(server: Server, tmp_path: Path) -> None:
    with pytest.raises(LackingError, match="No such file"):
        fetch_file(FileRequest(server.url, tmp_path / "none" / "x"))


def test_two_at_once_do_not_mix(fetch: Any, partial: Path) -> None:
    with note_of(partial).open("a") as note:
        fcntl.flock(note, fcntl.LOCK_EX)
        with pytest.raises(BusyError, match="another process"):
            fetch()
    assert fetch() == SUM


@pytest.mark.parametrize("parts", [True, False])
def test_a_whole_file_whose_note_was_kept_is_not_fetched_again_while_it_is_the_same(
    *, fetch: Any, server: Server, partial: Path, parts: bool
) -> None:
    assert fetch(keep_note=True) == SUM
    assert note_of(partial).exists()
    server.answers = [Answer(ignore_range=not parts)]
    assert fetch(keep_note=True) == SUM
    assert server.ranges[-1] == f"bytes={len(BODY)}-"
    server.answers, server.etag, server.body = [Answer(ignore_range=not parts)], '"v2"', BODY[::-1]
    assert fetch(keep_note=True) != SUM
    assert partial.read_bytes() == BODY[::-1]


def test_progress_ends_with_all_bytes(fetch: Any) -> None:
    told: list[tuple[int, int]] = []
    fetch(progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (len(BODY), len(BODY))


@pytest.mark.parametrize("chunked", [True, False])
def test_refuses_a_file_that_is_not_a_sif_by_its_first_bytes(
    fetch: Any, server: Server, partial: Path, chunked: bool
) -> None:
    def refuse(head: bytes) -> None:
        assert head == BODY[:4096]
        assert not partial.stat().st_size
        raise BadInputError("not a SIF")

    server.answers = [Answer(chunked=chunked)]
    with pytest.raises(BadInputError, match="not a SIF"):
        fetch(check_head=refuse, checksum=SUM)
    assert not partial.exists()


def test_a_body_without_a_length_is_limited(
    fetch: Any, server: Server, partial: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "LARGEST_OF_UNKNOWN_LENGTH", 500_000)
    server.answers = [Answer(chunked=True)]
    with pytest.raises(RemoteError, match="without sending the file's length"):
        fetch(checksum=SUM)
    assert not partial.exists()
    fetch(checksum=SUM)
