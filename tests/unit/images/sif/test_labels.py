from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.reference import ImageReference
from hpcmod.images import Sif
from hpcmod.images.convert import convert_image
from hpcmod.images.oci.layout import read_layout
from hpcmod.images.sif.labels import add_labels, read_labels
from hpcmod.images.sif.reader import read_sif
from tests.corpus import HAS_MKSQUASHFS, make_image
from tests.oci_corpus import Case, f, write_case

ODD = "quotes ' \" $HOME `id` \\ and ünïcode"


@pytest.fixture
def sif(tmp_path: Path) -> Path:
    labels = {"Labels": {"of.the.image": "first", "odd": ODD}}
    layout = write_case(tmp_path / "layout", Case([[f("a", "content")]], labels))
    path = tmp_path / "x.sif"
    with read_layout(ImageReference.parse(f"oci:{layout}"), architecture="amd64") as image:
        convert_image(image, path)
    return path


def test_labels_are_added_and_the_old_ones_stay(sif: Path) -> None:
    add_labels(sif, {"new": "two words", "of.the.image": "second"})
    labels = read_labels(sif)
    assert (labels["new"], labels["of.the.image"], labels["odd"]) == ("two words", "second", ODD)
    assert dict(Sif(sif).facts().labels)["of.the.image"] == "first"  # the root file system is unchanged


def test_the_sif_stays_whole(sif: Path) -> None:
    before = {one.id: one for one in read_sif(sif).descriptors}
    for number in range(3):
        add_labels(sif, {"number": str(number)})
    after = {one.id: one for one in read_sif(sif).descriptors}
    changed = [number for number in before if before[number] != after[number]]
    assert [after[number].name for number in changed] == ["inspect-metadata.json"]
    assert after[changed[0]].offset + after[changed[0]].size == sif.stat().st_size
    assert read_labels(sif)["number"] == "2"


@pytest.mark.skipif(not HAS_MKSQUASHFS, reason="needs mksquashfs (package squashfs-tools)")
def test_a_sif_without_metadata_is_refused_as_it_is(tmp_path: Path) -> None:
    path = make_image(tmp_path / "x.sif")
    before = path.read_bytes()
    with pytest.raises(BadInputError, match=r"has no inspect-metadata\.json"):
        add_labels(path, {"a": "b"})
    assert path.read_bytes() == before
