from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from hpcmod.core.errors import NoSpaceError
from hpcmod.core.fs import space
from hpcmod.core.fs.space import Need, SpaceLeft, check_room, parse_lfs, read_quotas
from tests.programs import make_program

MB = 10**6
KIB = 1024
# the output format of `lfs quota -q -u USER DIRECTORY`, Lustre 2.15 manual, section 25.6
LINE = "/scratch 1048576  2097152 3145728       -     100       0     200       -\n"


@pytest.fixture(autouse=True)
def disk(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Report 100 MB and 50 files free for every file system."""
    said = SimpleNamespace(f_bavail=100, f_frsize=MB, f_files=1000, f_favail=50)
    monkeypatch.setattr(os, "statvfs", lambda _: said)
    return said


def need(directory: Path, size: int, inodes: int = 1, what: str = "the layers") -> Need:
    return Need(directory, size, inodes, what, f"choose another place for {what}: X=DIRECTORY")


def check(*needs: Need) -> None:
    check_room(needs)


def test_accepts_what_fits_exactly(tmp_path: Path) -> None:
    check(need(tmp_path, 100 * MB, 50))
    check()


def test_refuses_work_without_space_with_numbers_and_a_setting(tmp_path: Path) -> None:
    with pytest.raises(NoSpaceError) as caught:
        check(need(tmp_path, 100 * MB + 1))
    assert caught.value.message == (
        f"{tmp_path}: no space: 100000001 bytes (0.1 GB) needed, 100000000 bytes (0.1 GB) free "
        "(the layers 100000001 bytes (0.1 GB))"
    )
    assert caught.value.cure == "Free some space there, or choose another place for the layers: X=DIRECTORY."


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NoSpaceError, match="51 files needed, 50 free"):
        check(need(tmp_path, 1, 51))


def test_files_that_are_not_counted_have_no_limit(tmp_path: Path, disk: SimpleNamespace) -> None:
    disk.f_files = disk.f_favail = 0
    check(need(tmp_path, 1, 10**9))


def test_needs_on_one_file_system_are_added(tmp_path: Path) -> None:
    cache, target = tmp_path / "cache", tmp_path / "target"
    with pytest.raises(NoSpaceError, match=r"120000000 bytes \(0.1 GB\) needed") as caught:
        check(need(cache, 60 * MB), need(target, 60 * MB, what="the SIF"))
    assert "the layers 60000000 bytes, the SIF 60000000 bytes" in caught.value.message
    assert "for the layers: X=DIRECTORY; or choose another place for the SIF" in caught.value.cure


def test_needs_on_two_file_systems_are_not_added(tmp_path: Path) -> None:
    other = Path("/dev/shm")
    assert other.stat().st_dev != tmp_path.stat().st_dev
    check(need(tmp_path, 60 * MB), need(other, 60 * MB))


def test_a_missing_directory_is_checked_by_its_nearest_parent(tmp_path: Path) -> None:
    check(need(tmp_path / "not" / "yet", 100 * MB))
    with pytest.raises(NoSpaceError, match="not/yet: no space"):
        check(need(tmp_path / "not" / "yet", 101 * MB))


@pytest.mark.parametrize(
    ("quota", "says"),
    [
        (SpaceLeft(9 * MB, None, "left of the user quota"), "9000000 bytes left of the user quota"),
        (SpaceLeft(None, 0, "left of the group quota"), "1 files needed, 0 left of the group quota"),
        (SpaceLeft(None, None, "left of the user quota"), ""),
    ],
)
def test_a_quota_counts_as_free_space_does(
    tmp_path: Path, quota: SpaceLeft, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space, "read_quotas", lambda _: [quota])
    with pytest.raises(NoSpaceError, match=says) if says else nullcontext():
        check(need(tmp_path, 10 * MB))


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
    monkeypatch.setattr(space, "find_file_system", lambda _: "lustre")
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert list(read_quotas(tmp_path)) == []
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    user, group = read_quotas(tmp_path)
    assert user == SpaceLeft(2097152 * KIB, 100, "left of the user quota")
    assert group.of == "left of the group quota"
    assert f"quota -q -u {os.getuid()} {tmp_path}" in (tmp_path / "asked").read_text()
