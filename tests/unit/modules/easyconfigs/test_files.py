from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcmod.core.errors import HpcmodError
from hpcmod.modules.easyconfigs.files import read_recipe


def test_refuses_binary_too_large_or_missing_files(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_bytes(b" " * (5 << 20))
    os.mkfifo(tmp_path / "pipe")
    for name in ("bytes", "large", "absent", ".", "pipe"):
        with pytest.raises(HpcmodError):
            read_recipe(tmp_path / name)
