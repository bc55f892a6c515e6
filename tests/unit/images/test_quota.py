from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcmod.images import quota
from hpcmod.images.quota import Quota, make_quota, parse_lfs, read_quotas
from tests.programs import make_program

KIB = 1024
# the output format of `lfs quota -q -u USER DIRECTORY`, Lustre 2.15 manual, section 25.6
LINE = "/scratch 1048576  2097152 3145728       -     100       0     200       -\n"


@pytest.mark.parametrize(
    ("numbers", "left"),
    [
        ((10, 0, 0, 5, 0, 0), (None, None)),
        ((10, 0, 100, 5, 0, 50), (90, 45)),
        ((10, 60, 0, 5, 20, 0), (50, 15)),
        ((10, 60, 100, 5, 20, 50), (90, 45)),
        ((200, 0, 100, 60, 0, 50), (0, 0)),
    ],
)
def test_the_remaining_quota_is_up_to_the_hard_limit_and_never_negative(
    numbers: tuple[int, int, int, int, int, int], left: tuple[int | None, int | None]
) -> None:
    assert make_quota("user", numbers) == Quota("user", *left)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (LINE, (1048576 * KIB, 2097152 * KIB, 3145728 * KIB, 100, 0, 200)),
        (LINE.replace("1048576 ", "1048576*"), (1048576 * KIB, 2097152 * KIB, 3145728 * KIB, 100, 0, 200)),
        (
            LINE.replace("/scratch ", "/a/very/long/path\n       "),
            (1048576 * KIB, 2097152 * KIB, 3145728 * KIB, 100, 0, 200),
        ),
        ("", None),
        ("Permission denied.\n", None),
    ],
)
def test_lustres_tool_is_understood(text: str, found: tuple[int, ...] | None) -> None:
    assert parse_lfs(text) == found


def test_finds_no_quota_where_none_is_set(tmp_path: Path) -> None:
    assert all(one.bytes_left is None or one.bytes_left >= 0 for one in read_quotas(tmp_path))
    assert list(read_quotas(Path("/proc"))) == []


def test_falls_back_to_lfs_quota_on_lustre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool is a fake, because there is no Lustre here."""
    make_program(tmp_path / "lfs", f"#!/bin/sh\necho \"$@\" >>{tmp_path}/asked\nprintf '%s' '{LINE}'\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(quota, "_ask_kernel", lambda *_: None)
    monkeypatch.setattr(quota, "find_file_system", lambda _: "lustre")
    assert [one.name for one in read_quotas(tmp_path)] == ["user", "group"]
    assert next(iter(read_quotas(tmp_path))) == Quota("user", 2097152 * KIB, 100)
    assert f"quota -q -u {os.getuid()} {tmp_path}" in (tmp_path / "asked").read_text()


def test_without_lustres_tool_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(quota, "_ask_kernel", lambda *_: None)
    monkeypatch.setattr(quota, "find_file_system", lambda _: "lustre")
    assert list(read_quotas(tmp_path)) == []
