from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpcmod.core.errors import VerificationError
from hpcmod.core.values.facts import Package
from hpcmod.packages.values.compare import check_unchanged, compare_packages, compare_with_image, find_in_image
from hpcmod.packages.values.conda import CondaPackage, CondaPart
from hpcmod.packages.values.state import Locked
from tests.package_states import EINOPS, NEEDY, TARGET, make_state
from tests.unit.packages.values.test_conda import HTSLIB, SAMTOOLS

NEW = Locked("new", "1")


def test_each_package_of_two_states_has_a_difference() -> None:
    found = compare_packages((EINOPS, NEEDY), (replace(EINOPS, version="0.9"), NEW))
    assert list(map(str, found)) == ["einops: changed 0.8.1 -> 0.9", "needy: removed 1.0", "new: added 1"]
    assert list(map(str, compare_packages((EINOPS,), (EINOPS,)))) == ["einops: same 0.8.1"]
    other_build = compare_packages([HTSLIB], [replace(HTSLIB, build="h6_0")], "conda")
    assert list(map(str, other_build)) == [
        f"htslib: changed {HTSLIB.version} {HTSLIB.build} -> {HTSLIB.version} h6_0 (conda)"
    ]


def test_on_another_image_a_package_may_be_part_of_it() -> None:
    target = replace(TARGET, packages=(Package("Einops", "0.9"),))
    part = CondaPart(("samtools", "greet"), packages=(CondaPackage("greet", "1", "0", "", ""), HTSLIB, SAMTOOLS))
    before = make_state(1, EINOPS, NEEDY, NEW, requirements=("einops", "needy"), conda=part)
    found = compare_with_image(before, (NEEDY,), CondaPart(("samtools",)), target)
    assert list(map(str, found)) == [
        "greet: removed 1 (conda)",
        f"htslib: removed {HTSLIB.version} (conda; no longer needed)",
        f"samtools: in the image {SAMTOOLS.version} (conda)",
        "einops: in the image 0.8.1 -> 0.9",
        "needy: same 1.0",
        "new: removed 1 (no longer needed)",
    ]


def test_reports_required_packages_of_the_image() -> None:
    assert find_in_image(("torch<3", "einops", "nowhere"), (EINOPS,), TARGET) == ("torch==2.7.1+rocm6.2.4",)


WHEEL = Locked("numpy", "2.1.0", "a" * 64, "https://example.org/numpy-2.1.0-cp311-cp311-linux_x86_64.whl")


@pytest.mark.parametrize(
    ("old", "new", "is_refused"),
    [
        (EINOPS, replace(EINOPS, sha256="f" * 64), True),
        (EINOPS, replace(EINOPS, sha256="f" * 64, version="0.9"), False),
        (EINOPS, replace(EINOPS, sha256=""), False),
        (WHEEL, replace(WHEEL, sha256="b" * 64, url=WHEEL.url.replace("cp311", "cp312")), False),
        (WHEEL, replace(WHEEL, sha256="b" * 64, url=WHEEL.url.replace("example", "mirror.example")), True),
        (SAMTOOLS, replace(SAMTOOLS, sha256="c" * 64), True),
        (SAMTOOLS, replace(SAMTOOLS, sha256="c" * 64, url=SAMTOOLS.url.replace(".conda", ".tar.bz2")), False),
    ],
)
def test_a_file_with_other_content_than_before_is_refused(old: Any, new: Any, is_refused: bool) -> None:
    if not is_refused:
        check_unchanged([old], [new], "index")
        return
    with pytest.raises(VerificationError, match=f"the index serves other files .*\n.*{old.sha256}, got {new.sha256}"):
        check_unchanged([old, HTSLIB], [HTSLIB, new], "index")
