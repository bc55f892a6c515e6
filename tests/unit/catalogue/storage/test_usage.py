from __future__ import annotations

import os
import shutil
import stat
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.catalogue.records.sharing import make_catalogue
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.storage import usage
from hpcmod.catalogue.storage.usage import fold, read_counts
from hpcmod.core.errors import BadInputError, LackingError
from tests.unit.catalogue.stage import killed_at, load, make_shop

pytestmark = pytest.mark.slow

MAY, JUNE = 1_778_000_000.0, 1_780_500_000.0
US, GROUP = str(os.getuid()), str(os.getgid())


@pytest.fixture
def shop(tmp_path: Path) -> Catalogue:
    shop = make_shop(tmp_path / "shop", "Toy/1.0", counts_use=True)
    load(shop, "Toy/1.0", MAY)
    load(shop, "Toy/1.0", MAY + 5)
    load(shop, "Toy/1.0", JUNE)
    return shop


def rows(shop: Catalogue) -> list[tuple[str, str, str, str, int]]:
    return [(one.module, one.month, one.group, one.user, one.loads) for one in read_counts(shop)]


def test_loads_are_counted_by_month_group_and_user(shop: Catalogue) -> None:
    assert rows(shop) == [("Toy/1.0", "2026-05", GROUP, US, 2), ("Toy/1.0", "2026-06", GROUP, US, 1)]
    assert read_counts(shop)[0].last == MAY + 5


def test_no_user_may_list_change_or_remove_what_others_loaded(shop: Catalogue) -> None:
    mode = shop.loads.stat().st_mode
    assert mode & stat.S_ISVTX
    assert mode & 0o007 == 0o003
    assert not mode & stat.S_ISGID
    make_catalogue(replace(shop))
    assert shop.loads.stat().st_mode == mode


def test_totals_count_the_same_without_the_files_and_forget_users(shop: Catalogue) -> None:
    before = rows(shop)
    assert fold(shop, keep_users=True) == 3
    assert (rows(shop), list(shop.loads.iterdir())) == (before, [])
    load(shop, "Toy/1.0", JUNE)
    assert fold(shop, keep_users=False) == 1
    assert rows(shop) == [("Toy/1.0", "2026-05", GROUP, "", 2), ("Toy/1.0", "2026-06", GROUP, "", 2)]
    assert (shop.usage / "totals.json").stat().st_mode & 0o007 == 0


def test_adding_up_that_is_killed_loses_no_load_and_counts_none_twice(tmp_path: Path, shop: Catalogue) -> None:
    before = rows(shop)
    for step in range(1, 60):
        copy = replace(shop, directory=tmp_path / f"killed-{step}")
        shutil.copytree(shop.directory, copy.directory)
        if not killed_at(step, lambda copy=copy: fold(copy, keep_users=True)):
            break
        assert rows(copy) == before, step
        fold(copy, keep_users=True)
        assert (rows(copy), list(copy.loads.iterdir())) == (before, []), step
    assert step > 10


def test_files_that_loading_does_not_create_are_ignored(shop: Catalogue) -> None:
    before = rows(shop)
    digits = "0" * 32
    (shop.loads / f"Toy@1.0@{digits}").symlink_to("/etc/passwd")
    os.mkfifo(shop.loads / f"Toy@1.1@{digits}")
    (shop.loads / f"Toy@1.2@{digits}").hardlink_to(
        next(path for path in shop.loads.glob("Toy@1.0@*") if not path.is_symlink())
    )
    (shop.loads / "nonsense").touch()
    (shop.loads / f"@@{digits}").touch()
    assert sum(row[-1] for row in rows(shop)) == sum(row[-1] for row in before) - 1  # this file now has two names


def test_files_that_any_user_can_forge_are_ignored(shop: Catalogue) -> None:
    before = rows(shop)
    for name in ("a\nb@1", "None@1.0", "Toy@9", "Toy\x1b[2J@1.0"):
        load(shop, name.replace("@", "/"), MAY)
    load(shop, "Toy/1.0", -1e9)
    assert rows(shop) == before
    load(shop, "Toy/1.0", time.time() + 1e9)
    assert read_counts(shop)[-1].last <= time.time()
    (shop.loads / "anything").mkdir()
    fold(shop, keep_users=True)
    assert list(shop.loads.iterdir()) == []


def test_totals_behind_a_link_are_not_read(shop: Catalogue, tmp_path: Path) -> None:
    fold(shop, keep_users=True)
    (shop.usage / "totals.json").rename(tmp_path / "totals.json")
    (shop.usage / "totals.json").symlink_to(tmp_path / "totals.json")
    with pytest.raises(BadInputError, match="symbolic link"):
        read_counts(shop)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list everything")
def test_a_user_who_cannot_list_loads_learns_whom_to_ask(shop: Catalogue) -> None:
    fold(shop, keep_users=True)
    for closed, mode in ((shop.usage / "totals.json", 0), (shop.loads, 0o1333)):
        before = closed.stat().st_mode
        closed.chmod(mode)
        with pytest.raises(LackingError, match="only admins of"):
            read_counts(shop)
        closed.chmod(before)


def test_only_the_owner_may_fold(shop: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage.os, "geteuid", lambda: 4711)  # type: ignore[attr-defined]
    with pytest.raises(LackingError, match="can remove files from"):
        fold(shop, keep_users=True)


def test_totals_are_not_written_behind_a_link(shop: Catalogue, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    shop.usage.rename(tmp_path / "moved")
    shop.usage.symlink_to(tmp_path / "home")
    (tmp_path / "home/loads").mkdir()
    with pytest.raises(BadInputError, match="symbolic link"):
        fold(shop, keep_users=True)
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["loads"]
