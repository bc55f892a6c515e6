from __future__ import annotations

from pathlib import Path

from hpcmod.catalogue.finding.listing import list_containers
from hpcmod.catalogue.records.index import read_index
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.modules.installed import Installed
from hpcmod.modules.values.install_record import InstalledImage, InstallRecord
from tests.catalogues import make_catalogue, make_record


def make_module(catalogue: Catalogue, module: str) -> None:
    path = catalogue.modules / f"{module}.lua"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def installed(module: str) -> Installed:
    return Installed(
        module, Path("/m") / module, Path("/r") / module, InstallRecord(site="lumi", image=InstalledImage(size=7))
    )


def test_each_container_is_listed_with_what_can_be_done_with_it_here(tmp_path: Path) -> None:
    site = make_catalogue(
        tmp_path / "site",
        make_record("A/1", site="lumi", architecture="amd64"),
        make_record("A/2", site="lumi", architecture="arm64"),
        make_record("A/3", site="other"),
        make_record("B/1", state="deprecated"),
        make_record("B/2", state="retired"),
        make_record("C/1"),
        make_record("D/1"),
    )
    for module in ("A/1", "A/2", "A/3", "B/1", "B/2"):
        make_module(site, module)
    found = list_containers(
        [read_index(site)], [installed("D/1"), installed("Zmine/1")], site="lumi", architecture="amd64"
    )
    assert {one.module: (one.place, one.state, one.yours) for one in found} == {
        "A/1": ("ready", "published", False),
        "A/2": ("elsewhere", "published", False),
        "A/3": ("elsewhere", "published", False),
        "B/1": ("ready", "deprecated", False),
        "B/2": ("available", "retired", False),
        "C/1": ("available", "published", False),
        "D/1": ("ready", "published", True),
        "Zmine/1": ("ready", "published", True),
    }
    assert [one.module for one in found] == sorted(one.module for one in found)
    assert (found[-1].size, found[-1].machine, found[-1].catalogue) == (7, "lumi", "")


def test_the_first_catalogue_hides_the_same_container_of_a_later_one(tmp_path: Path) -> None:
    first = make_catalogue(tmp_path / "first", make_record("A/1", size=1))
    second = make_catalogue(tmp_path / "second", make_record("A/1", size=2), make_record("A/2"))
    found = list_containers([read_index(first), read_index(second)], [], site="x", architecture="amd64")
    assert [(one.module, one.size) for one in found] == [("A/1", 1), ("A/2", 21_000_000)]
