from __future__ import annotations

from hpcmod.catalogue.finding.compare import ContainerDifference, compare
from hpcmod.core.values.facts import Package
from tests.catalogues import change_record, make_record

OLD = make_record(
    "PyTorch/2.6",
    sha256="0" * 64,
    size=10,
    packages=(Package("numpy", "1.26"), Package("Flash_Attn", "2.7"), Package("old", "1")),
    environment=(("A", "1"), ("B", "same")),
    stack=(("rocm", "6.2.4"),),
    commands=("python", "torchrun"),
)
NEW = change_record(
    OLD,
    sha256="1" * 64,
    size=12,
    packages=(Package("numpy", "2.1"), Package("flash-attn", "2.8"), Package("new", "1")),
    environment=(("A", ""), ("B", "same"), ("C", "3")),
    stack=(("rocm", "6.4"), ("mpi", "mpich")),
    commands=("python", "vllm"),
)


def test_reports_every_difference_once() -> None:
    assert compare(OLD, NEW) == (
        ContainerDifference("image", "sha256", "0" * 64, "1" * 64),
        ContainerDifference("image", "size", "10", "12"),
        ContainerDifference("stack", "mpi", None, "mpich"),
        ContainerDifference("stack", "rocm", "6.2.4", "6.4"),
        ContainerDifference("package", "flash-attn", "2.7", "2.8"),
        ContainerDifference("package", "new", None, "1"),
        ContainerDifference("package", "numpy", "1.26", "2.1"),
        ContainerDifference("package", "old", "1", None),
        ContainerDifference("variable", "A", "1", ""),
        ContainerDifference("variable", "C", None, "3"),
        ContainerDifference("command", "torchrun", "", None),
        ContainerDifference("command", "vllm", None, ""),
    )
    assert compare(OLD, OLD) == ()
