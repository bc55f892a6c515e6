from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hpcmod.catalogue.change import changing, refresh_index
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.verify import verify_container
from hpcmod.catalogue.visible.kept import home_of, installed_files, read_easyconfig, read_files, read_module
from hpcmod.core.errors import BadInputError
from hpcmod.core.values.finding import FAIL
from tests.unit.catalogue.rendered import at, make_rendered, visible
from tests.unit.catalogue.stage import ADA

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(tmp_path: Path) -> Catalogue:
    return make_rendered(tmp_path / "shop")


def stale(shop: Catalogue, old: str) -> list[str]:
    return [name for name, text in visible(shop).items() if f"{old}/" in text]


def damage(shop: Catalogue) -> set[str]:
    found = verify_container(shop, shop.read("Toy", "1.0"))
    return {one.subject for one in found if one.level == FAIL and one.subject != "image"}


def rebuild(shop: Catalogue) -> None:
    with changing(shop, ADA):
        refresh_index(shop, ADA)


def test_a_copied_catalogue_is_noticed_and_repaired_by_a_rebuild(shop: Catalogue, tmp_path: Path) -> None:
    before = visible(shop)
    copy = at(shop, tmp_path / "copy")
    shutil.copytree(shop.directory, copy.directory)
    assert damage(shop) == set()
    assert damage(copy) == {"installation", "visible"}
    rebuild(copy)
    assert (damage(copy), stale(copy, str(shop.directory))) == (set(), [])
    assert visible(shop) == before

    shutil.rmtree(shop.directory)
    copy.directory.rename(shop.directory)
    rebuild(shop)
    assert visible(shop) == before


def test_a_second_name_of_the_directory_changes_nothing(shop: Catalogue, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(shop.directory)
    other, record = at(shop, tmp_path / "link"), shop.read("Toy", "1.0")
    assert home_of(other, record) == str(tmp_path / "link")
    assert read_module(other, record, "Lua") == read_module(shop, record, "Lua")


def test_a_place_with_blanks_is_refused_with_a_reason(shop: Catalogue, tmp_path: Path) -> None:
    moved = at(shop, shop.directory.rename(tmp_path / "my shop"))
    with pytest.raises(BadInputError, match="only letters, digits"):
        rebuild(moved)


def test_a_damaged_script_is_found_and_repaired(shop: Catalogue) -> None:
    before = visible(shop)
    script = shop.software / "Toy/1.0/bin/python"
    script.write_text("exit 1\n")
    assert damage(shop) == {"installation"}
    rebuild(shop)
    assert (damage(shop), visible(shop)) == (set(), before)
    assert script.stat().st_mode & 0o111 == 0o111


def test_a_record_names_no_file_outside_its_installation(tmp_path: Path) -> None:
    (tmp_path / "libexec").mkdir()
    (tmp_path / "libexec/wrapper").write_text("run")
    record = '{"files": {"libexec/wrapper": "", "/etc/passwd": "", "../x": "", "a/b/c": ""}}'
    (tmp_path / "record.json").write_text(record)
    assert set(installed_files(Catalogue(tmp_path), tmp_path)) == {"libexec/wrapper", "record.json"}


@pytest.mark.parametrize("name", ["easyconfig", "module.lua", "files.json"])
def test_no_link_that_a_member_of_the_group_planted_is_read(shop: Catalogue, tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    planted = shop.kept / "Toy" / "1.0" / name
    planted.unlink()
    planted.symlink_to(secret)
    with pytest.raises(BadInputError, match="symbolic link"):
        render_kept(shop, "Toy", "1.0")
    planted.unlink()
    shutil.move(shop.kept / "Toy", tmp_path / "moved")
    (shop.kept / "Toy").symlink_to(tmp_path / "moved")
    with pytest.raises(BadInputError):
        render_kept(shop, "Toy", "1.0")


def render_kept(shop: Catalogue, name: str, version: str) -> None:
    record = shop.read(name, version)
    read_module(shop, record, "Lua")
    read_easyconfig(shop, record)
    read_files(shop, record)
