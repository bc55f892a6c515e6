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

from hpcmod.catalogue import change
from hpcmod.catalogue.admin import lifecycle
from hpcmod.catalogue.change import Actor, changing, commit
from hpcmod.catalogue.records.index import read_index
from hpcmod.catalogue.records.journal import read_journal
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.values import lifecycle as rules
from hpcmod.catalogue.values.journal import Records
from hpcmod.catalogue.values.record import parse_record
from hpcmod.catalogue.visible.modulefiles import update_visible
from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.core.fs.replacing import replacing_directory
from hpcmod.core.fs.temporary import temporary_name
from hpcmod.core.fs.tree import write_file
from tests.catalogues import make_record
from tests.unit.catalogue.stage import ADA, ONE, TWO, killed_at, make_toys, modules_seen, retire_one, state

pytestmark = pytest.mark.slow

STRIDE = 3
"""Kill at every N-th change on disk."""


@pytest.fixture
def shop(tmp_path: Path) -> Catalogue:
    """A catalogue with Toy 1.0, which is stable, and Toy 2.0."""
    return make_toys(tmp_path / "shop")


def test_a_change_is_one_line_of_the_journal_with_who_when_and_why(shop: Catalogue) -> None:
    last = read_journal(shop.directory)[-1]
    assert (last.id, last.verb, last.who, last.why, last.modules) == (3, "alias", "ada@login1", "because", ("Toy/1.0",))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", last.when)


def test_a_change_completed_after_a_kill_is_in_the_journal_once(
    shop: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending, real = shop.directory / "pending.json", change.append_change
    seen: list[bytes] = []
    monkeypatch.setattr(change, "append_change", lambda *a, **k: (seen.append(pending.read_bytes()), real(*a, **k)))
    retire_one(shop)
    after = state(shop), read_journal(shop.directory)
    pending.write_bytes(seen[0].replace(b"Toy-1.0.sif", b"../Toy.sif"))
    with pytest.raises(BadInputError, match="sif: not a safe file name"), changing(shop, ADA):
        pass
    pending.write_bytes(seen[0])  # as if killed just before removing this file
    with changing(shop, ADA):
        pass
    assert ((state(shop), read_journal(shop.directory)), pending.exists()) == (after, False)


def test_a_partial_line_of_the_journal_is_ignored_and_removed(shop: Catalogue) -> None:
    with (shop.directory / "journal.jsonl").open("a") as file:
        file.write('{"half": "' + "x" * 5000)
    assert [one.id for one in read_journal(shop.directory)] == [1, 2, 3]
    retire_one(shop)
    assert [one.id for one in read_journal(shop.directory)] == [1, 2, 3, 4]
    assert b"xxx" not in (shop.directory / "journal.jsonl").read_bytes()


def test_a_broken_advisory_is_reported_to_anyone_who_changes_something(shop: Catalogue) -> None:
    (shop.advisories / "a.toml").write_text("nonsense = 1")
    told: list[str] = []
    move = rules.move_alias
    actor = replace(ADA, tell=told.append)
    lifecycle.change_name(shop, "Toy", lambda all_: move(all_, TWO, "stable"), verb="alias", actor=actor)
    assert ["a.toml" in line for line in told] == [True]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_user_without_write_access_learns_who_has_it(shop: Catalogue) -> None:
    for place in (shop.locks, shop.directory):
        place.chmod(0o555)
    with pytest.raises(LackingError, match="you may not change the catalogue"):
        retire_one(shop)
    shop.locks.chmod(0o755)


@pytest.mark.parametrize("fails", ["update_visible", "write_index", "write_notices", "append_change"])
def test_a_change_that_fails_is_reverted(shop: Catalogue, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
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


def test_a_change_that_the_journal_has_is_not_reverted(shop: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
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


def publish(shop: Catalogue) -> None:
    record = make_record("Toy/3.0", aliases=("new",))
    with changing(shop, ADA):
        with replacing_directory(shop.kept / "Toy" / "3.0") as kept:
            write_file(kept / "module.lua", "whatis Toy/3.0\n\n-- Written by hpcmod.\nload()\n")
            write_file(kept / "easyconfig", "# Toy/3.0\n")
        new: Records = {("Toy", "3.0"): record, ONE: replace(shop.read(*ONE), aliases=("old",))}
        commit(shop, new, verb="publish", actor=ADA)


def undo_publishing(shop: Catalogue) -> None:
    lifecycle.undo(shop, 2, actor=ADA)


@pytest.mark.parametrize("work", [retire_one, publish, undo_publishing])
def test_the_next_change_finishes_one_killed_at_any_write(tmp_path: Path, work: Callable[[Catalogue], None]) -> None:
    origin = make_toys(tmp_path / "origin")

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
    assert steps * STRIDE > 25, "the sweep saw hardly any change on disk"
    assert finished * STRIDE > 10, "hardly any kill left something to finish"


def test_the_next_writer_removes_leftovers_of_killed_writers_only(shop: Catalogue) -> None:
    scripts = shop.software / "Toy" / "1.0"
    scripts.mkdir(parents=True, exist_ok=True)
    running = scripts / temporary_name("python")  # belongs to this process
    running.write_text("")
    child = os.fork()
    if child == 0:
        with changing(shop, ADA):
            (scripts / temporary_name("python")).write_text("")
            os._exit(0)
    os.waitpid(child, 0)
    assert len(list(scripts.glob(".python.*"))) == 2
    with changing(shop, ADA):
        pass
    assert list(scripts.glob(".python.*")) == [running]


def assert_nothing_is_broken(catalogue: Catalogue) -> None:
    """Check that users and readers of the catalogue find it intact at this moment."""
    seen = modules_seen(catalogue)
    for lead in [where.removeprefix("-> ") for where in seen.values() if where.startswith("-> ")]:
        assert seen[lead] == "loads", seen
    assert seen["1.0"] in ("loads", "told")
    for path in catalogue.modules.glob("Toy/[0-9]*.lua"):
        assert path.read_text().endswith("\nload()\n")
    for path in catalogue.records_directory.rglob("*.json"):
        if not path.name.startswith("."):
            parse_record(path.read_bytes(), str(path))
    assert {entry.version for entry in read_index(catalogue).entries} >= {"1.0"}
    for line in (catalogue.directory / "journal.jsonl").read_bytes().split(b"\n")[:-1]:
        json.loads(line)


def test_a_module_that_was_published_in_the_other_syntax_before_has_one_modulefile(shop: Catalogue) -> None:
    (lua,) = (shop.kept / "Toy/1.0").glob("module.lua")
    (lua.parent / "module.tcl").write_text(f"#%Module\n{lua.read_text()}")
    for kept in (lua, lua.with_name("module.tcl")):
        kept.unlink()
        with changing(shop, ADA):
            update_visible(shop, {"Toy"})
        assert [path.name for path in (shop.modules / "Toy").glob("1.0*")] == ["1.0"], "stays where nothing is kept"


def test_two_admins_at_once_lose_no_change(shop: Catalogue) -> None:
    def many(alias: str) -> None:
        for key in [ONE, TWO] * 4:
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
    assert [one.id for one in read_journal(shop.directory)] == list(range(1, 28))
    assert shop.read(*TWO).aliases == ("a", "b", "c")
    assert shop.read(*ONE).aliases == ("stable",)


def test_foreign_files_among_the_modules_are_kept(shop: Catalogue) -> None:
    mine = [shop.modules / "Toy/9.9.lua", shop.modules / "Toy/old/1.lua", shop.easyconfigs / "t/Toy/Toy-9.9.eb"]
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    lifecycle.undo(shop, 2, actor=ADA)
    lifecycle.change_name(shop, "Toy", lambda all_: rules.deprecate(all_, ONE), verb="deprecate", actor=ADA)
    assert [path.read_text() for path in mine] == ["mine"] * 3


def test_only_a_damaged_record_of_the_same_name_is_reported_and_nothing_changes(shop: Catalogue) -> None:
    before = modules_seen(shop)
    for name in ("Toy", "Other"):
        path = shop.record_path(name, "0.1")
        path.parent.mkdir(exist_ok=True)
        path.write_text("{")
    with pytest.raises(BadInputError, match=r"records/Toy/0\.1\.json: invalid JSON"):
        retire_one(shop)
    assert modules_seen(shop) == before
    shop.record_path("Toy", "0.1").unlink()
    retire_one(shop)
    assert modules_seen(shop)["1.0"] == "told"
