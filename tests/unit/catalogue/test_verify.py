from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.values.record import CatalogueRecord
from hpcmod.catalogue.verify import verify_container
from tests.unit.catalogue.stage import make_shop

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(tmp_path: Path) -> Catalogue:
    return make_shop(tmp_path / "shop", "Toy/1.0")


def faults(shop: Catalogue, record: CatalogueRecord | None = None) -> list[str]:
    found = verify_container(shop, record or shop.read("Toy", "1.0"))
    return [f"{one.subject}: {one.found}" for one in found if one.level != "ok"]


def test_an_unchanged_published_container_has_no_faults(shop: Catalogue) -> None:
    assert faults(shop) == []


def test_an_image_that_the_user_may_not_read_is_told_and_the_rest_verified(
    shop: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpcmod.catalogue.verify.is_refused", lambda *_: True)
    damage = DAMAGES["a byte is another one"][0]
    damage(shop.directory)
    fault, *others = faults(shop, replace(shop.read("Toy", "1.0"), readers="staff"))
    assert fault.startswith("image: not read: Toy/1.0 is restricted to the group staff")
    assert not [other for other in others if "sha256" in other]


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte is another one": (lambda top: (top / "images/Toy-1.0.sif").write_bytes(b"imagE of Toy/1.0"), "has sha256"),
    "half is there": (
        lambda top: (top / "images/Toy-1.0.sif").write_bytes(b"image"),
        "has 5 bytes, expected 16 as published",
    ),
    "the image is gone": (lambda top: (top / "images/Toy-1.0.sif").unlink(), "Toy-1.0.sif is missing"),
    "a script is gone": (lambda top: (top / "software/Toy/1.0/run").unlink(), "missing: "),
    "the installation is gone": (lambda top: (top / "software/Toy/1.0/record.json").unlink(), "missing: "),
    "the installation is of 0.1.0": (
        lambda top: (top / "software/Toy/1.0/record.json").write_text('{"record": 1, "files": ["run"]}'),
        "software/Toy/1.0/record.json: damaged, or of an hpcmod before 1.0.0",
    ),
    "the module was edited": (lambda top: (top / "modules/all/Toy/1.0.lua").write_text("x"), "not as published"),
    "the module is gone": (lambda top: (top / "modules/all/Toy/1.0.lua").unlink(), "not as published"),
    "the aliases are gone": (lambda top: (top / "modules/all/Toy/.modulerc.lua").unlink(), "not as published"),
    "the easyconfig is gone": (lambda top: (top / "easyconfigs/t/Toy/Toy-1.0.eb").unlink(), "not as published"),
    "both easyconfigs are gone": (
        lambda top: [(top / name).unlink() for name in ("kept/Toy/1.0/easyconfig", "easyconfigs/t/Toy/Toy-1.0.eb")],
        "missing: ",
    ),
    "what was kept is gone": (lambda top: shutil.rmtree(top / "kept/Toy"), "missing: "),
    "packages were added": (
        lambda top: added(top / "software/Toy/1.0/user-software"),
        "packages were added, which all",
    ),
}


def added(directory: Path) -> None:
    packages = directory / "venv/toy/lib/python3.12/site-packages"
    packages.mkdir(parents=True)
    (packages / "image.pth").touch()
    (packages / "wcwidth.py").touch()


@pytest.mark.parametrize(("damage", "said"), DAMAGES.values(), ids=DAMAGES)
def test_any_damage_is_found(shop: Catalogue, damage: Callable[[Path], object], said: str) -> None:
    damage(shop.directory)
    (fault,) = faults(shop)
    assert said in fault


def test_what_publishing_again_repairs_names_image_name_and_version(shop: Catalogue) -> None:
    record, licence = shop.read("Toy", "1.0"), "0" * 64
    origin = replace(record.publication, reference="/a b/toy.sif")
    shutil.rmtree(shop.kept / "Toy")
    (shop.images / "Toy-1.0.sif").unlink()
    found = verify_container(shop, replace(record, publication=origin, licence=licence))
    cures = [one.cure for one in found if one.level == "fail"]
    again = "To repair it, publish its image again: hpcmod publish '/a b/toy.sif' --name Toy --version 1.0"
    assert cures == [again, again, f"{again} --licence FILE"]


def test_a_changed_module_is_damage_also_if_another_hpcmod_published_it(shop: Catalogue) -> None:
    (shop.software / "Toy/1.0/record.json").write_text('{"hpcmod": "0.0.1", "files": {"run": ""}}')
    assert faults(shop) == []
    (shop.modules / "Toy/1.0.lua").write_text("os.execute('evil')")
    (fault,) = [one for one in verify_container(shop, shop.read("Toy", "1.0")) if one.level != "ok"]
    assert (fault.level, "hpcmod 0.0.1 published it" in fault.found) == ("fail", True)


def test_verify_accepts_retired_containers_removed_by_gc(shop: Catalogue) -> None:
    (shop.images / "Toy-1.0.sif").unlink()
    shutil.rmtree(shop.software / "Toy")
    found = list(verify_container(shop, replace(shop.read("Toy", "1.0"), state="retired")))
    assert [one.subject for one in found if one.level == "warn"] == ["image", "installation"]
    assert [one.found for one in found if one.level == "fail" and one.subject != "visible"] == []


def test_a_private_copy_of_the_image_is_checked_too(shop: Catalogue) -> None:
    (shop.software / "Toy/1.0/Toy-1.0.sif").write_bytes(b"image of Toy/1.1")
    (fault,) = faults(shop)
    assert "software/Toy/1.0/Toy-1.0.sif has sha256" in fault


def test_checks_that_passed_on_another_image_are_reported(shop: Catalogue) -> None:
    record = shop.read("Toy", "1.0")
    stale = replace(record, checks=(replace(record.checks[0], sha256="00" * 32),))
    assert faults(shop, stale) == ["checks: not with this image: ['true']"]
    assert faults(shop, replace(record, checks=())) == ["checks: no check passed with this image"]
