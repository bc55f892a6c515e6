from __future__ import annotations

import errno
import itertools
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.catalogue.admin import lifecycle
from hpcmod.catalogue.admin.gc import find_unused, remove_unused
from hpcmod.catalogue.change import changing
from hpcmod.catalogue.records.journal import read_journal
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.values import lifecycle as rules
from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.core.lock import hold
from tests.catalogues import make_record
from tests.unit.catalogue.stage import ADA, add, killed_at, load, make_shop, place

pytestmark = pytest.mark.slow

NOW = time.time() + 40 * 86400


@pytest.fixture
def shop(tmp_path: Path) -> Catalogue:
    return make_shop(tmp_path / "shop", "Toy/1.0", "Toy/2.0", counts_use=True)


def retire(shop: Catalogue, version: str, **said: str) -> None:
    key = ("Toy", version)
    lifecycle.change_name(shop, "Toy", lambda all_: rules.retire(all_, key, **said), verb="retire", actor=ADA)


def removable(shop: Catalogue, days: float = 30) -> set[str]:
    return {one.what for one in find_unused(shop, days=days, now=NOW) if one.remove}


def files(shop: Catalogue) -> set[str]:
    return {str(path.relative_to(shop.directory)) for path in shop.directory.rglob("*") if path.is_file()}


def test_published_containers_are_never_removed(shop: Catalogue) -> None:
    before = files(shop)
    remove_unused(shop, days=0, now=NOW, actor=ADA)
    assert files(shop) == before


def test_unused_containers_are_only_reported(shop: Catalogue) -> None:
    load(shop, "Toy/2.0", NOW)
    found = list(find_unused(shop, days=30, now=NOW))
    assert [(one.what, one.why, one.remove) for one in found] == [
        ("Toy/1.0", "never loaded since the catalogue began to count", False)
    ]
    load(shop, "Toy/1.0", NOW - 35 * 86400)
    (found_again,) = find_unused(shop, days=30, now=NOW)
    assert found_again.why.startswith("loaded 1 time, last on ")


def test_old_leftovers_of_undone_or_killed_publishing_are_removed(shop: Catalogue) -> None:
    lifecycle.undo(shop, 2, actor=ADA)
    (shop.staging / "Toy-3.0").mkdir()
    assert removable(shop, days=50) == set()
    wanted = {
        "images/Toy-2.0.sif",
        "software/Toy/2.0",
        "kept/Toy/2.0",
        ".staging/Toy-3.0",
    }
    assert removable(shop) == wanted
    remove_unused(shop, days=30, now=NOW, actor=ADA)
    assert removable(shop) == set()
    assert not any(shop.directory.joinpath(name).exists() for name in wanted)
    last = read_journal(shop.directory)[-1]
    assert (last.verb, last.why.partition(",")[0]) == ("gc", "because: removed images/Toy-2.0.sif")


def test_files_being_published_are_kept(shop: Catalogue) -> None:
    place(shop, make_record("Toy/4.0"), b"image")
    with hold(shop.locks / "Toy@4.0.lock", limit=None, tell=print, on_stale=lambda: None):
        assert removable(shop) == {"images/Toy-4.0.sif"}
        with hold(shop.locks / "image-Toy-4.0.sif.lock", limit=None, tell=print, on_stale=lambda: None):
            assert removable(shop) == set()


def test_the_image_of_a_retired_container_is_removed_but_its_message_stays(shop: Catalogue) -> None:
    retire(shop, "1.0", successor="Toy/2.0")
    remove_unused(shop, days=30, now=NOW, actor=ADA)
    assert not (shop.images / "Toy-1.0.sif").exists()
    assert "Use Toy/2.0 instead" in (shop.modules / "Toy/1.0.lua").read_text()


def test_a_retired_container_stays_until_its_day_and_while_it_is_loaded(shop: Catalogue) -> None:
    retire(shop, "1.0", successor="Toy/2.0", until="2999-01-01")
    assert removable(shop) == set()
    retire(shop, "2.0")
    load(shop, "Toy/2.0", NOW)
    assert removable(shop) == set()


def test_a_retired_container_stays_for_as_many_days_although_no_one_counts(tmp_path: Path) -> None:
    quiet = make_shop(tmp_path / "quiet", "Toy/1.0")
    retire(quiet, "1.0", until=time.strftime("%Y-%m-%d", time.gmtime(NOW - 5 * 86400)))
    assert removable(quiet, days=7) == set()
    assert removable(quiet, days=4) == {"images/Toy-1.0.sif", "software/Toy/1.0"}
    retire(quiet, "1.0")
    assert removable(quiet, days=41) == set()
    assert removable(quiet, days=39) == {"images/Toy-1.0.sif", "software/Toy/1.0"}


def test_an_image_that_two_names_share_is_counted_once(shop: Catalogue) -> None:
    record = add(shop, replace(make_record("Toy/5.0"), sif="Toy-5.0.sif"))
    (shop.software / "Toy/5.0/Toy-5.0.sif").hardlink_to(shop.images / record.sif)
    lifecycle.undo(shop, None, actor=ADA)
    sizes = {one.what: one.size for one in find_unused(shop, days=30, now=NOW)}
    size = (shop.images / record.sif).stat().st_blocks * 512
    assert (sizes["images/Toy-5.0.sif"], sizes["software/Toy/5.0"]) == (size, size)  # of record.json
    (shop.directory / "kept by a user").hardlink_to(shop.images / record.sif)
    sizes = {one.what: one.size for one in find_unused(shop, days=30, now=NOW)}
    assert (sizes["images/Toy-5.0.sif"], sizes["software/Toy/5.0"]) == (0, size)


def make_private(shop: Catalogue) -> Path:
    """Create a read-only directory in an installation, like the private group of another admin."""
    retire(shop, "1.0", successor="Toy/2.0")
    private = shop.software / "Toy/1.0/easybuild/reprod"
    private.mkdir(parents=True)
    (private / "Toy-1.0.eb").touch()
    private.chmod(0o555)
    return private


@pytest.mark.skipif(os.geteuid() == 0, reason="root may remove everything")
def test_gc_removes_nothing_if_it_may_not_remove_all(shop: Catalogue) -> None:
    private = make_private(shop)
    before, journal = files(shop), read_journal(shop.directory)
    with pytest.raises(LackingError, match=r"reprod; nothing was removed") as caught:
        remove_unused(shop, days=30, now=NOW, actor=ADA)
    assert "--fix-modes" in caught.value.cure
    assert (files(shop), read_journal(shop.directory)) == (before, journal)
    lifecycle.change_name(shop, "Toy", lambda all_: rules.restore(all_, ("Toy", "1.0")), verb="restore", actor=ADA)
    private.chmod(0o755)


def test_gc_is_a_change_that_cannot_be_undone(shop: Catalogue) -> None:
    retire(shop, "1.0", successor="Toy/2.0")
    _, number = remove_unused(shop, days=30, now=NOW, actor=ADA)
    assert not (shop.images / "Toy-1.0.sif").exists() and not (shop.directory / ".trash").exists()
    with pytest.raises(BadInputError, match=r"\(gc\) cannot be undone: it removed files"):
        lifecycle.undo(shop, number, actor=ADA)


def test_gc_that_is_killed_at_any_moment_is_finished_or_never_began(tmp_path: Path) -> None:
    origin = make_shop(tmp_path / "origin", "Toy/1.0", "Toy/2.0")
    retire(origin, "1.0", successor="Toy/2.0")
    for step in itertools.count(1, 2):
        shop = replace(origin, directory=tmp_path / f"killed-{step}")
        shutil.copytree(origin.directory, shop.directory)
        if not killed_at(step, lambda shop=shop: remove_unused(shop, days=30, now=NOW, actor=ADA)):
            break
        with changing(shop, ADA):
            pass
        done = read_journal(shop.directory)[-1].verb == "gc"
        gone = [not (shop.directory / name).exists() for name in ("images/Toy-1.0.sif", "software/Toy/1.0")]
        assert gone == [done, done], step
        remove_unused(shop, days=30, now=NOW, actor=ADA)
        assert not (shop.directory / ".trash").exists()
    assert step > 20


def test_what_gc_removes_has_a_line_in_the_journal_where_writing_it_fails(
    shop: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each `fsync` fails in turn: gc removes nothing without a journal line, neither this time nor the next."""
    (shop.images / "left.sif").write_bytes(b"left")
    os.utime(shop.images / "left.sif", (0, 0))
    real, failed = os.fsync, False
    for number in itertools.count(1):
        copy = replace(shop, directory=tmp_path / f"failing-{number}")
        shutil.copytree(shop.directory, copy.directory)
        calls = itertools.count(1)

        def fsync(file: int, calls: Iterator[int] = calls, number: int = number) -> None:
            if next(calls) == number:
                raise OSError(errno.EIO, "Input/output error")
            real(file)

        monkeypatch.setattr(os, "fsync", fsync)
        try:
            remove_unused(copy, days=30, now=NOW, actor=ADA)
            break
        except OSError:
            failed = True
        finally:
            monkeypatch.setattr(os, "fsync", real)
        assert (copy.images / "left.sif").exists() or gc_lines(copy) == 1, number
        remove_unused(copy, days=30, now=NOW, actor=ADA)
        assert ((copy.images / "left.sif").exists(), gc_lines(copy)) == (False, 1), number
    assert failed


def gc_lines(shop: Catalogue) -> int:
    return sum(one.verb == "gc" and "images/left.sif" in one.why for one in read_journal(shop.directory))
