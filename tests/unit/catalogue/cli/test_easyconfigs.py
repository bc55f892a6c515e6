from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.catalogue.cli.containers import Here
from hpcmod.catalogue.cli.easyconfigs import find_own_recipe, find_recipe
from hpcmod.machine.values.site import Site
from hpcmod.machine.values.tables import Gpus
from hpcmod.modules.installed import Installed
from hpcmod.modules.values.install_record import NO_RECORD
from tests.catalogues import make_catalogue, make_record


def test_a_container_for_other_gpus_is_reported_with_the_variant_for_those_here(tmp_path: Path) -> None:
    modules = {"Torch/2.7-gfx90a": ("gfx90a",), "Torch/2.7-gfx942": ("gfx942",), "Only/1": ("gfx942",), "Any/1": ()}
    records = [make_record(module, targets=targets) for module, targets in modules.items()]
    catalogue = make_catalogue(tmp_path / "site", *records)
    for record in records:
        path = catalogue.easyconfigs_of(record.name) / record.publication.easyconfig
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    said: list[str] = []
    here = Here(Site("x", gpu=Gpus(targets=("gfx90a",))), (catalogue,), (), (), said.append)
    assert find_recipe(here, "Torch").module == "Torch/2.7-gfx90a"
    for module in ("Only/1", "Any/1"):
        assert find_recipe(here, module).module == module
    assert said == []
    assert find_recipe(here, "Torch/2.7-gfx942").module == "Torch/2.7-gfx942"
    assert said == ["Torch/2.7-gfx942 is not built for the GPUs here (gfx90a); Torch/2.7-gfx90a is"]


@pytest.mark.parametrize(("state", "source"), [("published", "site"), ("deprecated", "site"), ("retired", "own")])
def test_an_installation_whose_container_is_retired_is_updated_from_its_own_easyconfig(
    tmp_path: Path, state: str, source: str
) -> None:
    record = make_record("Torch/1", state=state)
    catalogue = make_catalogue(tmp_path / "site", record)
    published = catalogue.easyconfigs_of("Torch") / record.publication.easyconfig
    kept = tmp_path / "own/easybuild/Torch-1.eb"
    for path in (published, kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    here = Here(Site("x"), (catalogue,), (), (), print)
    own = Installed("Torch/1", tmp_path / "Torch/1.lua", tmp_path / "own", NO_RECORD)
    assert find_own_recipe(here, own).easyconfig == {"site": published, "own": kept}[source]
