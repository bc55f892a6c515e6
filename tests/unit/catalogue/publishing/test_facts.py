from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcmod.catalogue.publishing.facts import describe_installed
from hpcmod.modules.installed import Installed
from hpcmod.modules.values.install_record import InstalledImage, InstallRecord
from tests.stacks import Stubs, glibc, make_stack

LABELS = "/.singularity.d/labels.json"
ENV = "/.singularity.d/env/90-environment.sh"


@pytest.mark.parametrize(
    ("files", "targets"),
    [
        ({LABELS: json.dumps({"org.hpcmod.targets": "gfx90a zen3"})}, ("gfx90a", "zen3")),
        ({ENV: 'export TORCH_CUDA_ARCH_LIST="8.0 9.0+PTX"\n'}, ("compute_90", "sm_80", "sm_90")),
        ({ENV: "export PYTORCH_ROCM_ARCH='gfx90a;gfx942'\n"}, ("gfx90a", "gfx942")),
        ({}, ()),
    ],
    ids=["label", "CUDA", "ROCm", "none"],
)
def test_a_record_has_the_targets_that_its_image_names(tmp_path: Path, files: Stubs, targets: tuple[str, ...]) -> None:
    image = make_stack(tmp_path / "x.sif", {**glibc(), **files})
    installed = Installed(
        "X/1", tmp_path / "X/1.lua", tmp_path, InstallRecord(image=InstalledImage(str(image), "0" * 64))
    )
    assert describe_installed(installed).content.targets == targets
