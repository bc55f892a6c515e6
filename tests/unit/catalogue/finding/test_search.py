from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.catalogue.finding.search import is_abbreviated, search
from hpcmod.catalogue.records.index import Index, read_index, write_index
from hpcmod.core.errors import BadInputError
from hpcmod.core.values.facts import Package
from hpcmod.modules.installed import Installed
from hpcmod.modules.values.install_record import Fit, InstallRecord
from tests.catalogues import make_catalogue, make_record

RECORDS = (
    make_record("PyTorch/2.7.1-rocm", packages=(Package("torch", "2.7.1+rocm6.2.4"), Package("flash_attn", "2.8"))),
    make_record("PyTorch/2.6.0-rocm", packages=(Package("torch", "2.6.0"),), aliases=("stable",), targets=("gfx90a",)),
    make_record("vLLM/0.9", packages=(Package("Torch", "2.7.0"), Package("vllm", "0.9")), description="Serve LLMs"),
    make_record("base/1", packages=(), targets=("sm_80", "sm_90")),
)


@pytest.fixture(params=["indexed", "without an index"])
def indexes(request: pytest.FixtureRequest, tmp_path: Path) -> list[Index]:
    site = make_catalogue(tmp_path / "site", *RECORDS)
    project = make_catalogue(tmp_path / "project", make_record("vLLM/0.9", packages=(Package("ours", "1"),)))
    if request.param == "indexed":
        write_index(site)
        write_index(project)
    return [read_index(project), read_index(site)]


def found(indexes: list[Index], text: str) -> list[str]:
    hits = search(indexes, text)
    return [" ".join([hit.module, *(f"{one.name}={one.version}" for one in hit.packages)]) for hit in hits]


SEARCHES = {
    "a name": ("vllm", ["vLLM/0.9"]),
    "part of a name": ("YTORC", ["PyTorch/2.6.0-rocm", "PyTorch/2.7.1-rocm"]),
    "a version": ("2.7.1", ["PyTorch/2.7.1-rocm"]),
    "an alias": ("stable", ["PyTorch/2.6.0-rocm"]),
    "a description": ("base as a", ["base/1"]),
    "a target": ("GFX90A", ["PyTorch/2.6.0-rocm"]),
    "a target of NVIDIA": ("sm_90", ["base/1"]),
    "a package": ("flash_attn", ["PyTorch/2.7.1-rocm flash_attn=2.8"]),
    "a package, otherwise written": ("Flash.Attn", ["PyTorch/2.7.1-rocm flash_attn=2.8"]),
    "an abbreviated package": ("flash-attention", ["PyTorch/2.7.1-rocm flash_attn=2.8"]),
    "a version of a package": ("torch==2.7", ["PyTorch/2.7.1-rocm torch=2.7.1+rocm6.2.4"]),
    "a whole number of a version": ("torch==2.7.", ["PyTorch/2.7.1-rocm torch=2.7.1+rocm6.2.4"]),
    "no part of a number": ("flash-attn==2.8.1", []),
    "not before": ("torch<2.7", ["PyTorch/2.6.0-rocm torch=2.6.0"]),
    "at least": ("torch >= 2.6.1", ["PyTorch/2.7.1-rocm torch=2.7.1+rocm6.2.4"]),
    "a range": ("torch>=2.6,<2.7,!=2.6.1", ["PyTorch/2.6.0-rocm torch=2.6.0"]),
    "a range with a beginning": ("torch>2,==2.6.*", ["PyTorch/2.6.0-rocm torch=2.6.0"]),
    "what only the first catalogue's container holds": ("ours", ["vLLM/0.9 ours=1"]),
    "nothing": ("", []),
    "only marks": ("==", []),
    "what is not there": ("no-such-thing", []),
    "no pattern": (".*", []),
}


@pytest.mark.parametrize(("text", "wanted"), SEARCHES.values(), ids=SEARCHES)
@pytest.mark.slow
def test_a_search_finds(indexes: list[Index], text: str, wanted: list[str]) -> None:
    assert found(indexes, text) == wanted


@pytest.mark.parametrize("text", ["torch=2.7", "torch>>2", "torch>=new", "torch>2<3"])
def test_a_condition_that_is_not_valid_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="is not a valid condition"):
        search([], text)


def test_a_version_of_no_known_form_meets_no_range(tmp_path: Path) -> None:
    odd = read_index(make_catalogue(tmp_path, make_record("A/1", packages=(Package("torch", "main-a1"),))))
    assert found([odd], "torch>=0") == [] != found([odd], "torch==main")


def test_containers_by_name_come_before_those_with_a_package(indexes: list[Index]) -> None:
    assert [line.partition(" ")[0] for line in found(indexes, "torch")] == ["PyTorch/2.6.0-rocm", "PyTorch/2.7.1-rocm"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("flash-attn", "flash-attention", True),
        ("attention", "attn", True),
        ("flash-attn", "attention", False),
        ("at", "attention", False),
        ("natt", "attention", False),
        ("numpy", "numba", False),
    ],
)
def test_abbreviations(one: str, other: str, same: bool) -> None:
    assert is_abbreviated(one, other) is same


def test_installed_containers_outside_of_catalogues_are_found_last(indexes: list[Index]) -> None:
    def own(module: str, version: str) -> Installed:
        targets = (f"gfx9{version[-1]}a",)
        record = InstallRecord(packages=(Package("Flash_Attn", version),), fit=Fit(targets=targets))
        return Installed(module, Path("/m"), Path("/r"), record)

    installed = [own("Mine/1", "3.1"), own("vLLM/0.9", "3.2")]

    def hits(text: str) -> list[tuple[str, str]]:
        return [(hit.module, hit.catalogue and "catalogue") for hit in search(indexes, text, installed=installed)]

    assert hits("flash-attn") == [("PyTorch/2.7.1-rocm", "catalogue"), ("Mine/1", "")]
    assert hits("flash-attention==3") == [("Mine/1", "")]
    assert hits("mine") == [("Mine/1", "")]
    assert hits("gfx91a") == [("Mine/1", "")]


def test_a_hit_names_the_targets_of_its_image(indexes: list[Index]) -> None:
    assert [hit.targets for hit in search(indexes, "base")] == [("sm_80", "sm_90")]
