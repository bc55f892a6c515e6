"""An image incompatible with this machine is not installed: `eb` reports the reason and a fix."""

from __future__ import annotations

import pytest

from tests.integration.conftest import TOY_IMAGE, leftovers, modulefiles, write_easyconfig
from tests.stack import EasyBuild
from tests.stacks import fabric, glibc, make_stack, mpich

pytestmark = pytest.mark.stack

UNFIT = {**glibc(), **fabric("20.0"), **mpich("12.3.1", ("libfabric.so.1", "FABRIC_1.8"))}


def test_an_image_that_does_not_fit_fails_its_sanity_check_with_a_cure(eb: EasyBuild) -> None:
    image = make_stack(eb.central / TOY_IMAGE, UNFIT)
    easyconfig = write_easyconfig(eb.top)
    done = eb(easyconfig)
    assert done.returncode == 1, done.stdout
    said = " ".join(done.stdout.split())
    assert "does not fit this machine" in said
    assert "/usr/lib64/libfabric.so.1 does not define FABRIC_1.8, which /usr/lib64/libmpi.so.12 needs" in said
    assert "rebuild it" in said
    assert "hpcmod compat" in said
    assert modulefiles(eb) == set()
    assert leftovers(eb) == set()
    assert image.is_file()
    forced = eb(easyconfig, "--skip-sanity-check", "--rebuild")
    assert forced.returncode == 0, forced.stdout
    assert "Toy/1.0.lua" in modulefiles(eb)
