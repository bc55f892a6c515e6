from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.machine.values.facts import NodeFacts
from hpcmod.machine.values.site import Site
from hpcmod.machine.values.tables import Gpus
from hpcmod.runs.nodes.drivers import judge_drivers
from tests.stacks import glibc, make_stack, named, stub

NVIDIA = Site("x", gpu=Gpus(vendor="nvidia"))
OLD, NEW = (NodeFacts(f"nid{driver}", drivers=(("nvidia", driver),)) for driver in ("470.82.01", "550.54.15"))


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An image with CUDA 12.4."""
    cuda = named("/usr/lib64/libcudart.so.12", stub("libcudart.so.12"), "libcudart.so.12.4.127")
    return make_stack(tmp_path / "cuda.sif", {**glibc("2.36"), **cuda})


def test_a_driver_that_is_too_old_for_the_image_is_named(image: Path) -> None:
    (finding,) = judge_drivers(image, NVIDIA, [OLD, NEW])
    assert (finding.subject, finding.level, finding.rule) == ("nid470.82.01", "fail", "cuda-driver")
    assert finding.found == "CUDA 12.4.127 needs driver 525 or newer, found 470.82.01"


def test_nodes_without_a_driver_are_not_judged(tmp_path: Path) -> None:
    assert judge_drivers(tmp_path / "missing.sif", NVIDIA, [NodeFacts("nid001", drivers=(("kernel", "6"),))]) == []


def test_an_image_that_cannot_be_read_here_says_nothing(tmp_path: Path) -> None:
    assert judge_drivers(tmp_path / "missing.sif", NVIDIA, [OLD]) == []
