from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.images.squashfs.pack import pack_directory
from hpcmod.packages.builder import Builder
from hpcmod.packages.importing import plan_import, read_list, read_source
from hpcmod.packages.values.plan import PackageChange, StatePlan
from hpcmod.packages.values.requirement import Requirements
from hpcmod.packages.values.sources import Source
from hpcmod.packages.values.state import Locked
from tests.package_states import EINOPS, NEEDY, TARGET, make_state, write_set
from tests.unit.packages.conftest import Answer

CHANGE = PackageChange(action="add --from x")


def write_venv(venv: Path, **packages: bool) -> None:
    """Write a virtual environment with packages in version 1.0; True marks packages that the user requested."""
    site = venv / "lib/python3.12/site-packages"
    for name, requested in packages.items():
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
        if requested:
            (info / "REQUESTED").touch()


@pytest.mark.parametrize("kind", ["user-software", "squashfs", "venv"])
def test_reads_installed_packages_from_a_directory_or_squashfs(tmp_path: Path, kind: str) -> None:
    top = tmp_path / "user-software"
    write_venv(top / "venv/torch", one=True, two=False)
    path = {"user-software": top, "venv": top / "venv/torch"}.get(kind)
    if path is None:
        packed = io.BytesIO()
        pack_directory(top, packed, compression="gzip", mtime=0)
        path = tmp_path / "user-software.squashfs"
        path.write_bytes(packed.getvalue())
    found = read_source(path)
    assert found.asked.lines == ("one",)
    assert found.versions == (("one", "1.0"), ("two", "1.0"))


def test_reports_packages_from_elsewhere(tmp_path: Path) -> None:
    write_venv(tmp_path, mine=True)
    url = {"url": "file:///code", "dir_info": {"editable": True}}
    (tmp_path / "lib/python3.12/site-packages/mine-1.0.dist-info/direct_url.json").write_text(json.dumps(url))
    assert read_source(tmp_path).left_out[0].reason == "editable, from /code"


def test_a_list_may_include_others(tmp_path: Path) -> None:
    (tmp_path / "freeze.txt").write_text("one==1\n")
    (tmp_path / "list.txt").write_text("two\n-r freeze.txt\n")
    assert read_source(tmp_path / "list.txt").asked.lines == ("two", "one")


def test_what_has_no_packages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no installed Python packages"):
        read_source(tmp_path)
    with pytest.raises(NotFoundError):
        read_source(tmp_path / "missing")
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
