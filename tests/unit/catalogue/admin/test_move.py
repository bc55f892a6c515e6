from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from hpcmod.catalogue.admin.move import check_target, move_catalogue
from hpcmod.catalogue.records.journal import read_journal
from hpcmod.catalogue.records.store import Catalogue, open_catalogue
from hpcmod.catalogue.verify import verify_container
from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.core.fs.tree import Tree
from hpcmod.core.values.finding import FAIL
from tests.catalogues import make_record
from tests.unit.catalogue.rendered import make_rendered, visible
from tests.unit.catalogue.stage import ADA, ONE, add, killed_at

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(tmp_path: Path) -> Catalogue:
    return make_rendered(tmp_path / "shop")


def assert_whole(catalogue: Catalogue) -> None:
    findings = verify_container(catalogue, catalogue.read(*ONE), images=False)
    assert not [finding for finding in findings if finding.level == FAIL and finding.subject != "image"]


def test_both_catalogues_work_after_a_move(shop: Catalogue, tmp_path: Path) -> None:
    before = visible(shop)
    moved = move_catalogue(shop, tmp_path / "new", actor=ADA)
    assert visible(shop) == before
    assert read_journal(moved.directory)[-1].why == f"because: from {shop.directory}"
    assert (moved.images / "Toy-1.0.sif").samefile(shop.images / "Toy-1.0.sif")
    add(shop, make_record("Toy/2.0"))
    shutil.rmtree(shop.directory)
    assert_whole(moved)
    assert not [name for name, text in visible(moved).items() if f"{shop.directory}/" in text]


def test_a_move_killed_at_any_point_leaves_both_usable_and_finishes_when_run_again(
    shop: Catalogue, tmp_path: Path
) -> None:
    target, before, step, states = tmp_path / "new", visible(shop), 1, set()
    while killed_at(step, lambda: move_catalogue(shop, target, actor=ADA)):
        states.add(target.exists())
        assert visible(shop) == before
        if target.exists():
            open_catalogue(target)
            assert visible(Catalogue(target)).keys() >= before.keys()
        moves = [change.verb for change in read_journal(target)] if target.exists() else []
        if "move" not in moves:
            move_catalogue(open_catalogue(shop.directory), target, actor=ADA)
        assert_whole(Catalogue(target))
        assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "shop"]
        shutil.rmtree(target)
        step += 29
    assert states == {True, False}


def test_a_directory_that_exists_or_is_inside_is_refused(shop: Catalogue, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    moved = move_catalogue(shop, tmp_path / "new", actor=ADA)
    for target in (tmp_path / "taken", moved.directory):
        with pytest.raises(BadInputError, match="already exists"):
            move_catalogue(shop, target, actor=ADA)
    with pytest.raises(BadInputError, match="inside the catalogue"):
        move_catalogue(shop, shop.directory / "new", actor=ADA)


def test_who_may_not_read_an_image_is_told_so_before_anything_is_copied(
    shop: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpcmod.catalogue.admin.move.is_refused", lambda *_: True)
    with pytest.raises(LackingError, match=r"Toy/1\.0 is restricted to the group"):
        check_target(shop, tmp_path / "new")


def test_a_link_put_in_place_of_a_file_meanwhile_is_not_followed(
    shop: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, planted = tmp_path / "secret", shop.advisories / "a.toml"
    secret.write_text("secret")
    planted.write_text("")
    listed = Tree.entries

    def entries(tree: Tree, path: Path | str = "") -> list[tuple[str, os.stat_result]]:
        found = listed(tree, path)
        if path == shop.advisories:
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
