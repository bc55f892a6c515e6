"""Files that a member of a catalogue's group could plant: nothing hangs, and nothing elsewhere is read or changed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from hpcmod.catalogue.admin.gc import find_unused, remove_unused
from hpcmod.catalogue.change import changing, refresh_index
from hpcmod.catalogue.records.index import read_index
from hpcmod.catalogue.records.journal import append_change, last_change, read_journal
from hpcmod.catalogue.records.sharing import check_readable_by_readers, check_replaceable, check_writable
from hpcmod.catalogue.records.store import Catalogue, open_catalogue
from hpcmod.catalogue.values.journal import Change
from hpcmod.catalogue.visible.advisories import read_advisories
from hpcmod.catalogue.visible.kept import read_kept_text
from hpcmod.core.errors import BadInputError, LackingError
from tests.unit.catalogue.stage import ADA, make_shop

pytestmark = pytest.mark.slow

HOUR = 3600.0


@pytest.fixture
def shop(tmp_path: Path) -> Catalogue:
    return make_shop(tmp_path / "shop", "Toy/1.0", counts_use=True)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory of the user outside of the catalogue."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home/thesis").write_text("text")
    os.utime(tmp_path / "home/thesis", (0, 0))
    return tmp_path / "home"


def plant(path: Path, kind: str, home: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(home / "thesis")
    else:
        with path.open("wb") as file:
            file.truncate(100 << 30)


READERS: dict[str, Callable[[Catalogue], object]] = {
    "catalogue.json": lambda shop: open_catalogue(shop.directory),
    "records/Toy/1.0.json": lambda shop: list(shop.records()),
    "journal.jsonl": lambda shop: read_journal(shop.directory),
    "pending.json": lambda shop: changing(shop, ADA).__enter__(),
}


@pytest.mark.parametrize("kind", ["fifo", "link", "huge"])
@pytest.mark.parametrize("name", READERS)
def test_a_reader_learns_which_file_is_in_the_way(shop: Catalogue, home: Path, name: str, kind: str) -> None:
    plant(shop.directory / name, kind, home)
    with pytest.raises((BadInputError, OSError), match=r"FIFO|symbolic link|at most"):
        READERS[name](shop)


@pytest.mark.parametrize("kind", ["fifo", "link", "huge"])
def test_a_file_that_is_not_an_index_is_ignored(shop: Catalogue, home: Path, kind: str) -> None:
    with changing(shop, ADA):
        refresh_index(shop, ADA)
    (index,) = shop.directory.glob("index*")
    plant(index, kind, home)
    assert [entry.module for entry in read_index(shop).entries] == ["Toy/1.0"]


@pytest.mark.parametrize("kind", ["fifo", "link", "huge"])
def test_an_invalid_advisory_is_an_error_among_the_others(shop: Catalogue, home: Path, kind: str) -> None:
    plant(shop.advisories / "x.toml", kind, home)
    assert [isinstance(one, BadInputError) for one in read_advisories([shop])] == [True]


@pytest.mark.parametrize("kind", ["fifo", "link", "huge"])
def test_a_change_is_not_written_through_planted_links(shop: Catalogue, home: Path, kind: str) -> None:
    plant(shop.directory / "journal.jsonl", kind, home)
    change = Change(1, "2026-11-22T00:00:00Z", "ada", "note", "", ())
    for act in (lambda: append_change(shop.directory, change, mode=0o644), lambda: last_change(shop.directory)):
        with pytest.raises(OSError, match=r"FIFO|symbolic link|at most"):
            act()
    assert (home / "thesis").read_text() == "text"


@pytest.mark.parametrize("place", ["software/Old", "software", "images", "kept/Old"])
def test_gc_follows_no_link(shop: Catalogue, home: Path, place: str) -> None:
    path = shop.directory / place
    if path.is_dir():
        path.rename(home.parent / "moved")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(home)
    later = time.time() + 90 * 24 * HOUR
    assert "thesis" not in "".join(one.what for one in find_unused(shop, days=30, now=later))
    with suppress(LackingError):  # refused if it is one of the catalogue's own directories
        remove_unused(shop, days=30, now=later, actor=ADA)
    assert (home / "thesis").read_text() == "text"


@pytest.mark.parametrize("place", ["records/Toy", "modules", "easyconfigs"])
def test_a_change_follows_no_link(shop: Catalogue, home: Path, place: str) -> None:
    with changing(shop, ADA):
        refresh_index(shop, ADA)
    path = shop.directory / place
    if path.is_dir():
        path.rename(home.parent / "moved")
    path.symlink_to(home)
    with pytest.raises((BadInputError, LackingError, OSError), match="symbolic link"):
        with changing(shop, ADA):
            refresh_index(shop, ADA)
        shop.tree.write(shop.record_path("Toy", "1.0"), "x")
    assert [path.name for path in home.iterdir()] == ["thesis"]


@pytest.mark.parametrize("place", ["software", "kept", "images", "modules/all", ".locks"])
def test_no_change_begins_where_a_directory_is_a_link(shop: Catalogue, home: Path, place: str) -> None:
    path = shop.directory / place
    path.rename(path.with_name("former"))
    path.symlink_to(home)
    with pytest.raises(LackingError, match=r"is a symbolic link or below one"):
        check_writable(shop)


def test_gc_removes_nothing_behind_a_link_in_place_of_its_trash(shop: Catalogue, home: Path) -> None:
    (shop.directory / ".trash").symlink_to(home)
    with pytest.raises(LackingError, match="symbolic link"):
        remove_unused(shop, days=0, now=time.time(), actor=ADA)
    assert (home / "thesis").read_text() == "text"


@pytest.mark.parametrize("place", ["software/New", "software/New/1", "kept/New"])
def test_nothing_is_replaced_behind_a_link(shop: Catalogue, home: Path, place: str) -> None:
    (shop.directory / place).parent.mkdir(exist_ok=True)
    (shop.directory / place).symlink_to(home)
    with pytest.raises(LackingError, match="symbolic link"):
        check_replaceable(shop, shop.directory / place.split("/")[0] / "New/1")
    assert (home / "thesis").read_text() == "text"


@pytest.mark.parametrize(
    ("root", "directory", "file", "is_read"),
    [
        (0o2775, 0o755, 0o644, True),
        (0o2775, 0o700, 0o644, False),
        (0o2775, 0o750, 0o644, False),
        (0o2775, 0o755, 0o604, False),
        (0o2775, 0o755, 0o640, False),
        (0o2770, 0o750, 0o640, True),
        (0o2770, 0o700, 0o640, False),
        (0o2770, 0o755, 0o600, False),
        (0o755, 0o700, 0o600, True),
    ],
)
def test_published_files_are_readable_by_all_readers_of_the_catalogue(
    shop: Catalogue, root: int, directory: int, file: int, is_read: bool
) -> None:
    """In a directory that others can write to, they can rename a private file or directory to this path."""
    path = shop.kept / "Toy/1.0/easyconfig"
    shop.directory.chmod(root)
    path.parent.chmod(directory)
    path.chmod(file)
    if is_read:
        assert read_kept_text(shop, path) == "# Toy/1.0\n"
    else:
        with pytest.raises(BadInputError, match="may be another user's"):
            read_kept_text(shop, path)


def test_a_private_file_of_another_group_is_not_that_of_the_catalogue(shop: Catalogue) -> None:
    path = shop.kept / "Toy/1.0/easyconfig"
    shop.directory.chmod(0o2770)
    check = check_readable_by_readers(shop, path)
    mine = os.stat_result((0o100640, 1, 1, 1, os.geteuid(), shop.directory.stat().st_gid, 1, 0, 0, 0))
    theirs = os.stat_result((0o100640, 1, 1, 1, os.geteuid(), shop.directory.stat().st_gid + 1, 1, 0, 0, 0))
    check(mine)
    with pytest.raises(PermissionError, match="may be another user's"):
        check(theirs)
