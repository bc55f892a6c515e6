from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcmod.machine.values.site import Nodes, NodeType
from hpcmod.machine.values.tables import Gpus
from hpcmod.modules.values.plan import RunscriptSettings
from tests.unit.runscripts.scripts import EIGHT, SETTINGS, Rank, Scripts, task
from tests.unit.runscripts.test_launchers import flux, openmpi, pals

pytestmark = pytest.mark.slow

AMD = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
ALL = {"HPCMOD_GPUS_VISIBLE": "all"}


AMD_AND_RANK = (*AMD, "LOCAL_RANK")


@pytest.mark.parametrize(
    ("number", "layout", "more", "seen"),
    [
        pytest.param(3, (8,), {AMD[0]: EIGHT}, ("3", None, None, "0"), id="one of eight"),
        pytest.param(1, (2,), {AMD[0]: "4,6"}, ("6", None, None, "0"), id="one of two on a shared node"),
        pytest.param(1, (2,), {AMD[0]: EIGHT}, ("1", None, None, "0"), id="more GPUs than ranks"),
        pytest.param(1, (8,), {AMD[0]: "5"}, ("5", None, None, "0"), id="Slurm chose one"),
        pytest.param(5, (8,), {AMD[0]: "0,1"}, ("0,1", None, None, "1"), id="more ranks than GPUs"),
        pytest.param(0, (1,), {AMD[0]: EIGHT}, (EIGHT, None, None, "0"), id="one rank for all"),
        pytest.param(1, (8,), {}, (None, None, None, "1"), id="no GPU"),
        pytest.param(1, (8,), {AMD[0]: "-1"}, ("-1", None, None, "1"), id="GPUs hidden by the user"),
        pytest.param(3, (8,), {AMD[0]: EIGHT, **ALL}, (EIGHT, None, None, "3"), id="all visible"),
        pytest.param(3, (8,), {AMD[0]: EIGHT, "LOCAL_RANK": "3"}, (EIGHT, None, None, "3"), id="LOCAL_RANK was set"),
        pytest.param(3, (8,), dict.fromkeys(AMD, EIGHT), ("3", "0", "0", "0"), id="Slurm set all three"),
        pytest.param(1, (8,), dict.fromkeys(AMD, "5"), ("5", "0", "0", "0"), id="Slurm chose one in all three"),
        pytest.param(0, (1,), dict.fromkeys(AMD, "4,5"), ("4,5", "0,1", "0,1", "0"), id="two GPUs of a shared node"),
        pytest.param(1, (2,), {**dict.fromkeys(AMD, "4,5"), **ALL}, ("4,5", "0,1", "0,1", "1"), id="two, both visible"),
        pytest.param(1, (2,), {AMD[0]: EIGHT, AMD[1]: "2,3"}, (EIGHT, "3", None, "0"), id="two chosen by HIP"),
        pytest.param(1, (2,), {AMD[0]: EIGHT, AMD[1]: "2,3", **ALL}, (EIGHT, "2,3", None, "1"), id="both of those"),
        pytest.param(3, (8,), {AMD[0]: EIGHT, AMD[1]: "3"}, (EIGHT, "3", None, "0"), id="one chosen by HIP"),
        pytest.param(3, (8,), {AMD[1]: "3"}, (None, "3", None, "0"), id="one chosen by HIP, none by Slurm"),
        pytest.param(0, (2,), {AMD[1]: "3,4", AMD[2]: EIGHT}, (None, "3", "3", "0"), id="HIP decides over CUDA"),
    ],
)
def test_local_rank_counts_among_the_gpus_that_a_rank_sees(
    rank: Rank, number: int, layout: tuple[int, ...], more: dict[str, str], seen: tuple[str | None, ...]
) -> None:
    assert rank.sees(task(number, layout, **more), *AMD_AND_RANK, "HPCMOD_LOCAL_RANK") == (*seen, str(number))


@pytest.mark.parametrize("mode", ["one", "all"])
@pytest.mark.parametrize(
    ("more", "seen"),
    [
        pytest.param({AMD[0]: "5", AMD[1]: "2,3"}, ("5", "0", None), id="HIP beyond the one GPU of Slurm"),
        pytest.param({AMD[0]: "6", AMD[2]: "4,5,6,7"}, ("6", None, "0"), id="left over from Slurm"),
        pytest.param({AMD[0]: "6", AMD[1]: "6", AMD[2]: "4,5,6,7"}, ("6", "0", "0"), id="both"),
    ],
)
def test_hip_never_selects_an_empty_set_within_rocr(
    rank: Rank, mode: str, more: dict[str, str], seen: tuple[str | None, ...]
) -> None:
    ran = rank(task(0, (2,), HPCMOD_GPUS_VISIBLE=mode, **more), "x.py")
    assert tuple(ran.environment.get(name) for name in AMD) == seen and ran.environment["LOCAL_RANK"] == "0"
    assert "would select no GPU; using 0\n" in ran.stderr


def test_the_option_wins_over_the_variable(rank: Rank) -> None:
    ran = rank(task(3, (8,), **{AMD[0]: EIGHT, "HPCMOD_GPUS_VISIBLE": "one"}), "--gpus-visible=all", "x.py")
    assert (ran.environment[AMD[0]], ran.environment["LOCAL_RANK"]) == (EIGHT, "3")


def test_ranks_share_gpus_where_they_are_asked_to(rank: Rank) -> None:
    envs = [task(number, (8,), **{AMD[0]: "0,1,2,3", "SLURM_GPUS_ON_NODE": "4"}) for number in range(8)]
    ran = [rank(env, "--gpus-visible", "one", "x.py") for env in envs]
    assert [each.environment[AMD[0]] for each in ran] == list("00112233")
    assert {each.environment["LOCAL_RANK"] for each in ran} == {"0"}


@pytest.fixture
def bound() -> Iterator[tuple[int, int]]:
    """Bind processes that the test starts to the last CPU of this machine; yield the first and the last CPU."""
    ours = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {ours[-1]})
    yield ours[0], ours[-1]
    os.sched_setaffinity(0, ours)


@pytest.mark.parametrize(
    ("near", "env", "seen"),
    [
        pytest.param((1, 0), task(1, (2,), ROCR_VISIBLE_DEVICES="0,1"), "0", id="near its cores"),
        pytest.param((1, 0), task(1, (2,), ROCR_VISIBLE_DEVICES="4,6"), "4", id="as Slurm calls it"),
        pytest.param((1, 0), task(1, (2,), ROCR_VISIBLE_DEVICES="0,1,2"), "1", id="other GPUs than the node type has"),
        pytest.param((1, 0), task(1, (4,), ROCR_VISIBLE_DEVICES="0,1"), "0,1", id="more ranks than GPUs"),
        pytest.param((1, 0), task(1, (2,), SLURM_GPUS_ON_NODE="2"), "0", id="without GPU variables"),
        pytest.param((1, 1), task(1, (2,), ROCR_VISIBLE_DEVICES="0,1"), "1", id="near two, by its place"),
    ],
)
def test_a_bound_rank_takes_the_gpu_near_its_cores(
    bound: tuple[int, int], rank: Rank, near: tuple[int, int], env: dict[str, str], seen: str
) -> None:
    node = NodeType("gpu", gpus=2, gpu_cores=((bound[near[0]],), (bound[near[1]],)))
    rank.scripts.change_site(nodes=Nodes((node,)))
    assert rank.sees(env, AMD[0]) == (seen,)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        pytest.param({AMD[0]: "0,1,2,3", "SLURM_GPUS_ON_NODE": "4"}, True, id="all of the node"),
        pytest.param({AMD[0]: "0,1", "SLURM_GPUS_ON_NODE": "16"}, False, id="two for each rank, by the same numbers"),
        pytest.param({}, False, id="no GPUs"),
    ],
)
def test_more_ranks_than_gpus_are_warned(rank: Rank, more: dict[str, str], said: bool) -> None:
    told = [rank(task(number, (8,), **more), "x.py").stderr for number in range(2)]
    assert ("8 ranks on this node share 4 GPU(s)" in told[0]) is said and not told[1]


def test_cuda_devices_keep_their_names(rank: Rank) -> None:
    rank.scripts.change_site(gpu=Gpus(visibility=("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"), per_rank="one"))
    shown = "GPU-8932f937,GPU-1f0d11a2"
    env = task(1, (2,), CUDA_VISIBLE_DEVICES=shown, GPU_DEVICE_ORDINAL=shown)
    assert rank.sees(env, "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL") == ("GPU-1f0d11a2", "GPU-1f0d11a2")


def test_where_the_site_says_all_the_gpus_stay_as_they_are(rank: Rank) -> None:
    rank.scripts.change_site(gpu=SETTINGS.site.gpu._replace(per_rank="all"))
    names = (AMD[0], "LOCAL_RANK")
    assert rank.sees(task(1, (8,), ROCR_VISIBLE_DEVICES=EIGHT), *names) == (EIGHT, "1")
    assert rank.sees(task(1, (8,), ROCR_VISIBLE_DEVICES=EIGHT, HPCMOD_GPUS_VISIBLE="one"), *names) == ("1", "0")


def test_a_machine_without_gpus_needs_none_of_it(tmp_path: Path, python_path: str) -> None:
    rank = Rank(Scripts(tmp_path).write(RunscriptSettings(module="x/1", sif_variable="SIFX")), python_path)
    assert rank.sees(task(1, ROCR_VISIBLE_DEVICES=EIGHT), AMD[0]) == (EIGHT,)


NODE = NodeType("gpu", gpus=8, partitions=("gpu",))


@pytest.mark.parametrize(
    ("env", "seen"),
    [
        pytest.param(task(3, (8,), SLURM_GPUS_ON_NODE="8"), "3", id="srun --gpu-bind=none, all of the node"),
        pytest.param(task(1, (2,), SLURM_GPUS_ON_NODE="8"), "1", id="fewer ranks than GPUs"),
        pytest.param(task(1, (2,), SLURM_GPUS_ON_NODE="2"), None, id="a part of a node: which ones, nobody tells"),
        pytest.param(task(3, (8,)), None, id="no GPU asked for"),
        pytest.param(task(0, (1,), SLURM_GPUS_ON_NODE="8"), None, id="one rank for all"),
        pytest.param(task(3, (9,), SLURM_GPUS_ON_NODE="8"), None, id="more ranks than GPUs"),
        pytest.param(task(3, (8,), SLURM_GPUS_ON_NODE="8", HPCMOD_GPUS_VISIBLE="all"), None, id="opted out"),
        pytest.param(task(3, (8,), SLURM_GPUS_ON_NODE="8", HIP_VISIBLE_DEVICES="5"), None, id="the user chose"),
        pytest.param({**openmpi(5, 8, 16), "MASTER_ADDR": "a"}, "5", id="mpirun"),
        pytest.param(pals(3, 8, 8), "3", id="PALS"),
        pytest.param({**pals(3, 8, 8), "SLURM_JOB_PARTITION": "cpu"}, None, id="a node type without GPUs"),
        pytest.param(flux(3, 1, 8), None, id="Flux, no GPU asked for"),
        pytest.param({}, None, id="no launcher"),
    ],
)
def test_where_only_the_number_of_gpus_is_known_each_rank_gets_that_of_its_own(
    rank: Rank, env: dict[str, str], seen: str | None
) -> None:
    rank.scripts.change_site(nodes=Nodes((NODE,)))
    assert rank.sees(env, AMD[0]) == (seen,)


@pytest.mark.parametrize(("partition", "seen"), [("gpu", "3"), ("other", "3"), ("cpu", None)])
def test_a_node_type_whose_partitions_no_one_knows_is_taken_where_no_other_fits(
    rank: Rank, partition: str, seen: str | None
) -> None:
    types = (NodeType("cpu", partitions=("cpu",)), NodeType("gpu", gpus=8))
    rank.scripts.change_site(nodes=Nodes(types))
    env = task(3, (8,), SLURM_GPUS_ON_NODE="8", SLURM_JOB_PARTITION=partition)
    assert rank.sees(env, AMD[0]) == (seen,)


def test_the_gpu_variables_of_flux_work_on_amd_too(rank: Rank) -> None:
    assert rank.sees({**flux(1, 1, 2), "CUDA_VISIBLE_DEVICES": "4,6"}, "CUDA_VISIBLE_DEVICES", AMD[0]) == ("6", None)
