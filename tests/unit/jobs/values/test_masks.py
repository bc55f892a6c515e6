"""CPU masks, compared with those on the sites' own pages."""

from __future__ import annotations

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.jobs.values.masks import cpu_masks
from hpcmod.machine.machine import load_site
from hpcmod.machine.values.site import NodeType

LUMI = load_site("lumi", {}).nodes.usual
FRONTIER = load_site("frontier", {}).nodes.usual
GH200 = load_site("cray-ex-gh200", {}).nodes.usual

WORKSHOP = (
    "0x00fe000000000000,0xfe00000000000000,0x0000000000fe0000,0x00000000fe000000,"
    "0x00000000000000fe,0x000000000000fe00,0x000000fe00000000,0x0000fe0000000000"
)
"""CPU_BIND_MASKS from LUMI's AI workshop, "Extreme scale AI"."""

PAGE = tuple(f"0xfe{zeros}" for zeros in ("0" * 12, "0" * 14, "0" * 4, "0" * 6, "", "00", "0" * 8, "0" * 10))
"""mnist.slurm from LUMI's PyTorch page: `0x${c}000000000000,...` with c=fe."""

CORES = {4: 0, 5: 8, 2: 16, 3: 24, 6: 32, 7: 40, 0: 48, 1: 56}
"""Frontier's user guide: by GPU, the first of 8 cores, which is reserved."""


def numbers(masks: tuple[str, ...]) -> list[int]:
    return [int(mask, 16) for mask in masks]


@pytest.mark.parametrize("ranks", [8, 4, 2, 1])
def test_ranks_of_one_gpu_get_the_masks_that_lumis_pages_print(ranks: int) -> None:
    printed = numbers(tuple(WORKSHOP.split(",")))
    assert numbers(cpu_masks(LUMI, ranks)) == printed[:ranks]
    assert cpu_masks(LUMI, ranks) == PAGE[:ranks]


@pytest.mark.parametrize("ranks", [8, 4, 2, 1])
def test_frontiers_masks_are_its_table_of_cores(ranks: int) -> None:
    expected = [sum(1 << (CORES[gpu] + core) for core in range(1, 8)) for gpu in range(ranks)]
    assert numbers(cpu_masks(FRONTIER, ranks)) == expected


@pytest.mark.parametrize("ranks", [4, 2, 1])
def test_a_gh200_gets_the_cores_of_its_own_cpu(ranks: int) -> None:
    firsts = [0, 72, 144, 216]  # nvidia-smi topo -m, as printed on HPE's page, with -c 72 in its srun line
    assert numbers(cpu_masks(GH200, ranks)) == [((1 << 72) - 1) << first for first in firsts[:ranks]]


def test_without_gpus_the_cores_are_dealt_out_evenly() -> None:
    node = NodeType("cpu", cores=6, reserved_cores=(0, 4), threads_per_core=2)
    assert cpu_masks(node, 4) == ("0x2", "0x4", "0x8", "0x20")
    assert cpu_masks(node, 3) == ("0x6", "0x28", "0xc0")


@pytest.mark.parametrize(
    ("node", "ranks", "words"),
    [
        pytest.param(LUMI, 9, "9 ranks cannot share 8 GPUs", id="more ranks than GPUs"),
        pytest.param(LUMI, 0, "0 ranks", id="no rank"),
        pytest.param(NodeType("x", cores=8, gpus=2), 2, "not known", id="cores near a GPU not known"),
        pytest.param(NodeType("x"), 2, "2 ranks cannot share 0 cores", id="cores not known"),
    ],
)
def test_refuses_ranks_that_do_not_fit_the_cores(node: NodeType, ranks: int, words: str) -> None:
    with pytest.raises(BadInputError, match=words) as caught:
        cpu_masks(node, ranks)
    assert caught.value.cure
