from __future__ import annotations

import pytest

from hpcmod.core.values.facts import ImageFacts, Package
from hpcmod.machine.values.condition import Condition
from hpcmod.machine.values.site import Tunable
from hpcmod.modules.values.spec import InstallSpec
from hpcmod.modules.values.versions import choose_tunables, find_versions, said_versions

SPEC = InstallSpec("PyTorch", "PyTorch/2.7.1", "PYTORCH", "/sw", "torch.sif", "P.eb")
NAMED = InstallSpec(
    "PyTorch", "PyTorch/2.7.1-rocm-6.2.4-singularity", "PYTORCH", "/sw", "lumi-rocm-6.1.3-x.sif", "P.eb"
)


def facts(torch: str = "", **environment: str) -> ImageFacts:
    packages = (Package("torch", torch),) if torch else ()
    return ImageFacts("amd64", 1, packages=packages, environment=tuple(environment.items()))


@pytest.mark.parametrize(
    ("image", "spec", "expected"),
    [
        pytest.param(None, SPEC, {}, id="nothing known"),
        pytest.param(facts("2.7.1+rocm6.2.4"), SPEC, {"torch": "2.7.1", "rocm": "6.2.4"}, id="torch for ROCm"),
        pytest.param(facts("2.6.0+cu124"), SPEC, {"torch": "2.6.0", "cuda": "12.4"}, id="torch for CUDA"),
        pytest.param(facts("2.3.0a0+40ec155e58.nv24.03"), SPEC, {"torch": "2.3.0a0"}, id="torch of NGC"),
        pytest.param(facts(CUDA_VERSION="12.4.0.041"), SPEC, {"cuda": "12.4.0.041"}, id="the image's environment"),
        pytest.param(None, NAMED, {"rocm": "6.2.4"}, id="the name of the module before that of the image"),
        pytest.param(facts("2.7.1+rocm6.3"), NAMED, {"torch": "2.7.1", "rocm": "6.3"}, id="the image before names"),
        pytest.param(facts("2.7.1+rocm6.3", ROCM_VERSION="7.0"), NAMED, {"torch": "2.7.1", "rocm": "7.0"}, id="all"),
    ],
)
def test_versions_are_found_where_images_say_them(
    image: ImageFacts | None, spec: InstallSpec, expected: dict[str, str]
) -> None:
    assert find_versions(image, spec) == expected


@pytest.mark.parametrize(
    ("labels", "environment", "version"),
    [
        pytest.param((("org.hpcmod.options", "aws-ofi-nccl=1.20.0 mpi=ompi"),), {}, "1.20.0", id="our label"),
        pytest.param((), {"AWS_OFI_NCCL_VERSION": "v1.14.2-aws"}, "1.14.2", id="NVIDIA's variable"),
        pytest.param((), {}, "", id="neither"),
    ],
)
def test_the_version_of_the_network_plugin(
    labels: tuple[tuple[str, str], ...], environment: dict[str, str], version: str
) -> None:
    image = ImageFacts("amd64", 1, labels=labels, environment=tuple(environment.items()))
    assert said_versions(image).get("plugin", "") == version


def test_tunables_are_parted_by_the_runs_they_are_for() -> None:
    tunables = [
        Tunable("A", "1"),
        Tunable("B", "2", Condition.parse("multi-node")),
        Tunable("C", "3", Condition.parse("rocm>=7")),
        Tunable("D", "4", Condition.parse("rocm<7, multi-node"), "because"),
        Tunable("D", "5", Condition.parse("multi-node")),
        Tunable("E", "6", Condition.parse("single-node")),
    ]
    chosen = choose_tunables(tunables, {"rocm": "6.2"})
    assert (chosen.always, chosen.single_node) == ((("A", "1"),), (("E", "6"),))
    assert chosen.multi_node == (("B", "2"), ("D", "4"))
    assert chosen.reasons == (("D", "4", "because"),)
    assert choose_tunables(tunables, {}).multi_node == (("B", "2"), ("D", "5"))
