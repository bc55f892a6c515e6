from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.packages.builder import Builder
from hpcmod.packages.importing import plan_import, read_list, read_source
from hpcmod.packages.values.plan import PackageChange, StatePlan
from hpcmod.packages.values.requirement import Requirements
from hpcmod.packages.values.sources import Source
from hpcmod.packages.values.state import Locked
from tests.package_states import EINOPS, NEEDY, TARGET, make_state, write_set
from tests.unit.packages.conftest import Answer

CHANGE = PackageChange(action="add --from x")


def test_a_list_may_include_others(tmp_path: Path) -> None:
    (tmp_path / "freeze.txt").write_text("one==1\n")
    (tmp_path / "list.txt").write_text("two\n-r freeze.txt\n")
    assert read_source(tmp_path / "list.txt").asked.lines == ("two", "one")


def test_what_has_no_packages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="is a directory") as caught:
        read_source(tmp_path)
    assert "List its packages: python -m pip freeze --local" in caught.value.cure
    (tmp_path / "bin/python").mkdir(parents=True)
    with pytest.raises(BadInputError) as caught:
        read_source(tmp_path)
    assert f"{tmp_path}/bin/python -m pip freeze --local" in caught.value.cure
    with pytest.raises(NotFoundError):
        read_source(tmp_path / "missing")
    (tmp_path / "empty").write_text("-e /mine\n")
    with pytest.raises(BadInputError, match="names no package"):
        read_source(tmp_path / "empty")
    (tmp_path / "binary").write_bytes(b"\x80\xff")
    with pytest.raises(BadInputError, match="UTF-8"):
        read_source(tmp_path / "binary")


def test_they_join_the_packages_of_the_set_and_the_image_keeps_its_own(
    tmp_path: Path, builder: Builder, answer: Answer
) -> None:
    asked = []

    def resolve(plan: StatePlan) -> tuple[Locked, ...]:
        asked.append(plan)
        return (EINOPS, NEEDY)

    answer(resolve)
    found = write_set(tmp_path / "default", make_state(1, EINOPS))
    wanted = Requirements(("needy", "torch"), options=("--pre",))
    source = Source(wanted, (("needy", "1.0"), ("torch", "2.6")))
    rebase = plan_import(TARGET, found, source, CHANGE, builder)
    assert asked[0].lines == ("einops", "needy", "torch")
    assert {"einops==0.8.1", "needy==1.0", "torch==2.7.1+rocm6.2.4"} <= set(asked[0].constraints)
    assert list(map(str, rebase.differences)) == [
        *("einops: same 0.8.1", "needy: same 1.0", "torch: in the image 2.6 -> 2.7.1+rocm6.2.4"),
    ]
    assert (rebase.plan.action, rebase.plan.parent.number) == ("add --from x", 1)  # type: ignore[union-attr]


def test_what_is_left_out_or_cannot_be_installed(tmp_path: Path, builder: Builder, answer: Answer) -> None:
    def resolve(plan: StatePlan) -> tuple[Locked, ...]:
        if "lost" in plan.lines:
            raise NotFoundError("no version of lost")
        return (EINOPS,) if "einops" in plan.lines else ()

    answer(resolve)
    found = write_set(tmp_path / "default")
    source = Source(Requirements(("einops", "lost")), (("einops", "0.8"),))
    assert [str(one) for one in plan_import(TARGET, found, source, CHANGE, builder).failures] == [
        "lost: gone (no version of lost)"
    ]
    rebase = plan_import(TARGET, found, source, replace(CHANGE, dropped=("lost",)), builder)
    assert (rebase.failures, rebase.plan.requirements) == ([], ("einops",))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
def test_a_list_is_read_in_the_encodings_that_pip_reads(tmp_path: Path, encoding: str) -> None:
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    (tmp_path / "requirements.txt").write_bytes(f"{mark}einops  # \u00fc\r\n".encode(encoding))
    assert read_list(str(tmp_path / "requirements.txt")).lstrip("\ufeff") == "einops  # \u00fc\r\n"
