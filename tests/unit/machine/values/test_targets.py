from __future__ import annotations

import re

import pytest

from hpcmod.machine.values.targets import (
    GPU_TARGET,
    TARGETS_LABEL,
    find_targets,
    parse_kfd_node,
    parse_nvidia_model,
    runs_on,
)

ROCM, CUDA = "PYTORCH_ROCM_ARCH", "TORCH_CUDA_ARCH_LIST"

KNOWN = {
    "nothing": ({}, {}, ""),
    "a label": ({TARGETS_LABEL: "zen3 gfx90a, GFX942;x86-64-v3"}, {}, "gfx90a gfx942 x86-64-v3 zen3"),
    "a label, with features of the target": ({TARGETS_LABEL: "gfx90a:sramecc+:xnack-"}, {}, "gfx90a"),
    "AMD's list": ({}, {ROCM: "gfx90a;gfx942;gfx90a"}, "gfx90a gfx942"),
    "AMD's list, with a generic target": ({}, {ROCM: "gfx90a gfx9-4-generic"}, "gfx9-4-generic gfx90a"),
    "NVIDIA's list": ({}, {CUDA: "7.5 8.0 9.0+PTX"}, "compute_90 sm_75 sm_80 sm_90"),
    "NVIDIA's list, with semicolons and suffixes": ({}, {CUDA: "9.0a;10.0f;12.0"}, "sm_100f sm_120 sm_90a"),
    "both": ({}, {CUDA: "8.0", ROCM: "gfx90a"}, "gfx90a sm_80"),
    "a label with GPUs comes before the variables": ({TARGETS_LABEL: "gfx90a"}, {ROCM: "gfx908"}, "gfx90a"),
    "a label without adds to them": ({TARGETS_LABEL: "zen3"}, {ROCM: "gfx908"}, "gfx908 zen3"),
    "a name of an architecture": ({}, {CUDA: "8.0 Hopper"}, ""),
    "numbers that are too long": ({}, {CUDA: "9" * 5000 + ".0"}, ""),
    "native": ({}, {ROCM: "native"}, ""),
    "a word that is not understood": ({}, {ROCM: "gfx90a;$(id)", CUDA: "8.0"}, "sm_80"),
    "a label that is not understood": ({TARGETS_LABEL: "gfx90a sm_x"}, {}, ""),
    "a hostile label": ({TARGETS_LABEL: "\x1b[2J <b>"}, {}, ""),
}


@pytest.mark.parametrize(("labels", "environment", "targets"), KNOWN.values(), ids=KNOWN)
def test_targets_come_from_labels_and_variables_and_are_not_guessed(
    labels: dict[str, str], environment: dict[str, str], targets: str
) -> None:
    assert " ".join(find_targets(tuple(labels.items()), tuple(environment.items()))) == targets


@pytest.mark.parametrize(
    ("targets", "gpus", "runs"),
    [
        ("gfx90a gfx942", "gfx90a", True),
        ("gfx942", "gfx90a", False),
        ("gfx942", "gfx90a gfx942", True),
        ("sm_90", "gfx90a", False),
        ("sm_80", "sm_80", True),
        ("sm_80", "sm_86", True),
        ("sm_86", "sm_80", False),
        ("sm_80", "sm_90", False),
        ("compute_80", "sm_90", True),
        ("compute_90", "sm_80", False),
        ("sm_90a", "sm_90", True),
        ("compute_90a", "sm_100", False),
        ("sm_100a", "sm_103", False),
        ("sm_100f", "sm_103", True),
        ("compute_100f", "sm_120", False),
        ("gfx9-4-generic", "gfx942", None),
        ("gfx9-4-generic gfx90a", "gfx90a", True),
        ("zen3 x86-64-v3", "gfx90a", None),
        ("", "gfx90a", None),
        ("gfx90a", "", None),
        ("sm_" + "9" * 5000, "sm_90", False),
    ],
)
def test_an_image_runs_where_its_code_does(targets: str, gpus: str, runs: bool | None) -> None:
    assert runs_on(targets.split(), gpus.split()) is runs


@pytest.mark.parametrize(
    ("word", "known"),
    [("gfx90a", True), ("sm_90", True), ("sm_121", True), ("compute_90", False), ("MI250X", False), ("zen3", False)],
)
def test_words_for_gpus(word: str, known: bool) -> None:
    assert bool(re.fullmatch(GPU_TARGET, word)) is known


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\n", None),
        ("cpu_cores_count 0\nsimd_count 440\ngfx_target_version 90010\n", "gfx90a"),
        ("simd_count 912\ngfx_target_version 90402\n", "gfx942"),
        ("simd_count 160\ngfx_target_version 100300\n", "gfx1030"),
        ("simd_count 192\ngfx_target_version 110001\n", "gfx1101"),
        ("simd_count 440\n", ""),
        ("simd_count 440\ngfx_target_version -1\n", ""),
        ("", None),
    ],
)
def test_reads_the_target_in_the_topology_of_amds_driver(text: str, target: str | None) -> None:
    assert parse_kfd_node(text) == target


@pytest.mark.parametrize(
    ("model", "target"),
    [
        ("NVIDIA H100 80GB HBM3", "sm_90"),
        ("NVIDIA A100-SXM4-40GB", "sm_80"),
        ("NVIDIA GH200 120GB", "sm_90"),
        ("Tesla V100-SXM2-16GB", "sm_70"),
        ("NVIDIA GB10", "sm_121"),
        ("NVIDIA A10G", ""),
        ("Unknown", ""),
    ],
)
def test_knows_the_target_of_gpus_of_data_centres_by_their_model(model: str, target: str) -> None:
    assert parse_nvidia_model(f"Model: \t\t {model}\nIRQ:   \t\t 10\nGPU UUID: \t GPU-A100\n") == target


def test_without_a_model_the_target_is_not_known() -> None:
    assert parse_nvidia_model("IRQ: 10\n") == ""
