from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.catalogue.finding.find import check_architecture, find_container, find_variant
from hpcmod.catalogue.records.index import write_index
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.core.errors import LackingError, NotFoundError
from tests.catalogues import make_catalogue, make_record


@pytest.fixture
def catalogues(tmp_path: Path) -> tuple[Catalogue, ...]:
    """The catalogue of a project, followed by that of the site."""
    project = make_catalogue(
        tmp_path / "project", make_record("PyTorch/2.6-ours"), make_record("gone/1", state="retired")
    )
    site = make_catalogue(
        tmp_path / "site",
        make_record("PyTorch/2.6-ours", description="the site's"),
        make_record("PyTorch/2.9", state="retired"),
        make_record("vLLM/0.9.1-rocm", aliases=("stable",)),
        make_record("vLLM/0.9.2-rocm"),
        make_record("vLLM/0.10.0-rocm", aliases=("latest",)),
        make_record("JAX/0.5"),
        make_record("JAX/0.10"),
        make_record("JAX/0.11", state="deprecated"),
        make_record("jaX/1"),
        make_record("gone/2"),
        make_record("old/1", state="retired"),
        make_record("old/2", state="deprecated", aliases=("stable",)),
        make_record("old/3", state="deprecated"),
    )
    write_index(site)
    return project, site


MEANT = {
    "PyTorch": "project PyTorch/2.6-ours",
    "pytorch": "project PyTorch/2.6-ours",
    "PyTorch/2.6-ours": "project PyTorch/2.6-ours",
    "PyTorch/2.9": "site PyTorch/2.9",
    "vLLM": "site vLLM/0.9.1-rocm",
    "vllm/latest": "site vLLM/0.10.0-rocm",
    "vLLM/0.10": "site vLLM/0.10.0-rocm",
    "vLLM/0.9.2": "site vLLM/0.9.2-rocm",
    "JAX": "site JAX/0.10",
    "jaX": "site jaX/1",
    "gone": "site gone/2",
    "gone/1": "project gone/1",
    "old": "site old/2",
}


@pytest.mark.parametrize(("text", "wanted"), MEANT.items(), ids=MEANT)
@pytest.mark.slow
def test_finds_the_container_for_each_spelling(catalogues: tuple[Catalogue, ...], text: str, wanted: str) -> None:
    found = find_container(catalogues, text)
    assert f"{found.catalogue.name} {found.module}" == wanted
    assert found.read().module == found.module


WRONG = {
    "PyTorsh": "Did you mean PyTorch?",
    "vLLM/0.9": "vLLM/0.9.1-rocm, vLLM/0.9.2-rocm",
    "vLLM/3": "vLLM/0.9.1-rocm",
    "vLLM/0.1": "Available: vLLM/0.9.1-rocm, vLLM/0.9.2-rocm, vLLM/0.10.0-rocm",  # all: none begins with this number
    "JAX/stable": "JAX/0.5",
    "zzzzzz": "hpcmod ls",
    "jax": "Did you mean JAX or jaX?",
    "": "hpcmod ls",
    "../../etc/passwd": "hpcmod ls",
    "/": "hpcmod ls",
}


@pytest.mark.parametrize(("text", "cure"), WRONG.items(), ids=WRONG)
@pytest.mark.slow
def test_a_missing_file_or_not_clear_is_answered_with_the_nearest(
    catalogues: tuple[Catalogue, ...], text: str, cure: str
) -> None:
    with pytest.raises(NotFoundError) as caught:
        find_container(catalogues, text)
    assert cure in caught.value.cure


def test_a_missing_container_may_be_in_a_damaged_record(catalogues: tuple[Catalogue, ...]) -> None:
    catalogues[1].record_path("lost", "1").parent.mkdir()
    catalogues[1].record_path("lost", "1").write_text("{")
    with pytest.raises(NotFoundError, match="among those that can be read") as caught:
        find_container(catalogues, "lost")
    assert "lost/1.json" in caught.value.cure


def test_without_a_catalogue_it_explains_how_to_set_one() -> None:
    with pytest.raises(NotFoundError, match="the catalogues are empty") as caught:
        find_container((), "PyTorch")
    assert "HPCMOD_CATALOGUE" in caught.value.cure
    assert "with --prefix DIR: module use DIR/modules/all" in caught.value.cure


@pytest.fixture
def variants(tmp_path: Path) -> tuple[Catalogue, ...]:
    """A catalogue for machines of two architectures and with several kinds of GPUs.

    The highest version of PyTorch is for arm64 alone; of some images it is not known for which GPUs they are.
    """
    return (
        make_catalogue(
            tmp_path / "site",
            make_record("PyTorch/2.7-amd64", architecture="amd64"),
            make_record("PyTorch/2.7-arm64", architecture="arm64", aliases=("stable",)),
            make_record("PyTorch/2.9-arm64", architecture="arm64", aliases=("latest",)),
            make_record("Tool/1", architecture="arm64"),
            make_record("Any/1"),
            make_record("Torch/2.7-gfx90a", targets=("gfx90a",)),
            make_record("Torch/2.7-gfx942", targets=("gfx942",)),
            make_record("Torch/2.7-other"),
            make_record("Torch/2.8-gfx942", targets=("gfx942", "zen4")),
            make_record("Old/1", targets=("gfx90a",)),
            make_record("Old/2"),
            make_record("Only/1", targets=("gfx942",)),
            make_record("Same/1"),
            make_record("Same/2"),
        ),
    )


@pytest.mark.parametrize(
    ("text", "here", "wanted"),
    [
        ("PyTorch", "x86_64", "PyTorch/2.7-amd64"),
        ("PyTorch", "aarch64", "PyTorch/2.7-arm64"),
        ("PyTorch/2.7", "amd64", "PyTorch/2.7-amd64"),
        ("PyTorch/2.7", "arm64", "PyTorch/2.7-arm64"),
        ("PyTorch/2.9", "x86_64", "PyTorch/2.9-arm64"),
        ("PyTorch/2.7-arm64", "x86_64", "PyTorch/2.7-arm64"),
        ("PyTorch", "", "PyTorch/2.7-arm64"),
        ("Tool", "x86_64", "Tool/1"),
        ("Any", "x86_64", "Any/1"),
        ("Torch", "gfx90a", "Torch/2.7-gfx90a"),
        ("Torch", "gfx90a gfx942", "Torch/2.8-gfx942"),
        ("Torch", "gfx942", "Torch/2.8-gfx942"),
        ("Torch", "gfx1100", "Torch/2.7-other"),
        ("Torch", "", "Torch/2.8-gfx942"),
        ("Torch/2.7", "gfx90a", "Torch/2.7-gfx90a"),
        ("Torch/2.7", "gfx942", "Torch/2.7-gfx942"),
        ("Torch/2.7", "gfx1100", "Torch/2.7-other"),
        ("Torch/2.7-gfx942", "gfx90a", "Torch/2.7-gfx942"),
        ("Torch/2.8", "gfx90a", "Torch/2.8-gfx942"),
        ("Old", "gfx90a", "Old/2"),
        ("Only", "gfx90a", "Only/1"),
    ],
)
def test_of_several_variants_the_one_for_this_machine_and_its_gpus_is_meant(
    variants: tuple[Catalogue, ...], text: str, here: str, wanted: str
) -> None:
    gpus = [word for word in here.split() if word.startswith("gfx")]
    machine = "" if gpus else here
    assert find_container(variants, text, machine=machine, gpus=lambda: gpus).module == wanted


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("PyTorch/2.9", "For this machine: PyTorch/2.7-amd64"),
        ("Tool", "No version of Tool in the catalogues is for amd64."),
        ("PyTorch/2.7", ""),
        ("Any", ""),
    ],
)
def test_a_variant_for_another_machine_is_refused_with_the_name_of_the_right_one(
    variants: tuple[Catalogue, ...], text: str, cure: str
) -> None:
    found = find_container(variants, text, machine="x86_64")
    if not cure:
        check_architecture(variants, found, machine="x86_64")
        return
    with pytest.raises(LackingError, match="is for arm64, this machine is amd64") as caught:
        check_architecture(variants, found, machine="x86_64")
    assert caught.value.cure == cure


def test_the_gpus_are_looked_at_only_if_versions_of_the_name_differ(variants: tuple[Catalogue, ...]) -> None:
    asked: list[str] = []
    for name in ("Same", "Old"):
        find_container(variants, name, gpus=lambda name=name: (asked.append(name), "gfx90a")[1:])  # type: ignore[misc]
    assert asked == ["Old"]


@pytest.mark.parametrize(
    ("name", "fits"),
    [("Torch", "Torch/2.7-gfx90a"), ("torch", "Torch/2.7-gfx90a"), ("Old", "Old/1"), ("Only", ""), ("Same", "")],
)
def test_a_variant_is_named_only_if_it_is_known_to_be_built_for_the_gpus(
    variants: tuple[Catalogue, ...], name: str, fits: str
) -> None:
    assert find_variant(variants, name, machine="x86_64", gpus=("gfx90a",)) == fits
