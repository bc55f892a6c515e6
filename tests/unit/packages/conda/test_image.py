"""Reading the conda packages of an image from its SIF, without starting it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.images import Sif
from hpcmod.packages.conda.image import CondaImage, read_conda_image
from tests import corpus

pytestmark = [pytest.mark.skipif(not corpus.HAS_MKSQUASHFS, reason="mksquashfs is missing"), pytest.mark.slow]

PREFIX = "/opt/miniconda3/envs/pytorch"


def record(name: str, version: str, **more: object) -> str:
    """Return conda's record of an installed package."""
    values = {"name": name, "version": version, "build": "h0_0", "build_number": 0, "depends": [], "subdir": "linux-64"}
    return json.dumps({**values, "files": ["bin/x"], **more})


def read(path: Path, files: dict[str, str], architecture: str = "amd64") -> CondaImage:
    sif = corpus.make_image(path / "image.sif", {**corpus.CONDA_TREE, **files}, architecture=architecture)
    python = Sif(sif).facts().python
    assert python is not None
    return read_conda_image(str(sif), python)


def test_an_image_with_records_of_conda_has_condas_python(tmp_path: Path) -> None:
    files = {
        f"{PREFIX}/conda-meta/python-3.12.1-h0_0.json": record("python", "3.12.1"),
        f"{PREFIX}/conda-meta/zlib-1.3-h0_0.json": record(
            "zlib", "1.3", constrains=["zstd >=1.5"], files=["lib/libz.so.1", "lib/libz.a", "lib/x/y.so", "../z.so"]
        ),
        f"{PREFIX}/conda-meta/history": "",
    }
    found = read(tmp_path, files)
    assert (found.subdir, found.glibc, found.is_conda) == ("linux-64", "", True)
    assert found.names == {"python", "zlib"}
    assert "files" not in found.records[0]
    assert found.libraries == (f"{PREFIX}/lib/libz.so.1",)
    assert [one["constrains"] for one in found.records] == [[], ["zstd >=1.5"]]


def test_an_image_without_records_is_not_condas(tmp_path: Path) -> None:
    found = read(tmp_path, {}, architecture="arm64")
    assert (found.subdir, found.is_conda, found.records) == ("linux-aarch64", False, ())


def test_a_damaged_record_and_another_processor_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"python-3\.json is damaged"):
        read(tmp_path, {f"{PREFIX}/conda-meta/python-3.json": "[]"})
    with pytest.raises(LackingError, match="no conda packages for riscv64"):
        read(tmp_path, {}, architecture="riscv64")
