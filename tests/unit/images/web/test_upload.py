"""Request bodies; tests/integration/test_push.py sends them to a real registry."""

from __future__ import annotations

from io import BytesIO

from hpcmod.images.web.upload import Counted


def test_the_bytes_of_a_file_are_counted_as_they_are_read() -> None:
    seen: list[int] = []
    body = Counted(BytesIO(b"12345"), 5, seen.append)
    assert (len(body), body.read(2), body.read(), seen) == (5, b"12", b"345", [2, 5])


def test_a_body_is_sent_again_from_its_first_byte() -> None:
    seen: list[int] = []
    body = Counted(BytesIO(b"12345"), 5, seen.append)
    body.read()
    body.rewind()
    assert (body.read(3), seen) == (b"123", [5, 3])
