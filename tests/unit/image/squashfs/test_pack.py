from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcmod.errors import BadInputError
from hpcmod.image.squashfs.codecs import codec
from hpcmod.image.squashfs.pack import Packed, pack_directory
from hpcmod.image.squashfs.reader import Squashfs


def make_tree(top: Path) -> Path:
    (top / "bin").mkdir(parents=True)
    (top / "bin/run").write_text("#!/bin/sh\n")
    (top / "bin/run").chmod(0o700)
    (top / "data").write_bytes(b"x" * 300_000)
    (top / "link").symlink_to("/nowhere")
    (top / "empty").mkdir()
    return top


def pack(root: Path) -> tuple[Packed, bytes]:
    path = root.with_suffix(".squashfs")
    with path.open("x+b") as file:
        packed = pack_directory(root, file, codec=codec("gzip"), mtime=1)
    return packed, path.read_bytes()


def test_a_directory_is_packed_with_its_links_and_modes(tmp_path: Path) -> None:
    packed, content = pack(make_tree(tmp_path / "tree"))
    assert packed == Packed(len(content), 5, 300_010)
    with (tmp_path / "tree.squashfs").open("rb") as file:
        found = Squashfs(file, 0, len(content))
        assert sorted(found.listdir("/")) == ["bin", "data", "empty", "link"]
        assert found.read_bytes("/data", 1 << 20) == b"x" * 300_000
        run, data = (found.find(path) for path in ("/bin/run", "/data"))
    assert run is not None
    assert data is not None
    assert (run.mode & 0o777, data.mode & 0o777) == (0o755, 0o644)


def test_equal_files_give_equal_bytes(tmp_path: Path) -> None:
    one, other = make_tree(tmp_path / "one"), make_tree(tmp_path / "other")
    (other / "data").chmod(0o600)
    os.utime(other / "data", (5, 5))
    assert pack(one) == pack(other)


def test_other_kinds_of_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(BadInputError, match="fifo"):
        pack(tmp_path)
