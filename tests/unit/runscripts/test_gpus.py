from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.model.plan import RunscriptSettings
from hpcmod.model.site import NodeType
from tests.unit.runscripts.scripts import EIGHT, Rank, Scripts, task
from tests.unit.runscripts.test_launchers import flux, openmpi, pals

AMD = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
ALL = {"HPCMOD_GPUS": "all"}


@pytest.mark.parametrize(
    ("number", "layout", "more", "seen"),
    [
        pytest.param(3, (8,), {AMD[0]: EIGHT}, ("3", None, None), id="one of eight"),
        pytest.param(1, (2,), {AMD[0]: "4,6"}, ("6", None, None), id="one of two on a shared node"),
        pytest.param(1, (2,), {AMD[0]: EIGHT}, ("1", None, None), id="more GPUs than ranks"),
        pytest.param(1, (8,), {AMD[0]: "5"}, ("5", None, None), id="Slurm chose one"),
        pytest.param(1, (8,), {AMD[0]: "0,1"}, ("0,1", None, None), id="more ranks than GPUs"),
        pytest.param(0, (1,), {AMD[0]: EIGHT}, (EIGHT, None, None), id="one rank for all"),
        pytest.param(1, (8,), {}, (None, None, None), id="no GPU"),
        pytest.param(3, (8,), {AMD[0]: EIGHT, **ALL}, (EIGHT, None, None), id="opted out"),
        pytest.param(3, (8,), dict.fromkeys(AMD, EIGHT), ("3", "0", "0"), id="Slurm set all three"),
        pytest.param(1, (8,), dict.fromkeys(AMD, "5"), ("5", "0", "0"), id="Slurm chose one in all three"),
        pytest.param(0, (1,), dict.fromkeys(AMD, "4,5"), ("4,5", "0,1", "0,1"), id="a rank with two of a shared node"),
        pytest.param(3, (8,), {AMD[0]: EIGHT, AMD[1]: "3"}, (EIGHT, "3", None), id="the user chose one by HIP"),
        pytest.param(3, (8,), {AMD[1]: "3"}, (None, "3", None), id="the user chose, Slurm said nothing"),
    ],
)
def test_each_rank_sees_the_gpu_of_its_local_rank(
    rank: Rank, number: int, layout: tuple[int, ...], more: dict[str, str], seen: tuple[str | None, ...]
) -> None:
    assert rank.sees(task(number, layout, **more), *AMD) == seen


def test_cuda_devices_keep_their_names(tmp_path: Path, settings: RunscriptSettings, python_path: str) -> None:
    nvidia = replace(settings, gpu_visibility=("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"))
    rank = Rank(Scripts(tmp_path).write(nvidia), python_path)
    shown = "GPU-8932f937,GPU-1f0d11a2"
    env = task(1, (2,), CUDA_VISIBLE_DEVICES=shown, GPU_DEVICE_ORDINAL=shown)
    assert rank.sees(env, "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL") == ("GPU-1f0d11a2", "GPU-1f0d11a2")


def test_where_the_site_says_all_the_gpus_stay_as_they_are(
    tmp_path: Path, settings: RunscriptSettings, python_path: str
) -> None:
    rank = Rank(Scripts(tmp_path).write(replace(settings, gpus_per_rank="all")), python_path)
    assert rank.sees(task(1, (8,), ROCR_VISIBLE_DEVICES=EIGHT), AMD[0]) == (EIGHT,)
    assert rank.sees(task(1, (8,), ROCR_VISIBLE_DEVICES=EIGHT, HPCMOD_GPUS="one"), AMD[0]) == ("1",)


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
        pytest.param(task(3, (8,), SLURM_GPUS_ON_NODE="8", HPCMOD_GPUS="all"), None, id="opted out"),
        pytest.param(task(3, (8,), SLURM_GPUS_ON_NODE="8", HIP_VISIBLE_DEVICES="5"), None, id="the user chose"),
        pytest.param({**openmpi(5, 8, 16), "MASTER_ADDR": "a"}, "5", id="mpirun"),
        pytest.param(pals(3, 8, 8), "3", id="PALS"),
        pytest.param({**pals(3, 8, 8), "SLURM_JOB_PARTITION": "cpu"}, None, id="a node type without GPUs"),
        pytest.param(flux(3, 1, 8), None, id="Flux, no GPU asked for"),
        pytest.param({}, None, id="no launcher"),
    ],
)
def test_where_only_the_number_of_gpus_is_known_each_rank_gets_that_of_its_own(
    rank: Rank, settings: RunscriptSettings, env: dict[str, str], seen: str | None
) -> None:
    rank.scripts.write(replace(settings, nodes=(NODE,)))
    assert rank.sees(env, AMD[0]) == (seen,)


@pytest.mark.parametrize(("partition", "seen"), [("gpu", "3"), ("other", "3"), ("cpu", None)])
def test_a_node_type_whose_partitions_nobody_knows_is_taken_where_no_other_fits(
    rank: Rank, settings: RunscriptSettings, partition: str, seen: str | None
) -> None:
    types = (NodeType("cpu", partitions=("cpu",)), NodeType("gpu", gpus=8))
    rank.scripts.write(replace(settings, nodes=types))
    env = task(3, (8,), SLURM_GPUS_ON_NODE="8", SLURM_JOB_PARTITION=partition)
    assert rank.sees(env, AMD[0]) == (seen,)


def test_what_flux_sets_is_taken_on_amd_too(rank: Rank) -> None:
    assert rank.sees({**flux(1, 1, 2), "CUDA_VISIBLE_DEVICES": "4,6"}, "CUDA_VISIBLE_DEVICES", AMD[0]) == ("6", None)
