"""A few easyconfigs of the repository, of different kinds, installed from a stand-in image and loaded."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.catalogue_easyconfigs import SYNTAXES, Listed, failures, list_easyconfigs, make_stand_in, place_images
from tests.foreign_recipes import write_tree
from tests.stack import EasyBuild, ModuleTool

pytestmark = pytest.mark.stack

SAMPLE = {
    "lmod": ("SAMtools-1.22", "Ollama"),  # pinned, with several commands; by tag only
    "envmodules": ("AlphaFold-3.0.1",),  # a local file, a command with arguments
}
"""One easyconfig of each kind."""


@pytest.mark.parametrize("tool", SAMPLE)
def test_easyconfigs_of_each_kind_install_and_load(eb: EasyBuild, tool: str, tiny_sif: Path, tmp_path: Path) -> None:
    easyconfigs = list_easyconfigs(SAMPLE[tool])
    place_images(easyconfigs, make_stand_in(tiny_sif, tmp_path, easyconfigs), eb.central)
    assert failures(dataclasses.replace(eb, modules_tool=tool, syntax=SYNTAXES[tool]), easyconfigs) == []


PIPELINE = """
easyblock = 'ContainerModule'
name = 'pipeline'
version = '1.0'
homepage = 'https://example.org/'
description = "A container that uses a module of the site"
toolchain = SYSTEM
sources = ['pipeline.sif']
dependencies = [('site-tools/1.0', EXTERNAL_MODULE)]
wrapped_commands = ['pipeline']
moduleclass = 'bio'
"""
OTHER = "('SAMtools', '1.22', '-singularity', SYSTEM)"
SITE_MODULE = "#%Module\nsetenv SITE_TOOLS loaded\n"


def test_a_container_may_depend_on_other_modules_but_not_on_a_container(
    eb: EasyBuild, lmod: ModuleTool, tiny_sif: Path, tmp_path: Path
) -> None:
    """An easystack file and --robot resolve dependencies. Loading two containers would make Lmod loop forever."""
    robot = tmp_path / "robot"
    write_tree(robot, {"pipeline-1.0.eb": PIPELINE})
    write_tree(
        robot, {"pipeline-2.0.eb": PIPELINE.replace("'1.0'\n", "'2.0'\n").replace("[('site", f"[{OTHER}, ('site")}
    )
    write_tree(tmp_path, {"stack.yaml": "easyconfigs:\n  - pipeline-1.0.eb\n", "site/site-tools/1.0": SITE_MODULE})
    shipped = list_easyconfigs(["SAMtools-1.22"])
    own = Listed(robot / "pipeline-1.0.eb", {"sources": ["pipeline.sif"], "wrapped_commands": ["pipeline"]})
    place_images([*shipped, own], make_stand_in(tiny_sif, tmp_path, [*shipped, own]), eb.central)
    site = {"MODULEPATH": str(tmp_path / "site")}
    done = eb("--easystack", "stack.yaml", "--robot", robot, **site)
    assert done.returncode == 0, done.stdout
    said = lmod("module load pipeline && echo $SITE_TOOLS && pipeline && echo ran", eb.modules, tmp_path / "site")
    assert said.stdout.split() == ["loaded", "ran"], said.stderr
    refused = eb("--robot", robot, "pipeline-2.0.eb", **site)
    assert refused.returncode != 0
    assert "depends on the container SAMtools/1.22-singularity, but only one container" in refused.stdout
