from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.facts import ImageFacts, Package, PythonFacts
from hpcmod.images import Sif
from hpcmod.importing.outcome import ImportedEasyconfig, Refused
from hpcmod.importing.sif import describe_sif, import_sif

BARE = ImageFacts("amd64", 1)
TORCH = ImageFacts(
    "amd64",
    1,
    python=PythonFacts("/opt/bin/python", "3.12", "/opt"),
    packages=(Package("numpy", "1"), Package("torch", "2.7.1+rocm6.2.4")),
    labels=(
        ("org.opencontainers.image.description", 'a "torch"\n$(touch owned)'),
        ("org.opencontainers.image.url", "https://example.org"),
        ("org.opencontainers.image.version", "22.04"),
    ),
)


@pytest.mark.parametrize(
    ("file", "module"),
    [
        ("pytorch_2.7.1.sif", "pytorch/2.7.1"),
        ("pytorch-v2.7.1-rocm.sif", "pytorch/v2.7.1-rocm"),
        ("lumi-pytorch-rocm-6.2.4-python-3.12.sif", "lumi-pytorch-rocm/6.2.4-python-3.12"),
        ("PyTorch-2024.sif", "PyTorch/2024"),
        ("py_torch_v1.sif", "py_torch/v1"),
    ],
)
def test_name_and_version_are_those_of_the_file(file: str, module: str) -> None:
    one = describe_sif(TORCH, Path("/images") / file)
    assert one.easyconfig.module == module
    assert one.notes == ()


def test_without_a_version_in_its_name_that_of_the_package_is_taken_before_that_of_a_label() -> None:
    one = describe_sif(TORCH, Path("/images/pytorch.sif"))
    assert one.easyconfig.version == "2.7.1+rocm6.2.4"
    assert "package" in one.notes[0]
    one = describe_sif(TORCH, Path("/images/ubuntu.sif"))
    assert one.easyconfig.version == "22.04"
    assert "label" in one.notes[0]


def test_the_images_own_description_is_only_data() -> None:
    one = describe_sif(TORCH, Path("/images/pytorch_2.sif")).easyconfig
    assert one.description == 'a "torch"\n$(touch owned)'
    assert (one.homepage, one.moduleclass, one.image) == ("https://example.org", "ai", "/images/pytorch_2.sif")


def test_an_image_without_a_description_is_described_by_its_contents() -> None:
    assert describe_sif(BARE, Path("/images/x_1.sif")).easyconfig.description == "x 1"
    told = ImageFacts("amd64", 1, python=TORCH.python, packages=TORCH.packages)
    assert (
        describe_sif(told, Path("/images/x_1.sif")).easyconfig.description
        == "x 1, with torch 2.7.1+rocm6.2.4, Python 3.12"
    )


@pytest.mark.parametrize("file", ["x.sif", "a b_1.sif", "-x_1.sif", ".sif", "a:/b_1.sif", "é_1.sif"])
def test_names_that_tell_no_version_or_cannot_be_a_modules_are_refused(file: str) -> None:
    with pytest.raises(BadInputError, match=r"rename (it|the directory)"):
        describe_sif(BARE, Path("/images") / file)


@pytest.mark.parametrize(
    ("file", "module"),
    {
        "lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1-dockerhash-0123456789ab.sif": (
            "pytorch/2.7.1-rocm-6.2.4-python-3.12"
        ),
        "nvcr.io_nvidia_pytorch:21.06-py3.sif": "pytorch/21.06-py3",
        "my_tool:1.2.sif": "my_tool/1.2",
        "samtools_1.10.sif": "samtools/1.10",
    }.items(),
)
def test_names_of_sifs_say_tool_and_version(file: str, module: str) -> None:
    one = describe_sif(BARE, Path("/images") / file)
    assert one.easyconfig.module == module
    assert (("install_mode", "copy") in one.easyconfig.parameters) == (":" in file)


def test_refuses_a_file_that_is_not_a_sif_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "x_1.sif").write_text("<html>not found</html>")
    (tmp_path / "y_1.sif").mkdir()
    (tmp_path / "z.txt").write_text("")
    (one,) = import_sif([tmp_path], lambda _: nullcontext(lambda _, __: None))
    assert isinstance(one, Refused)
    assert "not a SIF" in one.reason or "no SIF" in one.reason


def test_each_is_hashed_as_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If you stop at the second of a hundred large images, you keep the result of the first."""
    monkeypatch.setattr(Sif, "facts", lambda _: BARE)
    for name in ("x_1.sif", "x_2.sif"):
        (tmp_path / name).write_text("stands for an image")
    hashed: list[str] = []

    def watch(what: str) -> nullcontext[Callable[[int, int], None]]:
        hashed.append(what)
        return nullcontext(lambda _, __: None)

    outcomes = import_sif([tmp_path], watch)
    assert isinstance(one := next(outcomes), ImportedEasyconfig)
    assert hashed == ["hashing x_1.sif"]
    assert len(one.easyconfig.checksum) == 64


def test_refuses_a_colon_in_a_directory_because_the_runtime_would_split_the_path() -> None:
    with pytest.raises(BadInputError, match="colon"):
        describe_sif(BARE, Path("/images:old/x_1.sif"))
