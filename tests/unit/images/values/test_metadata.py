"""Name and version of a package come from its metadata, otherwise from the name of its directory."""

from __future__ import annotations

import pytest

from hpcmod.core.values.facts import Package
from hpcmod.images.values.metadata import read_package

METADATA = "Metadata-Version: 2.1\r\nName: einops\r\nVersion: 0.8.1\r\n"


@pytest.mark.parametrize(
    ("path", "files", "package"),
    [
        ("/p/einops-0.7.dist-info", {"/p/einops-0.7.dist-info/METADATA": METADATA}, Package("einops", "0.8.1")),
        ("/p/einops-0.7.egg-info", {"/p/einops-0.7.egg-info/PKG-INFO": METADATA}, Package("einops", "0.8.1")),
        ("/p/einops-0.7-py3.9.egg-info", {"/p/einops-0.7-py3.9.egg-info": METADATA}, Package("einops", "0.8.1")),
        ("/p/einops-0.7-py3.9.egg-info", {}, Package("einops", "0.7")),
        ("/p/einops-0.7.dist-info", {"/p/einops-0.7.dist-info/METADATA": "Name: $(id)\n"}, Package("einops", "0.7")),
        ("/p/einops.dist-info", {}, None),
    ],
)
def test_a_package_is_read(path: str, files: dict[str, str], package: Package | None) -> None:
    assert read_package(path, lambda file: files.get(file, "")) == package
