from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from hpcmod.catalogue.records.index import INDEX, PACKAGES, Index, read_index, write_index
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.values.record import CatalogueRecord
from hpcmod.core.errors import BadInputError
from hpcmod.core.values.facts import Package
from tests.catalogues import change_record, make_catalogue, make_record, put

pytestmark = pytest.mark.slow

MODULES = ["PyTorch/2.7.1", "PyTorch/2.10.0", "vLLM/0.9", "jax/0.6"]


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    """A catalogue of four containers; only PyTorch 2.10.0 has flash_attn."""
    found = make_catalogue(tmp_path / "site", *map(make_record, MODULES))
    put(found, make_record("PyTorch/2.10.0", packages=(Package("flash_attn", "2.8"), Package("numpy", "2.2.0"))))
    return found


def modules(index: Index) -> list[str]:
    return [entry.module for entry in index.entries]


def having(index: Index, package: str) -> list[str]:
    return sorted(f"{entry.module} {one.name} {one.version}" for entry, one in index.find_packages(package.__eq__))


def look(catalogue: Catalogue) -> tuple[object, ...]:
    """Return everything that a reader can get from the index."""
    index = read_index(catalogue)
    packages = sorted((entry, one.name, one.version) for entry, one in index.find_packages(lambda _: True))
    return index.entries, having(index, "flash-attn"), packages


def test_an_index_agrees_with_the_records(catalogue: Catalogue) -> None:
    without = look(catalogue)
    write_index(catalogue)
    old = read_index(catalogue)
    assert look(catalogue) == without
    assert modules(read_index(catalogue)) == ["jax/0.6", "PyTorch/2.7.1", "PyTorch/2.10.0", "vLLM/0.9"]
    put(catalogue, make_record("AAA/1", packages=(Package("aaa", "1"),)))
    write_index(catalogue)
    assert having(old, "flash-attn") == ["PyTorch/2.10.0 flash_attn 2.8"]


def test_an_index_of_now_is_read_and_no_record_is(catalogue: Catalogue) -> None:
    write_index(catalogue)
    for path in catalogue.records_directory.rglob("*.json"):
        path.write_text("damaged, in place, which no directory notices")
    assert len(read_index(catalogue).entries) == len(MODULES)


CHANGES = {
    "a new version": lambda it: put(it, make_record("PyTorch/3.0", packages=(Package("Flash-Attn", "3"),))),
    "a new name": lambda it: put(it, make_record("TensorFlow/2.19")),
    "a state": lambda it: put(it, make_record("vLLM/0.9", state="retired")),
    "other packages": lambda it: put(it, make_record("PyTorch/2.7.1", packages=(Package("flash.attn", "1"),))),
    "one removed": lambda it: it.record_path("PyTorch", "2.10.0").unlink(),
    "a name removed": lambda it: (it.record_path("jax", "0.6").unlink(), (it.records_directory / "jax").rmdir()),
}


@pytest.mark.parametrize("names", [{"name": "jax$(id)"}, {"version": "0.6;id"}, {"aliases": "stable `id`"}])
def test_an_index_with_names_that_no_record_may_have_is_ignored(catalogue: Catalogue, names: dict[str, str]) -> None:
    write_index(catalogue)
    wanted = look(catalogue)
    stored = json.loads((catalogue.directory / INDEX).read_text())
    stored["names"]["jax"]["versions"]["0.6"] |= names
    (catalogue.directory / INDEX).write_text(json.dumps(stored))
    assert "id" not in str(look(catalogue))
    assert look(catalogue) == wanted


@pytest.mark.parametrize("at", [0, 1, 40, 400, -400, -40, -2])
@pytest.mark.parametrize("how", ["cut", "changed"])
@pytest.mark.parametrize("file", [INDEX, PACKAGES])
def test_a_broken_index_is_ignored_and_replaced(catalogue: Catalogue, at: int, how: str, file: str) -> None:
    write_index(catalogue)
    wanted = look(catalogue)
    path = catalogue.directory / file
    text = path.read_bytes()
    path.write_bytes(text[:at] if how == "cut" else text[:at] + b"\x00" + text[at:][1:])
    assert look(catalogue) == wanted
    write_index(catalogue)
    assert path.read_bytes() == text


INVALID = (
    "",
    "[]",
    "{}",
    '{"format": 99, "names": {}}',
    "null",
    "\x00" * 99,
    '{"format": 1, "names": {"jax": {"changed": 0, "versions": []}}}',
    '{"format": 1, "names": {"jax": {"changed": 0, "versions": {"0.6": []}}}}',
    '{"format": 1, "names": {"jax": {"changed": 0, "versions": {"0.6": {"name": "jax"}}}}}',
)


@pytest.mark.parametrize("text", INVALID)
@pytest.mark.parametrize("file", [INDEX, PACKAGES])
def test_an_invalid_index_is_ignored(catalogue: Catalogue, text: str, file: str) -> None:
    changed = (catalogue.records_directory / "jax").stat().st_mtime_ns
    wanted = look(catalogue)
    if file == PACKAGES:
        text = text.replace('{"name": "jax"}', "null")
    (catalogue.directory / file).write_text(text.replace('"changed": 0', f'"changed": {changed}'))
    assert look(catalogue) == wanted


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen_with_an_old_index_an_updated_one_a_new_one_and_none(
    catalogue: Catalogue, change: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_index(catalogue)
    before = look(catalogue)
    change(catalogue)  # type: ignore[operator]
    seen = look(catalogue)
    assert seen != before
    read = read_what(monkeypatch)
    write_index(catalogue)
    assert len({module.partition("/")[0] for module in read}) <= 1
    assert look(catalogue) == seen
    write_index(catalogue, anew=True)
    assert look(catalogue) == seen
    (catalogue.directory / INDEX).unlink()
    (catalogue.directory / PACKAGES).unlink()
    assert look(catalogue) == seen


def read_what(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which every read of a record from now on adds its container."""
    read: list[str] = []
    find = Catalogue.find

    def watched(self: Catalogue, name: str, version: str) -> CatalogueRecord | None:
        read.append(f"{name}/{version}")
        return find(self, name, version)

    monkeypatch.setattr(Catalogue, "find", watched)
    return read


def test_an_index_is_right_after_a_long_history(catalogue: Catalogue) -> None:
    choose = random.Random(1)  # noqa: S311 - data for a test
    names = ("torch", "numpy", "flash_attn", "flash-attn", "Flash.Attn")
    for _ in range(120):
        module = f"Name{choose.randrange(4)}/{choose.randrange(4)}"
        path = catalogue.record_path(*module.split("/"))
        if path.is_file() and choose.random() < 0.3:
            path.unlink()
        else:
            packages = [Package(name, str(choose.randrange(3))) for name in names if choose.random() < 0.5]
            put(catalogue, make_record(module, packages=tuple(packages)))
        write_index(catalogue)
    files = [catalogue.directory / name for name in (INDEX, PACKAGES)]
    seen, texts = look(catalogue), [json.loads(path.read_bytes()) for path in files]
    write_index(catalogue, anew=True)
    assert look(catalogue) == seen
    assert [json.loads(path.read_bytes()) for path in files] == texts


def test_an_index_made_again_believes_no_directory(catalogue: Catalogue) -> None:
    write_index(catalogue)
    path = catalogue.record_path("vLLM", "0.9")
    path.write_text(path.read_text().replace("vLLM as a container", "in place"))
    write_index(catalogue)
    assert "in place" not in [entry.description for entry in read_index(catalogue).entries]
    write_index(catalogue, anew=True)
    assert "in place" in [entry.description for entry in read_index(catalogue).entries]


def test_a_change_right_after_the_index_gets_another_time(catalogue: Catalogue) -> None:
    record = make_record("PyTorch/2.7.1")
    for number in range(5):
        write_index(catalogue)
        put(catalogue, change_record(record, description=f"change {number}"))
        assert f"change {number}" in [entry.description for entry in read_index(catalogue).entries]


@pytest.mark.parametrize(
    "text", ["{", '{"record": 1}', '{"record": 99}'], ids=["no JSON", "no fields", "another version"]
)
def test_a_damaged_record_is_reported_and_hides_no_other(catalogue: Catalogue, text: str) -> None:
    catalogue.record_path("vLLM", "0.9").write_text(text)
    write_index(catalogue)
    index = read_index(catalogue)
    assert modules(index) == ["jax/0.6", "PyTorch/2.7.1", "PyTorch/2.10.0"]
    assert "vLLM/0.9.json" in index.damaged[0]
    assert having(index, "flash-attn") == ["PyTorch/2.10.0 flash_attn 2.8"]
    with pytest.raises(BadInputError) as raised:
        tuple(catalogue.records())
    assert ("catalogue rebuild" in raised.value.cure) == ("99" not in text)


@pytest.mark.parametrize("place", ["vLLM/0.9.json", "vLLM", "."])
def test_unreadable_records_are_reported_and_hide_no_others(catalogue: Catalogue, place: str) -> None:
    path = catalogue.records_directory / place
    path.chmod(0)
    try:
        index = read_index(catalogue)
    finally:
        path.chmod(0o700)
    if os.geteuid():
        assert "Permission denied" in index.damaged[0]
        assert modules(index) == ([] if place == "." else ["jax/0.6", "PyTorch/2.7.1", "PyTorch/2.10.0"])


def test_a_record_of_another_container_is_damaged(catalogue: Catalogue) -> None:
    path = catalogue.record_path("vLLM", "0.9")
    catalogue.record_path("jax", "1.0").write_bytes(path.read_bytes())
    assert "is the record of vLLM/0.9" in read_index(catalogue).damaged[0]


def test_hostile_texts_are_data(tmp_path: Path) -> None:
    text = 'a"b\n\t\\ \u2028 ]}{[ \U0001f525'
    catalogue = make_catalogue(
        tmp_path / "hostile", make_record("A/1", description=text, packages=(Package(text, text),))
    )
    without = read_index(catalogue).entries, list(read_index(catalogue).find_packages(bool))
    write_index(catalogue)
    assert (read_index(catalogue).entries, list(read_index(catalogue).find_packages(bool))) == without
    assert without[1][0][1] == Package(text, text)
