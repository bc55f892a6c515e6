from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import Result

from hpcmod.catalogue.records.store import Catalogue
from tests.calls import hpcmod
from tests.unit.catalogue.stage import load, make_shop

pytestmark = pytest.mark.slow

MAY = 1_778_000_000.0
DAY = time.strftime("%Y-%m-%d", time.gmtime(MAY))


@pytest.fixture
def shop(tmp_path: Path) -> Catalogue:
    shop = make_shop(tmp_path / "shop", "Toy/1.0", "Toy/2.0", counts_use=True)
    for _ in range(3):
        load(shop, "Toy/1.0", MAY)
    return shop


def call(shop: Catalogue, *words: str, site: str = "generic") -> Result:
    env = {"HPCMOD_CATALOGUE": str(shop.directory), "HPCMOD_SITE": site}
    return hpcmod("catalogue", "usage", *words, **env)


def test_usage_is_a_line_a_container_and_month(shop: Catalogue) -> None:
    assert call(shop).stdout == f"Toy/1.0  2026-05  3  {DAY}\n"
    assert call(shop, "Toy/2.0").stderr == "hpcmod: no loads counted\n"
    assert [call(shop, *unknown).exit_code for unknown in (["Toyy"], ["Toy/3"], ["Toyy", "--json"])] == [3, 3, 3]
    assert call(shop, "--month", "2026-06").stdout == ""
    assert call(shop, "--month", "2026-13").exit_code == 2


def test_groups_are_counted_separately_and_users_only_if_the_site_wants_it(shop: Catalogue, tmp_path: Path) -> None:
    assert len(call(shop, "--groups").stdout.split()) == 5
    refused = call(shop, "--users")
    assert (refused.exit_code, "does not allow user names" in refused.stderr) == (2, True)
    (row,) = json.loads(call(shop, "--json").stdout)["usage"]
    assert (row["user"], row["loads"]) == ("", 3)
    site = tmp_path / "site.toml"
    site.write_text('name = "here"\nextends = "generic"\n[usage]\nnames = "users"\n')
    assert len(call(shop, "--users", site=str(site)).stdout.split()) == 6


def test_fold_adds_up_and_shows_the_same(shop: Catalogue) -> None:
    before = call(shop).stdout
    assert call(shop, "--fold").stdout == before
    assert list(shop.loads.iterdir()) == []
    assert call(shop).stdout == before
