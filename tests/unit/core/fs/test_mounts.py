"""Finding the file system of a path: the last mount above it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.fs import mounts
from hpcmod.core.fs.mounts import find_file_system


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ("disk / ext4 rw 0 0\n10.0.0.1@tcp:/scratch {} lustre rw 0 0\n", "lustre"),
        ("10.0.0.1@tcp:/scratch / lustre rw 0 0\ndisk {} ext4 rw 0 0\n", "ext4"),
        ("disk / ext4 rw 0 0\n10.0.0.1@tcp:/scratch {}-other lustre rw 0 0\n", "ext4"),
        ("disk / ext4 rw 0 0\nserver:/x {}/a\\040b nfs4 rw 0 0\n", "nfs4"),
        ("", ""),
        ("nonsense\n", ""),
    ],
)
def test_the_last_mount_above_a_path_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, kind: str
) -> None:
    (tmp_path / "mounts").write_text(table.format(tmp_path))
    (tmp_path / "a b").mkdir()
    monkeypatch.setattr(mounts, "_MOUNTS", tmp_path / "mounts")
    assert find_file_system(tmp_path / "a b") == kind


def test_without_a_table_of_mounts_it_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "_MOUNTS", tmp_path / "missing")
    assert find_file_system(tmp_path) == ""
