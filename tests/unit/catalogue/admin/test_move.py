from __future__ import annotations

import errno
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from hpcmod.catalogue.admin import lifecycle, move
from hpcmod.catalogue.admin.move import move_catalogue
from hpcmod.catalogue.records.journal import read_journal
from hpcmod.catalogue.records.sharing import check_writable, make_catalogue
from hpcmod.catalogue.records.store import Catalogue, open_catalogue
from hpcmod.catalogue.verify import verify_container
from hpcmod.errors import BadInputError, LackingError
from hpcmod.fs.tree import Tree
from hpcmod.model.catalogue import lifecycle as rules
from hpcmod.model.finding import FAIL
from tests.unit.catalogue.rendered import make_rendered, visible
from tests.unit.catalogue.stage import ADA, ONE

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(tmp_path: Path) -> Catalogue:
    return make_rendered(tmp_path / "shop")


def test_a_moved_catalogue_works_there_and_the_old_one_still_loads(shop: Catalogue, tmp_path: Path) -> None:
    before = visible(shop)
    moved = move_catalogue(shop, tmp_path / "new", actor=ADA)
    assert visible(shop) == before
    assert read_journal(moved.directory)[-1].why == f"because: from {shop.directory}"
    assert (moved.images / "Toy-1.0.sif").samefile(shop.images / "Toy-1.0.sif")
    shutil.rmtree(shop.directory)
    assert not [one for one in verify_container(moved, moved.read(*ONE), images=False) if "gone" in one.found]
    assert not [
        one for one in verify_container(moved, moved.read(*ONE)) if one.level == FAIL and one.subject != "image"
    ]
    assert not [name for name, text in visible(moved).items() if f"{shop.directory}/" in text]


def test_the_old_one_takes_no_more_changes_until_it_is_wanted_again(shop: Catalogue, tmp_path: Path) -> None:
    move_catalogue(shop, tmp_path / "new", actor=ADA)
    old = open_catalogue(shop.directory)

    def deprecate(catalogue: Catalogue) -> None:
        lifecycle.change_name(catalogue, "Toy", lambda all_: rules.deprecate(all_, ONE), verb="deprecate", actor=ADA)

    with pytest.raises(LackingError, match=f"was moved to {tmp_path / 'new'}"):
        deprecate(old)
    deprecate(open_catalogue(tmp_path / "new"))
    make_catalogue(shop)
    deprecate(open_catalogue(shop.directory))


@pytest.mark.parametrize(
    ("step", "call"), [("refresh_index", 1), ("write_note", 1), ("write_file", 2), ("write_file", 3)]
)
def test_a_move_that_fails_at_any_step_finishes_when_run_again(
    shop: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, call: int
) -> None:
    calls, real = iter(range(1, 9)), getattr(move, step)

    def fail(*words: object, **options: object) -> object:
        if next(calls) == call:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        return real(*words, **options)

    with monkeypatch.context() as patched:
        patched.setattr(move, step, fail)
        with pytest.raises(OSError, match=os.strerror(errno.EDQUOT)):
            move_catalogue(shop, tmp_path / "new", actor=ADA)
    unfinished = open_catalogue(tmp_path / "new")
    with pytest.raises(LackingError, match="unfinished"):
        check_writable(unfinished)
    moved = move_catalogue(open_catalogue(shop.directory), tmp_path / "new", actor=ADA)
    check_writable(open_catalogue(moved.directory))
    assert [change.verb for change in read_journal(moved.directory)].count("move") == 1
    found = verify_container(moved, moved.read(*ONE), images=False)
    assert not [one for one in found if one.level == FAIL and one.subject != "image"]
    with pytest.raises(LackingError, match=f"was moved to {tmp_path / 'new'}"):
        check_writable(open_catalogue(shop.directory))


def test_a_second_move_removes_what_a_killed_one_left(
    shop: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(move, "_copy_mode", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        try:
            move_catalogue(shop, tmp_path / "new", actor=ADA)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert list(tmp_path.glob(".new.hpcmod-part-*"))
    move_catalogue(shop, tmp_path / "new", actor=ADA)
    assert not list(tmp_path.glob(".new*"))


def test_a_place_that_is_taken_or_inside_is_refused(shop: Catalogue, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(BadInputError, match="already exists"):
        move_catalogue(shop, tmp_path / "taken", actor=ADA)
    with pytest.raises(BadInputError, match="inside the catalogue"):
        move_catalogue(shop, shop.directory / "new", actor=ADA)


def test_a_link_put_in_place_of_a_file_meanwhile_is_not_followed(
    shop: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, planted = tmp_path / "secret", shop.directory / "advisories" / "a.toml"
    secret.write_text("secret")
    planted.parent.mkdir(exist_ok=True)
    planted.write_text("")
    listed = Tree.entries

    def entries(tree: Tree, path: Path | str = "") -> list[tuple[str, os.stat_result]]:
        found = listed(tree, path)
        if str(path) == "advisories":
            planted.unlink()
            planted.symlink_to(secret)
        return found

    monkeypatch.setattr(Tree, "entries", entries)
    with pytest.raises(OSError, match="symbolic link"):
        move_catalogue(shop, tmp_path / "new", actor=ADA)
    assert not (tmp_path / "new").exists()


def test_an_image_on_another_file_system_is_copied(
    shop: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def refuse(source: str, target: str | Path, **given: Any) -> None:
        if "src_dir_fd" in given:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        link(source, target, **given)

    monkeypatch.setattr(os, "link", refuse)
    moved = move_catalogue(shop, tmp_path / "new", actor=ADA)
    image, copy = shop.images / "Toy-1.0.sif", moved.images / "Toy-1.0.sif"
    assert not copy.samefile(image)
    assert copy.read_bytes() == image.read_bytes()
    assert copy.stat().st_mtime_ns == image.stat().st_mtime_ns


def test_no_other_user_can_read_a_copy_while_it_is_made(
    shop: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A private file that someone renamed into the catalogue stays private."""
    (shop.directory / "diary").write_text("secret")
    (shop.directory / "diary").chmod(0o600)
    modes = []

    def copy(source: Any, target: Any, *_: int) -> None:
        modes.append(os.fstat(target.fileno()).st_mode & 0o077)
        target.write(source.read())

    monkeypatch.setattr(shutil, "copyfileobj", copy)
    move_catalogue(shop, tmp_path / "new", actor=ADA)
    assert set(modes) == {0}
    assert (tmp_path / "new/diary").stat().st_mode & 0o777 == 0o600
