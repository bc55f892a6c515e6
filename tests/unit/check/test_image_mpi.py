"""The MPI of an image, as srun must know it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcmod.check.image_mpi import find_image_mpi, name_mpi
from hpcmod.model.compat.stack import MPICH as MPICH_FAMILY
from hpcmod.model.compat.stack import OPEN_MPI, STANDARD, Mpi, StackFacts
from hpcmod.model.compat.verdict import Case, HostFacts
from hpcmod.model.jobs.mpi import HOST, MPICH, OPEN_MPI_4, OPEN_MPI_5
from hpcmod.model.site import Site

OMPI5 = Mpi("/usr/lib/libmpi.so.40", "libmpi.so.40", OPEN_MPI)
OMPI4 = replace(OMPI5, has_orte=True)
CH = Mpi("/usr/lib/libmpi.so.12", "libmpi.so.12", MPICH_FAMILY)
CRAY = Mpi("/host/lib/libmpi.so.12", "libmpi.so.12", MPICH_FAMILY)


@pytest.mark.parametrize(
    ("own", "host", "name"),
    [
        pytest.param(OMPI5, (), OPEN_MPI_5, id="Open MPI 5"),
        pytest.param(OMPI4, (CRAY,), OPEN_MPI_4, id="Open MPI 4, for which Cray MPICH cannot stand in"),
        pytest.param(CH, (), MPICH, id="MPICH"),
        pytest.param(CH, (CRAY,), HOST, id="Cray MPICH in the place of MPICH"),
        pytest.param(replace(CH, family=STANDARD), (), "", id="the standard ABI"),
        pytest.param(None, (CRAY,), "", id="no MPI"),
    ],
)
def test_an_image_s_mpi_has_a_name(own: Mpi | None, host: tuple[Mpi, ...], name: str) -> None:
    image = StackFacts(mpis=(own,) if own else ())
    assert name_mpi(Case(image, replace(HostFacts(), mpis=host), Site("ours"), (), ())) == name


def test_a_module_that_is_not_installed_has_none() -> None:
    assert find_image_mpi("Nothing/1.0", Site("ours"), {"MODULEPATH": "/nowhere"}) == ""
