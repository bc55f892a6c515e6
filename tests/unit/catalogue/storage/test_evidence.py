from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.storage.evidence import Evidence, inode_of
from tests.unit.catalogue.stage import make_shop

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(tmp_path: Path) -> Catalogue:
    """A catalogue whose directories are all writable by others."""
    shop = make_shop(tmp_path / "shop", "Toy/1.0")
    for path in (shop.directory, *shop.directory.rglob("*")):
        if path.is_dir():
            path.chmod(0o2775)
    return shop


def is_ours(shop: Catalogue, name: str) -> bool:
    path = shop.directory / name
    return Evidence(shop).find(path, path.lstat()) is not None


@pytest.mark.parametrize(
    "name",
    [
        "images/Toy-1.0.sif",
        "records/Toy/1.0.json",
        "journal.jsonl",
        "index.json",
        "packages.json",
        "catalogue.json",
        "modules/all/Toy",
    ],
)
def test_files_of_the_catalogue_are_recognized(shop: Catalogue, name: str) -> None:
    path = shop.directory / name
    path.chmod(0o755 if path.is_dir() else 0o600)
    assert is_ours(shop, name)


@pytest.mark.parametrize("name", ["images/Toy-1.0.sif", "records/Toy/1.0.json", "journal.jsonl", "images/x.sif"])
def test_another_file_under_the_same_name_is_not(shop: Catalogue, name: str) -> None:
    (shop.directory / name).write_text("my diary\n")
    assert not is_ours(shop, name)


def test_a_directory_that_no_record_names_is_not(shop: Catalogue) -> None:
    (shop.software / "mine/1").mkdir(parents=True, mode=0o700)
    assert not is_ours(shop, "software/mine/1")
    (shop.software / "Toy/1.0").chmod(0o700)
    (shop.software / "Toy/1.0/log").touch()
    assert is_ours(shop, "software/Toy/1.0/log")
    (shop.software / "Toy/1.0").chmod(0o770)
    assert not is_ours(shop, "software/Toy/1.0/log")


def test_evidence_does_not_apply_to_a_file_exchanged_since(shop: Catalogue) -> None:
    path = shop.images / "Toy-1.0.sif"
    before, content = path.lstat(), path.read_bytes()
    path.rename(path.with_name("former"))
    path.write_bytes(content)
    assert inode_of(path.lstat()) != inode_of(before)
    assert Evidence(shop).find(path, before) is None
