"""The campaign of planted faults: its lists are complete, and its page is generated from its results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.planted.judge import FOUND, MISSED, judge
from tests.planted.plants import CHECK, HEALTHY, KINDS, WHY, all_plants
from tests.planted.results import RESULTS, make_page, read_results
from tests.stack import CHECKOUT

PAGE = CHECKOUT / "docs" / "explanation" / "planted-faults.md"


@pytest.mark.golden
def test_the_page_is_made_from_the_results(golden: Callable[[Path, str], None]) -> None:
    golden(PAGE, make_page(all_plants(), read_results(RESULTS)))


def test_ten_of_each_kind_are_planted_and_each_has_a_result() -> None:
    plants = all_plants()
    assert len({plant.name for plant in plants}) == len(plants)
    assert Counter(plant.kind for plant in plants if plant.kind != HEALTHY) == dict.fromkeys(KINDS, 10)
    assert set(read_results(RESULTS)) == {plant.name for plant in plants}


def finding(node: str, rule: str) -> dict[str, str]:
    return {"subject": node, "rule": rule, "level": "fail", "found": "required bind path is missing"}


def test_a_finding_about_another_node_is_a_false_alarm() -> None:
    plant = next(plant for plant in all_plants() if (plant.kind, plant.command) == ("bind", CHECK))
    right, wrong = finding("nid001", "bind"), finding("nid002", "bind")
    assert judge(plant, {"findings": [right]}).outcome == FOUND
    assert judge(plant, {"findings": [right, wrong]}).alarms == ("nid002 bind",)
    assert judge(plant, {"findings": []}).outcome == MISSED


def test_a_sleeping_rank_must_be_named_alone() -> None:
    plant = next(plant for plant in all_plants() if (plant.kind, plant.command) == ("asleep", WHY))
    mine = {"ranks": [plant.rank], "what": "use no CPU at train.py:1 in load_data", "waits": False}
    other = {"ranks": [0], "what": "use no CPU at train.py:9 in x", "waits": False}
    assert judge(plant, {"doing": [mine], "failed": True}).outcome == FOUND
    assert judge(plant, {"doing": [mine, other], "failed": True, "unknown": []}).outcome == MISSED
