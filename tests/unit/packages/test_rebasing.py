from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.core.values.facts import Package
from hpcmod.packages import rebasing
from hpcmod.packages.builder import Builder
from hpcmod.packages.rebasing import choose_source, plan_rebase
from hpcmod.packages.values.conda import CondaPart
from hpcmod.packages.values.plan import PackageChange, StatePlan
from hpcmod.packages.values.state import Locked
from tests.package_states import EINOPS, NEEDY, OTHER_TAG, TARGET, make_state, write_set
from tests.unit.packages.conftest import Answer
from tests.unit.packages.values.test_conda import PART, SAMTOOLS

OLD = make_state(1, EINOPS, NEEDY, tag=OTHER_TAG, module="PyTorch/2.6.0", python="3.11")


def test_the_source_is_what_fits_least_or_what_is_asked_for(tmp_path: Path) -> None:
    found = write_set(tmp_path / "default", OLD, make_state(2, NEEDY, tag=OTHER_TAG, module="PyTorch/2.6.0"))
    assert choose_source(TARGET, found, "").number == 2
    assert choose_source(TARGET, found, "1") == OLD
    assert choose_source(TARGET, found, "2.6").number == 2
    with pytest.raises(NotFoundError, match="version 9"):
        choose_source(TARGET, found, "9.0")
    mine = write_set(tmp_path / "default", make_state(3, EINOPS))
    assert choose_source(TARGET, mine, "").number == 3
    emptied = write_set(tmp_path / "default", make_state(4))
    assert choose_source(TARGET, emptied, "").number == 2
    dropped = write_set(tmp_path / "dropped", OLD, make_state(2, tag=OTHER_TAG, parent=1))
    with pytest.raises(NotFoundError, match="you have no packages") as caught:
        choose_source(TARGET, dropped, "")
    assert "--from N" in caught.value.cure


def test_packages_of_the_active_state_that_the_source_does_not_have_are_listed_as_removed(
    tmp_path: Path, builder: Builder, answer: Answer
) -> None:
    found = write_set(tmp_path / "default", OLD, make_state(2, Locked("mdurl", "0.1")))
    answer(lambda plan: (EINOPS, NEEDY))
    rebase = plan_rebase(TARGET, found, OLD, PackageChange(), builder)
    assert list(map(str, rebase.differences)) == [
        "einops: same 0.8.1",
        "needy: same 1.0",
        "mdurl: removed 0.1 (of the packages that are active now)",
    ]


def test_versions_are_kept_where_they_fit(tmp_path: Path, builder: Builder, answer: Answer) -> None:
    asked = []

    def resolve(plan: StatePlan) -> tuple[Locked, ...]:
        asked.append(plan.constraints)
        if "einops==0.8.1" in plan.constraints:
            raise BadInputError("no")
        return (replace(EINOPS, version="0.9"), NEEDY)

    answer(resolve)
    found = write_set(tmp_path / "default", OLD)
    rebase = plan_rebase(TARGET, found, OLD, PackageChange(), builder)
    assert list(map(str, rebase.differences)) == ["einops: changed 0.8.1 -> 0.9", "needy: same 1.0"]
    assert len(asked) == 2
    assert rebase.failures == []


def test_each_package_that_cannot_be_installed_is_reported_with_the_reason(
    tmp_path: Path, builder: Builder, answer: Answer
) -> None:
    gone, image = Locked("gone", "1"), Package("torchvision", "0.22")
    source = make_state(1, EINOPS, NEEDY, gone, Locked("torchvision", "0.21"), tag=OTHER_TAG)
    target = replace(TARGET, packages=(*TARGET.packages, image))

    def resolve(plan: StatePlan) -> tuple[Locked, ...]:
        if "gone" in plan.lines:
            raise NotFoundError("no version of gone fits")
        if "needy" in plan.lines:
            raise BadInputError("needy conflicts with torch:")
        return (EINOPS,) if plan.lines == ("einops",) else ()

    answer(resolve)
    found = write_set(tmp_path / "default", source)
    rebase = plan_rebase(target, found, source, PackageChange(), builder)
    assert list(map(str, rebase.differences)) == [
        "einops: same 0.8.1",
        "gone: gone 1 (no version of gone fits)",
        "needy: conflict 1.0 (needy conflicts with torch)",
        "torchvision: in the image 0.21 -> 0.22",
    ]
    left = plan_rebase(target, found, source, PackageChange(dropped=("gone", "needy")), builder)
    assert left.failures == []
    assert found.states() == [source]


def test_conda_packages_are_resolved_again_and_reported_with_those_of_pip(
    tmp_path: Path, builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = replace(OLD, conda=replace(PART, requirements=("samtools=1.19", "htslib")))
    asked = []

    def resolve(plan: StatePlan, _: Builder) -> tuple[tuple[Locked, ...], CondaPart]:
        asked.append(plan.conda.packages)
        if plan.conda.packages:
            raise BadInputError("does not fit with the builds of before")
        if not plan.conda.requirements:
            return (EINOPS, NEEDY), plan.conda
        return (EINOPS, NEEDY), replace(plan.conda, packages=(replace(SAMTOOLS, build="h6_0"),))

    monkeypatch.setattr(rebasing, "resolve_packages", resolve)
    found = write_set(tmp_path / "default", before)
    rebase = plan_rebase(TARGET, found, before, PackageChange(), builder)
    assert list(map(str, rebase.differences)) == [
        "htslib: in the image 1.19 (conda)",
        "samtools: changed 1.19 h5_0 -> 1.19 h6_0 (conda)",
        "einops: same 0.8.1",
        "needy: same 1.0",
    ]
    assert asked == [PART.packages, ()]
    dropped = plan_rebase(TARGET, found, before, PackageChange(dropped=("samtools", "htslib")), builder)
    assert [str(one) for one in dropped.differences[:2]] == [
        "htslib: removed 1.19 (conda)",
        "samtools: removed 1.19 (conda)",
    ]
