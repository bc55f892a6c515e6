from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcmod.images import quota
from hpcmod.images.quota import SpaceLeft, parse_lfs, read_quotas
from tests.programs import make_program

KIB = 1024
# the output format of `lfs quota -q -u USER DIRECTORY`, Lustre 2.15 manual, section 25.6
LINE = "/scratch 1048576  2097152 3145728       -     100       0     200       -\n"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (LINE, (2097152 * KIB, 100)),
        (LINE.replace("3145728", "0"), (1048576 * KIB, 100)),
        (LINE.replace("1048576 ", "9999999*"), (0, 100)),
        (LINE.replace("3145728", "0").replace("2097152", "0"), (None, 100)),
        (LINE.replace("/scratch ", "/a/very/long/path\n       "), (2097152 * KIB, 100)),
        ("", (None, None)),
        ("Permission denied.\n", (None, None)),
    ],
)
def test_lustres_tool_is_understood(text: str, left: tuple[int | None, int | None]) -> None:
    assert parse_lfs(text) == left


def test_asks_lfs_on_lustre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool is a fake, because there is no Lustre here."""
    assert list(read_quotas(tmp_path)) == []
    make_program(tmp_path / "lfs", f"#!/bin/sh\necho \"$@\" >>{tmp_path}/asked\nprintf '%s' '{LINE}'\n")
    monkeypatch.setattr(quota, "find_file_system", lambda _: "lustre")
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert list(read_quotas(tmp_path)) == []
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    user, group = read_quotas(tmp_path)
    assert user == SpaceLeft(2097152 * KIB, 100, "left of the user quota")
    assert group.of == "left of the group quota"
    assert f"quota -q -u {os.getuid()} {tmp_path}" in (tmp_path / "asked").read_text()
