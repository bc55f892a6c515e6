"""The commands of docs/how-to/publish.md, in order, on a site made for the test."""

from __future__ import annotations

import grp
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.integration.conftest import make_images
from tests.integration.publishing import Site, make_vendor_image
from tests.stack import ModuleTool
from tests.walkthroughs import blocks

pytestmark = pytest.mark.stack


def test_the_commands_of_the_page_do_what_it_says(lmod: ModuleTool, tiny_sif: Path, tmp_path: Path) -> None:
    one, two = make_images(tiny_sif, tmp_path, "one", "two", megabytes=1)
    shutil.move(one, tmp_path / "torch.sif")
    shutil.move(two, tmp_path / "torch-new.sif")
    make_vendor_image(tiny_sif, tmp_path)
    site = Site(lmod, tmp_path)
    mine = {
        "/appl/containers": str(site.catalogue),
        "swadmin": grp.getgrgid(os.getgid()).gr_name,
        "import torch": "import json",  # the image is small and has no torch
    }
    lines = [line for block in blocks("publish", "console") for line in block.splitlines()]
    script = "\n".join(["set -ex", *lines])
    for theirs, ours in mine.items():
        assert theirs in script
        script = script.replace(theirs, ours)
    loads = 'module load PyTorch && singularity exec "$SIF" cat /generation >&2; module purge'
    assert script.count("module load PyTorch\n") == 1
    script = script.replace("module load PyTorch\n", f"{loads}\n")
    done = lmod(f"{script}\n{loads}", site.modules, cwd=tmp_path, **site.environment(HPCMOD_CATALOGUE=""))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall("this image is generation (one|two)", done.stderr) == ["one", "two"]
    assert [line["verb"] for line in site.journal()] == [
        *("publish", "publish", "publish", "promote", "deprecate", "retire", "restore", "undo restore")
    ]
