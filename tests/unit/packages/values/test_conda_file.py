"""Splitting an environment.yml into conda packages, channels, and the part for pip."""

from __future__ import annotations

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.packages.values.conda_file import CondaFile, parse_conda_file
from hpcmod.packages.values.sources import LeftOut

ENVIRONMENT = """
name: mine
channels: [bioconda, conda-forge, nodefaults]
dependencies:
- python=3.12
- samtools=1.19
- htslib >=1.19
- pip
- pip:
  - einops<0.9
  - -r more.txt
"""


def parse(text: str) -> CondaFile:
    return parse_conda_file(text, "/home/env.yml", lambda _: "needy\n", lambda _: True)


def test_both_parts_and_the_channels_are_read() -> None:
    found = parse(ENVIRONMENT)
    assert found.specs == ("samtools=1.19", "htslib >=1.19")
    assert found.channels == ("bioconda", "conda-forge")
    assert found.pip.lines == ("einops<0.9", "needy")
    assert found.left_out == (LeftOut("python=3.12", "the image's is used"), LeftOut("pip", "the image's is used"))
    assert parse(ENVIRONMENT.replace("nodefaults", "defaults")).left_out[-1].name == "defaults"


@pytest.mark.parametrize(
    "text", ["[]", "name: x", "dependencies: x", "dependencies: [{npm: [x]}]", "dependencies: [[x]]", "a: [", "a: b: c"]
)
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match=r"/home/env\.yml"):
        parse(text)
