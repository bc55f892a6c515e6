from __future__ import annotations

import itertools
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.catalogue import change, lifecycle
from hpcmod.catalogue.change import Actor, changing, commit
from hpcmod.catalogue.index import read_index
from hpcmod.catalogue.journal import read_journal
from hpcmod.catalogue.store import Catalogue
from hpcmod.errors import BadInputError, LackingError, NotFoundError
from hpcmod.model.catalogue import lifecycle as rules
from hpcmod.model.catalogue.journal import Key, Records
from hpcmod.model.catalogue.record import parse_record
from tests.catalogues import make_record
from tests.unit.catalogue.stage import ADA, killed_at, make_shop

STRIDE = 1 if os.environ.get("HPCMOD_THOROUGH") == "1" else 5
"""Every so many-th touch of the disk is a moment to be killed at."""

ONE, TWO = ("Toy", "1.0"), ("Toy", "2.0")


@pytest.fixture
def shop(tmp_path: Path) -> Catalogue:
    """Toy 1.0, which is the stable one, and Toy 2.0."""
    catalogue = make_shop(tmp_path / "shop", "Toy/1.0", "Toy/2.0")
    lifecycle.change_name(catalogue, "Toy", lambda all_: rules.move_alias(all_, ONE, "stable"), verb="alias", actor=ADA)
    return catalogue


def retire_one(catalogue: Catalogue) -> None:
    lifecycle.change_name(
        catalogue, "Toy", lambda all_: rules.retire(all_, ONE, successor="Toy/2.0"), verb="retire", actor=ADA
    )


def state(catalogue: Catalogue) -> dict[str, object]:
    """All that users and the next admin see, but for the journal and times."""
    files = {
        str(path.relative_to(catalogue.directory)): re.sub(r"/\S+/(?=modules/\.code/)", "", path.read_text("utf-8"))
        for place in (catalogue.records_directory, catalogue.modules, catalogue.easyconfigs, catalogue.notices)
        for path in place.rglob("*")
        if path.is_file()
    }
    return {**files, "index": [tuple(entry) for entry in read_index(catalogue).entries]}


def modules_seen(catalogue: Catalogue) -> dict[str, str]:
    """What `module load` would do with each name, from the files alone: `loads` or `told`, and where aliases lead."""
    place = catalogue.modules / "Toy"
    texts = {path.stem: path.read_text() for path in place.glob("*.lua") if not path.name.startswith(".")}
    seen = {version: "told" if "LmodError" in text else "loads" for version, text in texts.items()}
    leads = re.findall(r'module_version\("Toy/(\S+)", (.*)\)', (place / ".modulerc.lua").read_text())
    return seen | {alias: f"-> {version}" for version, names in leads for alias in re.findall(r'"(\S+?)"', names)}


def test_a_change_is_one_line_of_the_journal_with_who_when_and_why(shop: Catalogue) -> None:
    last = read_journal(shop.directory)[-1]
    assert (last.id, last.verb, last.who, last.why, last.modules) == (3, "alias", "ada@login1", "because", ("Toy/1.0",))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", last.when)


def test_what_changes_nothing_writes_nothing(shop: Catalogue) -> None:
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


def test_undoing_brings_back_every_byte_that_users_see(shop: Catalogue) -> None:
    before = state(shop)
    retire_one(shop)
    assert modules_seen(shop) == {"1.0": "told", "2.0": "loads", "stable": "-> 2.0", "default": "-> 2.0"}
    lifecycle.undo(shop, None, actor=ADA)
    assert state(shop) == before


def test_undoing_what_was_published_takes_it_from_sight_and_undoing_that_brings_it_back(shop: Catalogue) -> None:
    before = state(shop)
    lifecycle.undo(shop, 2, actor=ADA)
    assert modules_seen(shop) == {"1.0": "loads", "stable": "-> 1.0", "default": "-> 1.0"}
    assert list(shop.easyconfigs.rglob("*.eb")) == [shop.easyconfigs / "t/Toy/Toy-1.0.eb"]
    lifecycle.undo(shop, 4, actor=ADA)
    assert state(shop) == before


def test_what_was_changed_since_is_not_undone(shop: Catalogue) -> None:
    with pytest.raises(BadInputError, match="was changed again since"):
        lifecycle.undo(shop, 1, actor=ADA)
    with pytest.raises(NotFoundError, match="no change 99"):
        lifecycle.undo(shop, 99, actor=ADA)
    with pytest.raises(NotFoundError, match="no change 0"):
        lifecycle.undo(shop, 0, actor=ADA)


def alias(shop: Catalogue, key: Key, decide: Callable[..., Records]) -> int:
    return lifecycle.change_name(shop, "Toy", lambda all_: decide(all_, key, "prod"), verb="alias", actor=ADA).id


def test_undoing_gives_an_alias_neither_two_versions_nor_a_retired_one(shop: Catalogue) -> None:
    alias(shop, TWO, rules.move_alias)
    removed = alias(shop, TWO, rules.remove_alias)
    moved = alias(shop, ONE, rules.move_alias)
    with pytest.raises(BadInputError, match=r"'prod' would lead to Toy/2\.0 and Toy/1\.0"):
        lifecycle.undo(shop, removed, actor=ADA)
    lifecycle.undo(shop, moved, actor=ADA)
    lifecycle.change_name(shop, "Toy", lambda all_: rules.retire(all_, TWO), verb="retire", actor=ADA)
    with pytest.raises(BadInputError, match=r"'prod' would lead to Toy/2\.0, which is retired"):
        lifecycle.undo(shop, removed, actor=ADA)


def test_a_change_that_is_finished_for_the_killed_is_in_the_journal_once(
    shop: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending, real = shop.directory / "pending.json", change.append_change
    seen: list[bytes] = []
    monkeypatch.setattr(change, "append_change", lambda *a, **k: (seen.append(pending.read_bytes()), real(*a, **k)))
    retire_one(shop)
    after = state(shop), read_journal(shop.directory)
    pending.write_bytes(seen[0])  # killed as it was about to remove this
    with changing(shop, ADA):
        pass
    assert ((state(shop), read_journal(shop.directory)), pending.exists()) == (after, False)


def test_half_a_line_of_the_journal_counts_for_nothing_and_is_cut_off(shop: Catalogue) -> None:
    with (shop.directory / "journal.jsonl").open("a") as file:
        file.write('{"half": "' + "x" * 5000)
    retire_one(shop)
    assert [one.id for one in read_journal(shop.directory)] == [1, 2, 3, 4]
    assert b"xxx" not in (shop.directory / "journal.jsonl").read_bytes()


def test_a_broken_advisory_is_told_to_whoever_changes_something(shop: Catalogue) -> None:
    (shop.advisories / "a.toml").write_text("nonsense = 1")
    told: list[str] = []
    move = rules.move_alias
    actor = replace(ADA, tell=told.append)
    lifecycle.change_name(shop, "Toy", lambda all_: move(all_, TWO, "stable"), verb="alias", actor=actor)
    assert ["a.toml" in line for line in told] == [True]


def test_what_was_removed_from_the_disk_is_not_brought_back(shop: Catalogue) -> None:
    retire_one(shop)
    (shop.images / "Toy-1.0.sif").unlink()
    for dry_run in (True, False):
        with pytest.raises(NotFoundError, match="cannot be brought back"):
            lifecycle.change_name(
                shop, "Toy", lambda all_: rules.restore(all_, ONE), verb="restore", actor=ADA, dry_run=dry_run
            )
        with pytest.raises(NotFoundError, match="cannot be brought back"):
            lifecycle.undo(shop, None, actor=ADA, dry_run=dry_run)
    assert modules_seen(shop)["1.0"] == "told"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_who_may_not_change_a_catalogue_is_told_who_may(shop: Catalogue) -> None:
    for place in (shop.locks, shop.directory):
        place.chmod(0o555)
    with pytest.raises(LackingError, match="you may not change the catalogue"):
        retire_one(shop)
    shop.locks.chmod(0o755)


@pytest.mark.parametrize("fails", ["update_visible", "write_index", "write_notices", "append_change"])
def test_a_change_that_fails_is_taken_back(shop: Catalogue, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    before, journal = state(shop), read_journal(shop.directory)
    real: Callable[..., None] = getattr(change, fails)
    failures = [OSError(28, "No space left on device")]

    def fail_once(*args: object, **kwargs: object) -> None:
        if failures:
            raise failures.pop()
        real(*args, **kwargs)

    monkeypatch.setattr(change, fails, fail_once)
    with pytest.raises(OSError, match="No space"):
        retire_one(shop)
    assert (state(shop), read_journal(shop.directory)) == (before, journal)
    assert not (shop.directory / "pending.json").exists()


def test_a_change_that_the_journal_has_is_not_taken_back(shop: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    real = change.append_change

    def append_and_be_stopped(*args: object, **more: object) -> None:
        real(*args, **more)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(change, "append_change", append_and_be_stopped)
    with pytest.raises(KeyboardInterrupt):
        retire_one(shop)
    assert shop.read(*ONE).state == "retired"
    assert [one.verb for one in read_journal(shop.directory)][-1] == "retire"
    assert not (shop.directory / "pending.json").exists()


def retire(shop: Catalogue) -> None:
    retire_one(shop)


def publish(shop: Catalogue) -> None:
    record = make_record("Toy/3.0", aliases=("new",))
    kept = shop.kept / "Toy" / "3.0"
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "module.lua").write_text("whatis Toy/3.0\n\n-- Written by hpcmod.\nload()\n")
    (kept / "easyconfig").write_text("# Toy/3.0\n")
    with changing(shop, ADA):
        new: Records = {("Toy", "3.0"): record, ONE: replace(shop.read(*ONE), aliases=("old",))}
        commit(shop, new, verb="publish", actor=ADA)


def undo_publishing(shop: Catalogue) -> None:
    lifecycle.undo(shop, 2, actor=ADA)


@pytest.mark.parametrize("work", [retire, publish, undo_publishing])
def test_killed_at_any_touch_of_the_disk_a_change_breaks_nothing_and_is_finished_by_the_next(
    tmp_path: Path, work: Callable[[Catalogue], None]
) -> None:
    origin = make_shop(tmp_path / "origin", "Toy/1.0", "Toy/2.0")
    lifecycle.change_name(origin, "Toy", lambda all_: rules.move_alias(all_, ONE, "stable"), verb="alias", actor=ADA)

    def fresh(name: str) -> Catalogue:
        shutil.copytree(origin.directory, tmp_path / name)
        return replace(origin, directory=tmp_path / name)

    untouched, done = state(origin), fresh("done")
    work(done)
    steps, finished = 0, 0
    for step in itertools.count(1, STRIDE):
        catalogue = fresh(f"killed-{step}")
        if not killed_at(step, lambda catalogue=catalogue: work(catalogue)):
            break
        steps += 1
        assert_nothing_is_broken(catalogue)
        said: list[str] = []
        with changing(catalogue, Actor("bob@login2", tell=said.append)):
            pass
        finished += any("finishing change 4" in line for line in said)
        found = state(catalogue)
        assert found in (untouched, state(done)), step
        assert len(read_journal(catalogue.directory)) == (3 if found == untouched else 4)
        assert not [path for path in catalogue.directory.rglob("*") if "hpcmod-part" in path.name]
        assert not (catalogue.directory / "pending.json").exists()
        shutil.rmtree(catalogue.directory)
    assert steps * STRIDE > 60, "the sweep saw hardly any touch of the disk"
    assert finished * STRIDE > 20, "hardly any kill left something to finish"


def assert_nothing_is_broken(catalogue: Catalogue) -> None:
    """Check what a user and any reader would meet at this moment."""
    seen = modules_seen(catalogue)
    for lead in [where.removeprefix("-> ") for where in seen.values() if where.startswith("-> ")]:
        assert seen[lead] == "loads", seen
    assert seen["1.0"] in ("loads", "told")
    for path in catalogue.modules.glob("Toy/[0-9]*.lua"):
        (code,) = re.findall(r"/modules/\.code/(\w+\.lua)", path.read_text())
        assert (catalogue.code / code).read_text().endswith("\nload()\n")
    for path in catalogue.records_directory.rglob("*.json"):
        if not path.name.startswith("."):
            parse_record(path.read_bytes(), str(path))
    assert {entry.version for entry in read_index(catalogue).entries} >= {"1.0"}
    for line in (catalogue.directory / "journal.jsonl").read_bytes().split(b"\n")[:-1]:
        json.loads(line)


def test_a_line_that_was_not_finished_is_cut_off_by_the_next(shop: Catalogue) -> None:
    with (shop.directory / "journal.jsonl").open("a") as journal:
        journal.write('{"id": 4, "who"')
    assert [one.id for one in read_journal(shop.directory)] == [1, 2, 3]
    retire_one(shop)
    assert [one.id for one in read_journal(shop.directory)] == [1, 2, 3, 4]


def test_two_admins_at_once_lose_no_change(shop: Catalogue) -> None:
    def many(alias: str) -> None:
        for key in [ONE, TWO] * 10:
            lifecycle.change_name(
                shop, "Toy", lambda all_, key=key: rules.move_alias(all_, key, alias), verb="alias", actor=ADA
            )

    children = []
    for alias in ("a", "b", "c"):
        child = os.fork()
        if child == 0:
            try:
                many(alias)
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    assert [one.id for one in read_journal(shop.directory)] == list(range(1, 64))
    assert shop.read(*TWO).aliases == ("a", "b", "c")
    assert shop.read(*ONE).aliases == ("stable",)


def test_what_others_put_among_the_modules_stays(shop: Catalogue) -> None:
    mine = [shop.modules / "Toy/9.9.lua", shop.modules / "Toy/old/1.lua", shop.easyconfigs / "t/Toy/Toy-9.9.eb"]
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    lifecycle.undo(shop, 2, actor=ADA)
    lifecycle.change_name(shop, "Toy", lambda all_: rules.deprecate(all_, ONE), verb="deprecate", actor=ADA)
    assert [path.read_text() for path in mine] == ["mine"] * 3


def test_a_damaged_record_of_another_name_stops_nobody(shop: Catalogue) -> None:
    path = shop.record_path("Other", "1.0")
    path.parent.mkdir()
    path.write_text("{")
    retire_one(shop)
    assert modules_seen(shop)["1.0"] == "told"


def test_a_damaged_record_of_the_same_name_is_named_and_nothing_changes(shop: Catalogue) -> None:
    shop.record_path("Toy", "0.1").write_text("{")
    before = modules_seen(shop)
    with pytest.raises(BadInputError, match=r"records/Toy/0\.1\.json: no JSON"):
        retire_one(shop)
    assert modules_seen(shop) == before
