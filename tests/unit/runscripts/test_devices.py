"""Each way to choose a GPU, with each mode of --gpus-visible, on fake GPUs, and the page about it."""

from __future__ import annotations

import pytest

from hpcmod.machine.values.tables import Gpus
from tests.stack import CHECKOUT
from tests.unit.runscripts.fake_gpus import WAYS, DeviceError, FakeGPUs
from tests.unit.runscripts.scripts import EIGHT, Rank, task

pytestmark = pytest.mark.slow

PAGE = CHECKOUT / "docs" / "reference" / "gpus.md"
VARIABLES = {
    "amd": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    "nvidia": ("CUDA_VISIBLE_DEVICES",),
}


def judge(way: str, ranks: list[FakeGPUs]) -> str:
    """Return what happens to the first ranks of eight, in the words of the page."""
    try:
        chosen = [WAYS[way](gpus) for gpus in ranks]
    except DeviceError:
        return "fails"
    if len(set(chosen)) == 1:
        return "all on one GPU"
    assert chosen == list(range(len(ranks)))
    return "own GPU"


def told(rank: Rank, way: str, mode: str, vendor: str, shown: tuple[str, ...]) -> list[FakeGPUs]:
    """Run three ranks of eight, or workers of torchrun in one task, and return the GPUs that each sees."""
    lists = dict.fromkeys(shown, EIGHT)
    if way == "torchrun":
        env = rank(task(0, (1,), **lists), "--gpus-visible", mode, "--launcher=torchrun", "x.py").environment
        envs = [{**env, "LOCAL_RANK": str(number)} for number in range(3)]
    else:
        envs = [rank(task(number, (8,), **lists), "--gpus-visible", mode, "x.py").environment for number in range(3)]
    return [FakeGPUs(env, vendor) for env in envs]


def table() -> dict[str, list[str]]:
    rows = [line.strip("|\n ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return {row[0]: [cell.strip() for cell in row[1:3]] for row in rows if row[0] in WAYS}


@pytest.mark.parametrize("shown", [1, 3], ids=["Slurm sets one variable", "Slurm sets all"])
@pytest.mark.parametrize("vendor", ["amd", "nvidia"])
def test_each_way_to_choose_a_gpu_works_as_the_page_says(rank: Rank, vendor: str, shown: int) -> None:
    names = VARIABLES[vendor]
    rank.scripts.change_site(gpu=Gpus(visibility=names, per_rank="one"))
    seen = {mode: told(rank, "", mode, vendor, names[:shown]) for mode in ("all", "one")}
    of_torchrun = {mode: told(rank, "torchrun", mode, vendor, names[:shown]) for mode in ("all", "one")}
    found = {
        way: [judge(way, (of_torchrun if way == "torchrun" else seen)[mode]) for mode in ("all", "one")] for way in WAYS
    }
    assert found == table()


@pytest.mark.parametrize("mode", ["all", "one"])
def test_local_rank_is_a_device_that_the_rank_sees(rank: Rank, mode: str) -> None:
    lists = [EIGHT, "4,5,6,7", "6"]
    for outer in lists:
        for inner in [None, *lists]:
            more = {"ROCR_VISIBLE_DEVICES": outer, **({"CUDA_VISIBLE_DEVICES": inner} if inner else {})}
            env = rank(task(3, (4,), **more), "--gpus-visible", mode, "x.py").environment
            assert FakeGPUs(env).device(int(env["LOCAL_RANK"])) >= 0, (outer, inner)
