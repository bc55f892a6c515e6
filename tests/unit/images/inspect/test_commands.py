from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.images.inspect.contents import read_commands
from tests import corpus

pytestmark = pytest.mark.skipif(not corpus.HAS_MKSQUASHFS, reason="needs mksquashfs (package squashfs-tools)")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for name in ("opt/tool/bin/solve", "usr/bin/env", "home/data"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    environment = root / ".singularity.d" / "env"
    environment.mkdir(parents=True)
    (environment / "10-docker2singularity.sh").write_text('export PATH="/opt/tool/bin:/host/bin:$PATH"\n')
    return corpus.make_sif(tmp_path / "x.sif", corpus.pack(root, tmp_path / "body").read_bytes())


def test_lists_commands_on_its_path_its_own_and_common_ones(image: Path) -> None:
    assert read_commands(image).names == {"solve", "env"}


def test_distinguishes_directories_that_binds_will_fill(image: Path) -> None:
    assert read_commands(image).absent == ("/host/bin",)


def test_returns_the_requested_paths_that_exist(image: Path) -> None:
    assert read_commands(image, ["/home/data", "/home/none"]).files == {"/home/data"}
