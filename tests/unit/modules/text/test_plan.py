from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from hpcmod.modules.text.plan import render_plan
from tests.plans import ENVIRONMENT, make_example


@pytest.mark.parametrize("site", ["generic", "lumi"])
def test_a_plan_is_printed_one_fact_per_line(site: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{site}.plan.txt", "".join(f"{line}\n" for line in render_plan(make_example(site))))


def test_an_image_that_is_used_in_place_is_not_announced_as_a_file() -> None:
    lines = list(render_plan(replace(make_example("lumi"), image_mode="central")))
    assert "image: used in place" in lines
    assert not any(line.startswith("image: /") for line in lines)


def test_without_an_image_the_user_layer_is_not_mentioned() -> None:
    assert not any("user" in line.split(":")[0] for line in render_plan(make_example("generic", facts=None)))


def test_variables_of_the_container_are_reported() -> None:
    plan = make_example("generic")
    lines = list(render_plan(replace(plan, spec=replace(plan.spec, environment=ENVIRONMENT))))
    assert "set in the container unless already set: OMP_NUM_THREADS=4" in lines
