"""Properties of all new images; test_image.py and test_environment.py test more."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, VerificationError
from hpcmod.images.integrity import file_sha256
from hpcmod.packages.bake.writing import Addition, NewFile, check_free, open_image, write_image
from tests import corpus

pytestmark = pytest.mark.skipif(not corpus.HAS_MKSQUASHFS, reason="mksquashfs is missing")


def addition(*, fails: bool = False) -> Addition:
    def check(path: Path) -> None:
        if fails:
            raise VerificationError("it lacks something", "")

    return Addition("org.x", ("a",), "/x", 1, lambda root, add: None, lambda writer, root: None, check)


def test_the_same_addition_gives_the_same_image(tmp_path: Path) -> None:
    image = corpus.make_image(tmp_path / "image.sif", {"etc/motd": "hello"})
    written = []
    for name in ("1.sif", "2.sif"):
        with open_image(image) as source:
            written.append(write_image(source, addition(), NewFile(tmp_path / name)))
    assert written[0].sha256 == written[1].sha256 == file_sha256(tmp_path / "2.sif")


def test_an_image_that_lacks_something_gets_no_name(tmp_path: Path) -> None:
    image = corpus.make_image(tmp_path / "image.sif", {"etc/motd": "hello"})
    with open_image(image) as source, pytest.raises(VerificationError):
        write_image(source, addition(fails=True), NewFile(tmp_path / "new.sif"))
    assert [path.name for path in tmp_path.iterdir()] == ["image.sif"]


def test_an_existing_file_needs_force(tmp_path: Path) -> None:
    out = tmp_path / "x.sif"
    out.touch()
    with pytest.raises(BadInputError, match="already exists"):
        check_free(out, force=False)
    check_free(out, force=True)
    with pytest.raises(BadInputError, match="is a directory"):
        check_free(tmp_path, force=True)
