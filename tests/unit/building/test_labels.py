from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.building.labels import measure_labels
from tests.corpus import HAS_MKSQUASHFS, make_image

pytestmark = pytest.mark.skipif(not HAS_MKSQUASHFS, reason="needs mksquashfs (package squashfs-tools)")


def test_reports_known_versions(tmp_path: Path) -> None:
    labels = measure_labels(make_image(tmp_path / "x.sif"))
    assert "python=3.12" in labels["org.hpcmod.versions"].split()
    assert "torch=2.7.1" in labels["org.hpcmod.versions"]


def test_unknown_facts_have_no_label(tmp_path: Path) -> None:
    assert measure_labels(make_image(tmp_path / "x.sif", {"/etc/hosts": ""})) == {}
