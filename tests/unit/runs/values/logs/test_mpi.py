"""Rules for MPICH and Open MPI."""

from __future__ import annotations

import pytest

from hpcmod.runs.values.logs.reading import read_log
from tests.logs import facts_of


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("libfabric provider: tcp;ofi_rxm - 10.1.0.0/16", {"mpi_provider": ("tcp;ofi_rxm",)}),
        ("[0] MPI startup(): libfabric provider: psm2", {"mpi_provider": ("psm2",)}),
        ("[c1:7] mtl_ofi_component.c:336: mtl:ofi:prov: tcp;ofi_rxm", {"mpi_provider": ("tcp;ofi_rxm",)}),
        ("[c1:7] mtl_ofi_component.c:371: mtl:ofi:provider:domain: cxi0", {"mpi_domain": ("cxi0",)}),
        ("[c1:7] mtl_ofi_component.c:360: mtl:ofi:provider: hsn0", {"mpi_domain": ("hsn0",)}),
        ("MPICH Slingshot Network Summary: 0 network timeouts", {}),
        ("MPICH Slingshot Network Summary: 12 network timeouts", {"problem": ("mpich-timeouts",)}),
    ],
)
def test_reads(line: str, expected: dict[str, tuple[str, ...]]) -> None:
    assert facts_of(read_log(line)) == expected
