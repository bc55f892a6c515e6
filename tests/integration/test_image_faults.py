"""A broken or unfit image is refused with a specific message and exit code, and the previous installation stays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests import corpus
from tests.integration.conftest import TOY_IMAGE, installed, leftovers, modulefiles, sha256_of, write_easyconfig
from tests.stack import EasyBuild, ModuleTool, Stack
from tests.stacks import fabric, glibc, make_stack, mpich

pytestmark = pytest.mark.stack


def make_flipped(path: Path) -> str:
    """Write an image with one corrupted byte; return the checksum of the intact image."""
    intact = sha256_of(corpus.make_image(path))
    corpus.flip_byte(path)
    return intact


FAULTS = [
    pytest.param(make_flipped, 4, "sha256 is {found}, expected {expected}", id="one byte flipped"),
    pytest.param(
        corpus.make_text, 2, "a text file that begins with 'This is the README of an image.'", id="a text file"
    ),
    pytest.param(
        partial(corpus.make_image, architecture="arm64"),
        7,
        "the image is for arm64, this machine is amd64",
        id="another architecture",
    ),
    pytest.param(corpus.make_sif, 2, "no squashfs 4.0 at byte 36864", id="no file system in the partition"),
]
"""One fault per exit code, which shows where it is detected, and one in the image; tests/corpus.py has others."""


@pytest.fixture(scope="module")
def good(stack: Stack, tiny_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> EasyBuild:
    """A working installation, which each test tries to replace with a broken image."""
    top = tmp_path_factory.mktemp("good")
    eb = EasyBuild(stack, top, top / "central")
    eb.central.mkdir()
    (eb.central / TOY_IMAGE).symlink_to(tiny_sif)
    installed(eb, write_easyconfig(top))
    return eb


@pytest.mark.parametrize(("make", "exit_code", "message"), FAULTS)
def test_a_broken_image_is_not_installed_and_leaves_the_installed_one_as_it_was(
    good: EasyBuild, stack: Stack, tmp_path: Path, make: Callable[[Path], object], exit_code: int, message: str
) -> None:
    image = good.prefix / "software/Toy/1.0" / TOY_IMAGE
    before, modules = image.stat(), modulefiles(good)
    (tmp_path / "broken").mkdir()
    broken = tmp_path / "broken" / TOY_IMAGE
    made = make(broken)
    expected = made if isinstance(made, str) else None
    easyconfig = write_easyconfig(tmp_path, checksums=[expected])
    done = good(easyconfig, "--rebuild", EASYBUILD_SOURCEPATH=str(broken.parent))
    assert message.format(found=sha256_of(broken), expected=expected) in done.stdout
    assert done.returncode == exit_code
    assert (image.stat().st_ino, image.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert (modulefiles(good), leftovers(good)) == (modules, set())
    runs = ModuleTool(stack, tmp_path, "lmod")("module load Toy && start-shell -c 'echo $PWD'", good.modules)
    assert runs.stdout == f"{tmp_path}\n"


UNFIT = {**glibc(), **fabric("20.0"), **mpich("12.3.1", ("libfabric.so.1", "FABRIC_1.8"))}


def test_an_image_that_does_not_fit_fails_its_sanity_check_with_a_cure(eb: EasyBuild) -> None:
    image = make_stack(eb.central / TOY_IMAGE, UNFIT)
    easyconfig = write_easyconfig(eb.top)
    done = eb(easyconfig)
    assert done.returncode == 1, done.stdout
    said = " ".join(done.stdout.split())
    for part in (
        "does not fit this machine",
        "/usr/lib64/libfabric.so.1 does not define FABRIC_1.8, which /usr/lib64/libmpi.so.12 needs",
        *("rebuild it", "hpcmod compat"),
    ):
        assert part in said
    assert (modulefiles(eb), leftovers(eb)) == (set(), set())
    assert image.is_file()
    forced = eb(easyconfig, "--skip-sanity-check", "--rebuild")
    assert forced.returncode == 0, forced.stdout
    assert "Toy/1.0.lua" in modulefiles(eb)
