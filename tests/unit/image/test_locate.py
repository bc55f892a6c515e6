from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from file_server import Answer, serve

from hpcmod.errors import RemoteError, VerificationError
from hpcmod.image.locate import fetch_image

BODY = b"an image" * 1000


def test_an_image_from_the_second_address_gets_its_name_and_nothing_else_stays(tmp_path: Path) -> None:
    final = tmp_path / "a.sif"
    with serve(BODY) as gone, serve(BODY) as server:
        gone.answers = [Answer(404)]
        assert fetch_image([gone.url, server.url], final, checksum=hashlib.sha256(BODY).hexdigest()) == final
    assert final.read_bytes() == BODY
    assert list(tmp_path.iterdir()) == [final]


def test_an_image_that_is_another_one_gets_no_name(tmp_path: Path) -> None:
    with serve(BODY) as server, pytest.raises(VerificationError):
        fetch_image([server.url], tmp_path / "a.sif", checksum="0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_an_image_that_is_nowhere_is_said_with_every_address(tmp_path: Path) -> None:
    with serve(BODY) as server:
        server.answers = [Answer(404), Answer(403)]
        with pytest.raises(RemoteError, match=r"no address gave a\.sif:\n.*404.*\n.*403"):
            fetch_image([server.url, server.url], tmp_path / "a.sif")
