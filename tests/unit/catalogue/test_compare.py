from __future__ import annotations

from dataclasses import replace

from hpcmod.catalogue.compare import Change, compare
from hpcmod.model.facts import Package
from tests.catalogues import make_record

OLD = make_record(
    "PyTorch/2.6",
    sha256="0" * 64,
    size=10,
    packages=(Package("numpy", "1.26"), Package("Flash_Attn", "2.7"), Package("old", "1")),
    environment=(("A", "1"), ("B", "same")),
    stack=(("rocm", "6.2.4"),),
    commands=("python", "torchrun"),
)
NEW = replace(
    OLD,
    sha256="1" * 64,
    size=12,
    packages=(Package("numpy", "2.1"), Package("flash-attn", "2.8"), Package("new", "1")),
    environment=(("A", ""), ("B", "same"), ("C", "3")),
    stack=(("rocm", "6.4"), ("mpi", "mpich")),
    commands=("python", "vllm"),
)


def test_every_difference_is_named_once() -> None:
    assert compare(OLD, NEW) == (
        Change("image", "sha256", "0" * 64, "1" * 64),
        Change("image", "size", "10", "12"),
        Change("stack", "mpi", None, "mpich"),
        Change("stack", "rocm", "6.2.4", "6.4"),
        Change("package", "flash-attn", "2.7", "2.8"),
        Change("package", "new", None, "1"),
        Change("package", "numpy", "1.26", "2.1"),
        Change("package", "old", "1", None),
        Change("variable", "A", "1", ""),
        Change("variable", "C", None, "3"),
        Change("command", "torchrun", "", None),
        Change("command", "vllm", None, ""),
    )


def test_a_container_does_not_differ_from_itself() -> None:
    assert compare(OLD, OLD) == ()
