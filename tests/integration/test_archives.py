"""Archives written by real tools: skopeo creates them, hpcmod reads and converts them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from hpcmod.core.errors import NotFoundError
from hpcmod.core.values.reference import ImageReference
from hpcmod.images.acquire.obtain import obtain
from hpcmod.images.acquire.origin import ObtainOptions
from hpcmod.images.oci.layout import read_layout
from hpcmod.images.sif.reader import read_sif, squashfs_partition
from hpcmod.images.squashfs.reader import Squashfs
from tests.oci_corpus import CASES, write_case
from tests.stack import run

TRANSPORTS = ["docker-archive", "oci-archive", "oci"]


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("skopeo"):
        pytest.skip("no skopeo: run dev/stack registry")
    return write_case(tmp_path_factory.mktemp("layout") / "oci", CASES["configured"])


def copy(layout: Path, target: str, *options: str) -> None:
    argv = ["skopeo", "copy", "--insecure-policy", "-q", *options, f"oci:{layout}:latest", target]
    done = run(argv, {**os.environ, "TMPDIR": str(layout.parent)})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_layout_written_by_skopeo_is_the_same_image(layout: Path, tmp_path: Path, transport: str) -> None:
    copy(layout, f"{transport}:{tmp_path}/copy:test/name:v1")
    with read_layout(ImageReference.parse(f"oci:{layout}"), architecture="amd64") as image:
        config = image.config
    for name in ("", ":test/name:v1"):
        with read_layout(ImageReference.parse(f"{transport}:{tmp_path}/copy{name}"), architecture="amd64") as image:
            assert (image.config.env, image.config.entrypoint) == (config.env, config.entrypoint)
            assert [layer.diff_id for layer in image.layers] == list(config.diff_ids)
    with (
        pytest.raises(NotFoundError, match="test/name:v1"),
        read_layout(ImageReference.parse(f"{transport}:{tmp_path}/copy:other"), architecture="amd64"),
    ):
        pass


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_layout_written_by_skopeo_becomes_a_sif(layout: Path, tmp_path: Path, transport: str) -> None:
    copy(layout, f"{transport}:{tmp_path}/copy:test/name:v1")
    options = ObtainOptions("amd64", environ={"HOME": str(tmp_path)})
    got = obtain(ImageReference.parse(f"{transport}:{tmp_path}/copy"), tmp_path / "x.sif", options=options)
    partition = squashfs_partition(read_sif(got.path))
    with got.path.open("rb") as file:
        root = Squashfs(file, partition.offset, partition.size)
        assert root.read_bytes("/a", 10) == b"x"
        assert b"SPACE" in root.read_bytes("/.singularity.d/env/10-docker2singularity.sh", 1 << 16)


def test_each_of_several_images_in_an_archive_can_be_named(layout: Path, tmp_path: Path) -> None:
    copy(layout, f"docker-archive:{tmp_path}/a.tar:first:1", "--additional-tag", "docker.io/library/second:2")
    for name in ("first:1", "second:2", "docker.io/library/second:2"):
        with read_layout(
            ImageReference.parse(f"docker-archive:{tmp_path}/a.tar:{name}"), architecture="amd64"
        ) as image:
            assert len(image.layers) == 1
