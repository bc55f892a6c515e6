"""A few of the repository's easyconfigs, of different kinds, installed from a stand-in image and loaded."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.catalogue_easyconfigs import SYNTAXES, failures, list_easyconfigs, make_stand_in, place_images
from tests.stack import EasyBuild

pytestmark = pytest.mark.stack

SAMPLE = {
    "lmod": ("SAMtools-1.22", "Ollama"),  # pinned, with several commands; by a tag alone
    "envmodules": ("AlphaFold-3.0.1",),  # a file, a command with arguments
}
"""What differs; `python -m tests.catalogue_easyconfigs` installs all with both module tools."""


@pytest.mark.parametrize("tool", SAMPLE)
def test_easyconfigs_of_each_kind_install_and_load(eb: EasyBuild, tool: str, tiny_sif: Path, tmp_path: Path) -> None:
    easyconfigs = list_easyconfigs(SAMPLE[tool])
    place_images(easyconfigs, make_stand_in(tiny_sif, tmp_path, easyconfigs), eb.central)
    assert failures(dataclasses.replace(eb, modules_tool=tool, syntax=SYNTAXES[tool]), easyconfigs) == []
