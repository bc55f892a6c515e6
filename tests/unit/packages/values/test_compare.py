from __future__ import annotations

from dataclasses import replace

from hpcmod.core.values.facts import Package
from hpcmod.packages.values.compare import compare_locked, compare_with_image, find_in_image
from hpcmod.packages.values.state import Locked
from tests.package_states import EINOPS, NEEDY, TARGET, make_state

NEW = Locked("new", "1")


def test_each_package_of_two_states_has_a_difference() -> None:
    found = compare_locked((EINOPS, NEEDY), (replace(EINOPS, version="0.9"), NEW))
    assert list(map(str, found)) == ["einops: changed 0.8.1 -> 0.9", "needy: removed 1.0", "new: added 1"]
    assert list(map(str, compare_locked((EINOPS,), (EINOPS,)))) == ["einops: same 0.8.1"]


def test_on_another_image_a_package_may_be_part_of_it() -> None:
    target = replace(TARGET, packages=(Package("Einops", "0.9"),))
    before = make_state(1, EINOPS, NEEDY, NEW, requirements=("einops", "needy"))
    found = compare_with_image(before, (NEEDY,), target)
    assert list(map(str, found)) == [
        "einops: in the image 0.8.1 -> 0.9",
        "needy: same 1.0",
        "new: removed 1 (no longer needed)",
    ]


def test_reports_required_packages_of_the_image() -> None:
    assert find_in_image(("torch<3", "einops", "nowhere"), (EINOPS,), TARGET) == ("torch==2.7.1+rocm6.2.4",)
