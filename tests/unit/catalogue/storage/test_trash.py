from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.storage.trash import check_removable, delete_trash, move_to_trash, moves_back, moves_out, trash_of
from hpcmod.errors import BadInputError


@pytest.fixture
def shop(tmp_path: Path) -> Catalogue:
    (tmp_path / "images").mkdir()
    (tmp_path / "images/a.sif").write_text("a")
    return Catalogue(tmp_path)


def test_files_go_and_come_back_however_often_it_is_done(shop: Catalogue) -> None:
    out = moves_out(7, ["images/a.sif"])
    for _ in range(2):
        move_to_trash(shop, out)
        assert not (shop.images / "a.sif").exists()
    back = moves_back(shop, 7, ["images/a.sif"])
    for _ in range(2):
        move_to_trash(shop, back)
        assert (shop.images / "a.sif").read_text() == "a"


def test_deleted_files_do_not_come_back(shop: Catalogue) -> None:
    move_to_trash(shop, moves_out(7, ["images/a.sif"]))
    assert delete_trash(shop, older_than=0) == []
    assert [path.name for path in trash_of(shop)] == ["7"]
    assert delete_trash(shop, older_than=float("inf")) == []
    with pytest.raises(BadInputError, match=r"for good: images/a\.sif"):
        moves_back(shop, 7, ["images/a.sif"])


def test_a_place_that_is_taken_again_is_not_overwritten(shop: Catalogue) -> None:
    move_to_trash(shop, moves_out(7, ["images/a.sif"]))
    (shop.images / "a.sif").write_text("new")
    with pytest.raises(BadInputError, match=r"images/a\.sif exists again"):
        moves_back(shop, 7, ["images/a.sif"])


def test_accepts_files_that_this_user_can_remove(shop: Catalogue) -> None:
    check_removable(shop, ["images/a.sif", "images"])
