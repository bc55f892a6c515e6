"""Publishing from a registry: the catalogue records the exact image, and others can fetch it from there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.integration.publishing import make_site
from tests.integration.test_registry_install import Image, image, own_registry  # noqa: F401 - fixtures
from tests.stack import ModuleTool

pytestmark = pytest.mark.stack


def test_an_image_of_a_registry_is_published_with_its_digest_and_others_can_get_it_there(
    lmod: ModuleTool,
    tmp_path: Path,
    image: Image,  # noqa: F811 - the fixture
) -> None:
    site = make_site(lmod, tmp_path)
    site.does("publish", image.reference, "--name", "Toy", "--version", "1.0", "--no-slurm", "--alias", "stable")
    assert site.record("1.0")["reference"] == image.reference
    assert site.user("module load Toy/stable && singularity exec $SIF cat /etc/motd").stdout == "from the registry\n"
    easyconfig = shutil.copy(site.catalogue / "easyconfigs/t/Toy/Toy-1.0.eb", site.top)
    elsewhere = {"EASYBUILD_PREFIX": str(site.top / "elsewhere"), "EASYBUILD_MODULE_NAMING_SCHEME": "EasyBuildMNS"}
    site.does("install", easyconfig, **elsewhere)
    theirs = site.top / "elsewhere/software/Toy/1.0/Toy-1.0.sif"
    assert theirs.read_bytes() == (site.catalogue / "images/Toy-1.0.sif").read_bytes()
