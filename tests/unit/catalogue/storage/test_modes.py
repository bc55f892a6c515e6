from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.catalogue.records.sharing import make_catalogue
from hpcmod.catalogue.records.store import Catalogue, open_catalogue
from hpcmod.catalogue.storage.evidence import Anchor, inode_of
from hpcmod.catalogue.storage.modes import find_wrong_modes, fix_modes, set_modes
from hpcmod.catalogue.visible.kept import render_kept_files
from tests.catalogues import make_record
from tests.unit.catalogue.stage import add, make_shop

pytestmark = pytest.mark.slow


@pytest.fixture(params=[0o755, 0o2775, 0o2770], ids=["one admin", "a group", "closed to others"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Catalogue:
    (tmp_path / "shop").mkdir()
    make_catalogue(Catalogue(tmp_path / "shop"))
    (tmp_path / "shop").chmod(request.param)
    for place in (tmp_path / "shop").rglob("*"):
        place.chmod(request.param)
    catalogue = Catalogue(tmp_path / "shop")
    make_catalogue(catalogue)
    (catalogue.directory / "catalogue.json").chmod(request.param & 0o666)
    set_modes(catalogue, [], since=0.0)
    add(catalogue, make_record("Toy/1.0"))
    list(fix_modes(catalogue, find_wrong_modes(catalogue)))
    return open_catalogue(catalogue.directory)


def names(shop: Catalogue) -> list[str]:
    return [str(one.path.relative_to(shop.directory)) for one in find_wrong_modes(shop)]


def modes(shop: Catalogue) -> dict[Path, int]:
    """Return the modes of all files except locks, which nobody holds while nothing runs."""
    found = (path for path in shop.directory.rglob("*") if shop.locks not in path.parents)
    return {path: path.lstat().st_mode for path in found}


Damage = Callable[[Path], None]
DAMAGES: dict[str, tuple[str, Damage]] = {
    "a file that nobody else reads": ("images/Toy-1.0.sif", lambda path: path.chmod(0o600)),
    "a directory that nobody else enters": ("software/Toy/1.0", lambda path: path.chmod(0o700)),
    "a file that everybody may change": ("kept/Toy/1.0/easyconfig", lambda path: path.chmod(0o666)),
    "a directory that everybody may change": ("records/Toy", lambda path: path.chmod(0o777)),
    "the catalogue's own directory": (".", lambda path: path.chmod(0o700)),
}


@pytest.mark.parametrize(("name", "damage"), DAMAGES.values(), ids=DAMAGES)
def test_a_wrong_mode_is_reported_and_corrected(shop: Catalogue, name: str, damage: Damage) -> None:
    before = (shop.directory / name).stat().st_mode
    assert names(shop) == []
    damage(shop.directory / name)
    assert names(shop) == [name]
    assert list(fix_modes(shop, find_wrong_modes(shop))) == []
    assert (names(shop), (shop.directory / name).stat().st_mode) == ([], before)


def test_a_wrapper_stays_executable_for_all(shop: Catalogue) -> None:
    run = shop.software / "Toy/1.0/run"
    (shop.kept / "Toy/1.0/files.json").write_text(render_kept_files({"run": "", "record.json": '{"files": ["run"]}'}))
    run.chmod(0o700)
    list(fix_modes(shop, find_wrong_modes(shop)))
    assert run.stat().st_mode & 0o011 == shop.mode & 0o011


@pytest.mark.parametrize("umask", [0o077, 0o022])
def test_a_backup_that_was_unpacked_without_its_modes_is_repaired(tmp_path: Path, umask: int) -> None:
    shop = make_shop(tmp_path / "shop", "Toy/1.0")
    shop.directory.chmod(0o2775)
    make_catalogue(shop)
    list(fix_modes(shop, find_wrong_modes(open_catalogue(shop.directory))))
    before = modes(shop)
    archive = str(tmp_path / "backup.tar")
    subprocess.run(["tar", "-C", str(tmp_path), "-cf", archive, "shop"], check=True)
    shutil.rmtree(shop.directory)
    command = f"umask {umask:03o}; tar --no-same-permissions -C {tmp_path} -xf {archive}"
    subprocess.run(["bash", "-c", command], check=True)
    restored = open_catalogue(shop.directory)
    assert names(restored)
    assert list(fix_modes(restored, find_wrong_modes(restored))) == []
    assert modes(shop) == before
    assert shop.directory.stat().st_mode & 0o7777 == 0o2775


def test_an_image_for_a_group_stays_closed_to_others(tmp_path: Path) -> None:
    shop = make_shop(tmp_path / "shop")
    add(shop, replace(make_record("Toy/1.0"), readers="chemists"))
    image = shop.images / "Toy-1.0.sif"
    image.chmod(0o640)
    assert names(shop) == []
    image.chmod(0o644)
    list(fix_modes(shop, find_wrong_modes(shop)))
    assert image.stat().st_mode & 0o777 == 0o640


def test_an_image_for_a_group_that_an_undone_publication_left_is_opened_to_no_one(shop: Catalogue) -> None:
    """It belongs to no container: it is no failure, and gc removes it."""
    image = shop.images / "Toy-2.0.sif"
    image.touch(0o640)
    image.chmod(0o640)
    assert names(shop) == []
    image.chmod(0o600)
    assert names(shop) == ["images/Toy-2.0.sif"]
    list(fix_modes(shop, find_wrong_modes(shop)))
    assert image.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() == 0, reason="root may set every mode")
def test_files_of_another_owner_are_reported_with_the_reason(tmp_path: Path) -> None:
    shop = make_shop(tmp_path / "shop", "Toy/1.0")
    shop.images.chmod(0o700)
    (wrong,) = find_wrong_modes(shop, [shop.images])
    foreign = replace(wrong, path=Path("/etc"), anchor=Anchor(Path("/etc"), inode_of(Path("/etc").stat())))
    assert [reason for _, reason in fix_modes(replace(shop, directory=Path("/")), [foreign])] == [
        "Operation not permitted"
    ]
