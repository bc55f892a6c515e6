from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.errors import HpcmodError
from hpcmod.importing.builds.hpccm import convert_hpccm
from hpcmod.importing.outcome import ImportedRecipe
from hpcmod.model.recipes.recipe import parse_recipe
from hpcmod.render.recipe import render_recipe
from tests.build_recipes import BASE, HPCCMS, write_sources
from tests.key_tables import RESULTS, read_results

ROWS = read_results("import-builds.md", "Recipes of HPCCM")


def convert(text: str, root: Path) -> ImportedRecipe:
    return convert_hpccm(text, write_sources(root) / "recipe.py")


def test_the_table_has_a_sample_for_every_row() -> None:
    assert [key for key, _ in ROWS] == list(HPCCMS)
    assert {result for _, result in ROWS} <= set(RESULTS)


@pytest.mark.parametrize(("result", "text"), [(result, text) for key, result in ROWS for text in HPCCMS[key]])
def test_each_row_of_the_table_is_true(result: str, text: str, tmp_path: Path) -> None:
    if result == "refused":
        with pytest.raises(HpcmodError):
            convert(text, tmp_path)
        return
    one = convert(text, tmp_path)
    found = {"carried": not (one.left_out or one.changed), "changed": one.changed and not one.left_out}
    assert found.get(result, one.left_out), (one.left_out, one.changed)
    parse_recipe(render_recipe(one.text, ())["recipe.toml"], one.name)


def test_what_would_have_to_be_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(HpcmodError, match="line 2: the building block mlnx_ofed would have to be run"):
        convert(f"{BASE}Stage0 += mlnx_ofed(version='5.8')\n", tmp_path)


def test_nothing_of_it_is_run(tmp_path: Path) -> None:
    with pytest.raises(HpcmodError):
        convert(f"{BASE}Stage0 += shell(commands=[open('{tmp_path}/owned', 'w').name])\n", tmp_path)
    assert not (tmp_path / "owned").exists()
