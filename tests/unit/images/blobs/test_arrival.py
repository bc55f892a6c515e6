from __future__ import annotations

import os
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

import pytest

from hpcmod.core.errors import RemoteError, VerificationError
from hpcmod.images.blobs.arrival import Arrival, open_growing
from hpcmod.images.values.oci import OciDescriptor

BLOB = OciDescriptor("application/octet-stream", f"sha256:{0:064x}", 10)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The bytes that a writer has written so far; the test is the writer."""
    path = tmp_path / "growing"
    path.write_bytes(b"0123456789")
    return path


@pytest.fixture
def arrival() -> Arrival:
    return Arrival(BLOB)


@pytest.fixture
def stream(arrival: Arrival, file: Path) -> BinaryIO:
    return open_growing(arrival, os.open(file, os.O_RDONLY))


def read_apart(stream: BinaryIO) -> tuple[threading.Thread, list[bytes]]:
    """Read everything in another thread, one byte at a time."""
    found: list[bytes] = []

    def read() -> None:
        while byte := stream.read(1):
            found.append(byte)

    thread = threading.Thread(target=read)
    thread.start()
    return thread, found


@pytest.mark.parametrize(
    ("written", "before"),
    [pytest.param(4, b"0123", id="waits for the rest"), pytest.param(10, b"012345678", id="and for the verification")],
)
def test_a_reader_gets_the_available_bytes_and_the_last_one_when_all_is_verified(
    arrival: Arrival, stream: BinaryIO, written: int, before: bytes
) -> None:
    arrival.set(done=written)
    thread, found = read_apart(stream)
    thread.join(0.05)
    assert thread.is_alive()
    assert b"".join(found) == before
    arrival.set(done=10, whole=True)
    thread.join()
    assert b"".join(found) == b"0123456789"
    stream.close()


def test_an_error_of_the_writer_is_raised_for_the_reader(arrival: Arrival, stream: BinaryIO) -> None:
    arrival.set(done=4, error=RemoteError("broken"))
    with stream, pytest.raises(RemoteError, match="broken"):
        stream.read(1)


@pytest.mark.parametrize("read", [0, 4])
def test_new_bytes_are_taken_unless_some_were_read_that_proved_wrong(
    arrival: Arrival, stream: BinaryIO, read: int
) -> None:
    arrival.set(done=4, generation=1)
    assert stream.read(read) == b"0123456789"[:read]
    arrival.set(done=10, whole=True, generation=2)
    with stream, pytest.raises(VerificationError, match="was damaged") if read else nullcontext():
        assert stream.read() == b"0123456789"


def test_a_file_truncated_while_being_read_is_an_error(arrival: Arrival, stream: BinaryIO, file: Path) -> None:
    arrival.set(done=8)
    os.truncate(file, 0)
    with stream, pytest.raises(VerificationError):
        stream.read(8)
