"""A broken image is refused with a specific message and exit code, and the previous installation keeps working."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import corpus
from tests.integration.conftest import (
    GUARD,
    TOY_IMAGE,
    files_below,
    installed,
    leftovers,
    modulefiles,
    sha256_of,
    write_easyconfig,
)
from tests.stack import EasyBuild, ModuleTool, Stack

pytestmark = pytest.mark.stack


def make_flipped(path: Path) -> Path:
    """Write an image with one corrupted byte, and next to it the checksum of the intact image."""
    corpus.make_image(path)
    path.with_suffix(".sha256").write_text(sha256_of(path))
    return corpus.flip_byte(path)


def make_foreign(path: Path) -> Path:
    """Write a valid image for another architecture."""
    return corpus.make_image(path, architecture="arm64")


def make_hollow(path: Path) -> Path:
    """Write an image whose root file system consists of only its first four bytes."""
    return corpus.make_sif(path)


FAULTS = [
    pytest.param(make_flipped, 4, "sha256 is {found}, expected {expected}", id="one byte flipped"),
    pytest.param(
        corpus.make_text, 2, "a text file that begins with 'This is the README of an image.'", id="a text file"
    ),
    pytest.param(make_foreign, 7, "the image is for arm64, this machine is amd64", id="another architecture"),
    pytest.param(make_hollow, 2, "no squashfs 4.0 at byte 36864", id="no file system in the partition"),
]
"""One fault per exit code, which shows where it is detected, and one in the image; tests/corpus.py has others."""


@dataclass(frozen=True)
class Broken:
    """A broken image in a place where a valid one is expected."""

    image: Path

    def message(self, text: str) -> str:
        """Insert the checksums into a message."""
        expected = self.checksum[0] or ""
        return text.format(found=sha256_of(self.image) if expected else "", expected=expected)

    @property
    def checksum(self) -> list[str | None]:
        """The value of `checksums` for the easyconfig."""
        file = self.image.with_suffix(".sha256")
        return [file.read_text()] if file.exists() else [None]


@pytest.fixture
def broken(request: pytest.FixtureRequest, tmp_path: Path) -> Broken:
    directory = tmp_path / "broken"
    directory.mkdir()
    return Broken(request.param(directory / TOY_IMAGE))


@pytest.mark.parametrize(("broken", "exit_code", "message"), FAULTS, indirect=["broken"])
def test_a_broken_image_is_not_installed(
    eb: EasyBuild, tmp_path: Path, broken: Broken, exit_code: int, message: str
) -> None:
    done = eb(write_easyconfig(tmp_path, checksums=broken.checksum), EASYBUILD_SOURCEPATH=str(broken.image.parent))
    assert broken.message(message) in done.stdout
    assert done.returncode == exit_code
    assert modulefiles(eb) == set()
    assert {name for name in files_below(eb.prefix) if not name.endswith(GUARD)} == set()


@pytest.fixture(scope="module")
def good(stack: Stack, tiny_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> EasyBuild:
    """A working installation, which each test tries to replace with a broken image."""
    top = tmp_path_factory.mktemp("good")
    eb = EasyBuild(stack, top, top / "central")
    eb.central.mkdir()
    (eb.central / TOY_IMAGE).symlink_to(tiny_sif)
    installed(eb, write_easyconfig(top))
    return eb


@pytest.mark.parametrize(("broken", "exit_code", "message"), FAULTS[:3], indirect=["broken"])
def test_a_broken_image_leaves_the_installed_one_as_it_was(
    good: EasyBuild, stack: Stack, tmp_path: Path, broken: Broken, exit_code: int, message: str
) -> None:
    image = good.prefix / "software/Toy/1.0" / TOY_IMAGE
    before = image.stat()
    easyconfig = write_easyconfig(tmp_path, checksums=broken.checksum)
    done = good(easyconfig, "--rebuild", EASYBUILD_SOURCEPATH=str(broken.image.parent))
    assert broken.message(message) in done.stdout
    assert done.returncode == exit_code
    assert (image.stat().st_ino, image.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert leftovers(good) == set()
    runs = ModuleTool(stack, tmp_path, "lmod")("module load Toy && start-shell -c 'echo $PWD'", good.modules)
    assert runs.stdout == f"{tmp_path}\n"
