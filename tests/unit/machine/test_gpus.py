from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.machine import gpus
from hpcmod.machine.gpus import find_gpu_targets, read_gpu_targets
from hpcmod.machine.values.site import Site
from hpcmod.machine.values.tables import Gpus


def make_gpus(root: Path, amd: list[str], nvidia: list[str]) -> None:
    """Write the files of the drivers that describe a node's GPUs."""
    texts = {f"sys/class/kfd/kfd/topology/nodes/{number}/properties": text for number, text in enumerate(amd)}
    texts |= {
        f"proc/driver/nvidia/gpus/0000:{number:02x}:00.0/information": f"Model: \t {model}\n"
        for number, model in enumerate(nvidia)
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text)


CPU, MI250X = "simd_count 0\ngfx_target_version 0\n", "simd_count 440\ngfx_target_version 90010\n"


@pytest.mark.parametrize(
    ("amd", "nvidia", "targets"),
    [
        ([], [], ()),
        ([CPU], [], ()),
        ([CPU, MI250X, MI250X], [], ("gfx90a",)),
        ([], ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB"], ("sm_80", "sm_90")),
        ([], ["NVIDIA H100 80GB HBM3", "NVIDIA Unheard-of"], ()),
        ([CPU, "simd_count 440\n"], [], ()),
    ],
)
def test_the_gpus_of_a_node_are_read_from_files_of_their_drivers(
    tmp_path: Path, amd: list[str], nvidia: list[str], targets: tuple[str, ...]
) -> None:
    make_gpus(tmp_path, amd, nvidia)
    assert read_gpu_targets(tmp_path) == targets


def test_a_gpu_whose_file_cannot_be_read_does_not_count(tmp_path: Path) -> None:
    make_gpus(tmp_path, [CPU, MI250X], [])
    (tmp_path / "sys/class/kfd/kfd/topology/nodes/2/properties").mkdir(parents=True)
    assert read_gpu_targets(tmp_path) == ("gfx90a",)


def test_the_gpus_of_the_profile_come_before_those_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "read_gpu_targets", lambda: ("sm_90",))
    assert find_gpu_targets(Site("x", gpu=Gpus(targets=("gfx90a",)))) == ("gfx90a",)
    assert find_gpu_targets(Site("x")) == ("sm_90",)
