from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from hpcmod.catalogue.admin import lifecycle
from hpcmod.catalogue.admin.gc import remove_unused
from hpcmod.catalogue.change import changing, commit
from hpcmod.catalogue.records.journal import read_journal
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.values import lifecycle as rules
from hpcmod.catalogue.values.journal import Key, Records
from hpcmod.core.errors import BadInputError, NotFoundError
from tests.unit.catalogue.stage import ADA, ONE, TWO, make_toys, modules_seen, retire_one, state

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(tmp_path: Path) -> Catalogue:
    """A catalogue with Toy 1.0, which is stable, and Toy 2.0."""
    return make_toys(tmp_path / "shop")


def test_writes_nothing_if_nothing_changes(shop: Catalogue) -> None:
    before = state(shop), read_journal(shop.directory)
    lifecycle.change_name(shop, "Toy", lambda all_: rules.move_alias(all_, ONE, "stable"), verb="alias", actor=ADA)
    assert (state(shop), read_journal(shop.directory)) == before


def test_a_dry_run_changes_nothing_and_takes_no_lock(shop: Catalogue) -> None:
    before, files = state(shop), sorted(shop.directory.rglob("*"))
    shop.locks.chmod(0o500)
    found = lifecycle.change_name(
        shop, "Toy", lambda all_: rules.retire(all_, ONE, successor="Toy/2.0"), verb="retire", actor=ADA, dry_run=True
    )
    assert found.modules == ("Toy/1.0", "Toy/2.0")
    assert (state(shop), sorted(shop.directory.rglob("*"))) == (before, files)
    shop.locks.chmod(0o700)


def test_undoing_restores_every_byte_that_users_see(shop: Catalogue) -> None:
    before = state(shop)
    retire_one(shop)
    assert modules_seen(shop) == {"1.0": "told", "2.0": "loads", "stable": "-> 2.0", "default": "-> 2.0"}
    lifecycle.undo(shop, None, actor=ADA)
    assert state(shop) == before


def test_undoing_a_publication_hides_it_and_undoing_that_restores_it(shop: Catalogue) -> None:
    before = state(shop)
    lifecycle.undo(shop, 2, actor=ADA)
    assert modules_seen(shop) == {"1.0": "loads", "stable": "-> 1.0", "default": "-> 1.0"}
    assert list(shop.easyconfigs.rglob("*.eb")) == [shop.easyconfigs / "t/Toy/Toy-1.0.eb"]
    lifecycle.undo(shop, 4, actor=ADA)
    assert state(shop) == before


def test_does_not_undo_a_later_change(shop: Catalogue) -> None:
    with pytest.raises(BadInputError, match="was changed again since"):
        lifecycle.undo(shop, 1, actor=ADA)
    with pytest.raises(NotFoundError, match="change 99 not found"):
        lifecycle.undo(shop, 99, actor=ADA)
    with pytest.raises(NotFoundError, match="change 0 not found"):
        lifecycle.undo(shop, 0, actor=ADA)


def alias(shop: Catalogue, key: Key, decide: Callable[..., Records]) -> int:
    return lifecycle.change_name(shop, "Toy", lambda all_: decide(all_, key, "prod"), verb="alias", actor=ADA).id


def test_undoing_gives_an_alias_neither_two_versions_nor_a_retired_one(shop: Catalogue) -> None:
    alias(shop, TWO, rules.move_alias)
    removed = alias(shop, TWO, rules.remove_alias)
    moved = alias(shop, ONE, rules.move_alias)
    with pytest.raises(BadInputError, match=r"'prod' would point to both Toy/2\.0 and Toy/1\.0"):
        lifecycle.undo(shop, removed, actor=ADA)
    lifecycle.undo(shop, moved, actor=ADA)
    lifecycle.change_name(shop, "Toy", lambda all_: rules.retire(all_, TWO), verb="retire", actor=ADA)
    with pytest.raises(BadInputError, match=r"'prod' would point to Toy/2\.0, which is retired"):
        lifecycle.undo(shop, removed, actor=ADA)


def test_files_removed_from_the_disk_are_not_restored(shop: Catalogue) -> None:
    retire_one(shop)
    (shop.images / "Toy-1.0.sif").unlink()
    for dry_run in (True, False):
        for decide in (rules.restore, partial(rules.retire, until="2099-01-01")):
            with pytest.raises(NotFoundError, match="cannot be restored"):
                lifecycle.change_name(
                    shop, "Toy", lambda all_, do=decide: do(all_, ONE), verb="restore", actor=ADA, dry_run=dry_run
                )
        with pytest.raises(NotFoundError, match="cannot be restored"):
            lifecycle.undo(shop, None, actor=ADA, dry_run=dry_run)
    assert modules_seen(shop)["1.0"] == "told"
    remove_unused(shop, days=0, now=time.time() + 60, actor=ADA)
    with pytest.raises(BadInputError, match="it removed files") as refused:
        lifecycle.undo(shop, None, actor=ADA)
    assert "catalogue undo" not in refused.value.cure  # no change before it can be undone


def test_undoing_a_publication_twice_keeps_the_second_publication(shop: Catalogue) -> None:
    toy = shop.read(*TWO)
    lifecycle.undo(shop, 2, actor=ADA)
    with changing(shop, ADA):
        commit(shop, {TWO: toy}, verb="publish", actor=ADA)
    with pytest.raises(BadInputError, match=r"change 2 .* already undone, by change 4"):
        lifecycle.undo(shop, 2, actor=ADA)
    assert modules_seen(shop)["2.0"] == "loads"
    lifecycle.undo(shop, 5, actor=ADA)
    assert "2.0" not in modules_seen(shop)
