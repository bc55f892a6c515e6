from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.images.squashfs.pack import Packed, pack_directory, unpack
from hpcmod.images.squashfs.reader import Squashfs


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
        packed = pack_directory(root, file, compression="gzip", mtime=1)
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


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """A squashfs with files of all sizes, a program, a link, and compiled modules."""
    source = tmp_path / "source"
    (source / "a/b/__pycache__").mkdir(parents=True)
    (source / "a/b/__pycache__/x.pyc").write_bytes(b"x")
    (source / "a/empty").write_bytes(b"")
    (source / "a/b/large").write_bytes(os.urandom(300_000) + bytes(300_000))
    (source / "a/b/small").write_text("small")
    (source / "c").write_text("#!/bin/sh\n")
    (source / "c").chmod(0o755)
    (source / "link").symlink_to("/somewhere/else")
    file = io.BytesIO()
    pack_directory(source, file, compression="gzip", mtime=0)
    path = tmp_path / "packed"
    path.write_bytes(file.getvalue())
    return path


def content(top: Path) -> dict[str, object]:
    paths = {str(path.relative_to(top)): path for path in top.rglob("*")}
    return {
        name: str(path.readlink()) if path.is_symlink() else (path.read_bytes(), path.stat().st_mode & 0o100)
        for name, path in paths.items()
        if path.is_symlink() or path.is_file()
    }


def test_packed_files_unpack_unchanged(tmp_path: Path, packed: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    with packed.open("rb") as file:
        assert unpack(file, target) == 5
    assert content(target) == content(tmp_path / "source")


def test_names_are_left_out_wherever_they_are(tmp_path: Path, packed: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    with packed.open("rb") as file:
        assert unpack(file, target, skipped=["__pycache__", "small"]) == 3
    everything = content(tmp_path / "source")
    assert content(target) == {
        name: kept for name, kept in everything.items() if not {"__pycache__", "small"} & set(Path(name).parts)
    }


def test_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x" * 200)
    with (tmp_path / "x").open("rb") as file, pytest.raises(BadInputError):
        unpack(file, tmp_path)
