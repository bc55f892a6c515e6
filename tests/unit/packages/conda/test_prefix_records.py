"""Which Python packages of a prefix were installed by conda."""

from __future__ import annotations

import json
from pathlib import Path

from hpcmod.packages.conda.prefix_records import find_conda_metadata


def test_packages_in_condas_records_are_told_from_those_of_pip(tmp_path: Path) -> None:
    site = tmp_path / "lib/python3.12/site-packages"
    for name, version in (("pure", "1.0"), ("einops", "0.8")):
        info = site / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    assert find_conda_metadata(tmp_path) == frozenset()
    (tmp_path / "conda-meta").mkdir()
    files = ["bin/x", "lib/python3.12/site-packages/pure-1.0.dist-info/METADATA", 1]
    (tmp_path / "conda-meta/pure-1.0-0.json").write_text(json.dumps({"files": files}))
    (tmp_path / "conda-meta/damaged-1.0-0.json").write_text("{")
    assert find_conda_metadata(tmp_path) == {("pure", "1.0")}
