"""Steps request the MPI plugin that the image's MPI needs from srun, never one with which each rank is alone."""

from __future__ import annotations

import pytest

from hpcmod.compat.values.mpi import HOST, MPICH, OPEN_MPI_4, OPEN_MPI_5, choose_mpi, explain_mpi
from hpcmod.core.errors import BadInputError
from hpcmod.machine.values.site import Launcher


@pytest.mark.parametrize(
    ("image", "offered", "default", "chosen"),
    [
        pytest.param(OPEN_MPI_5, ("pmix", "pmi2"), "pmi2", "pmix", id="Open MPI 5"),
        pytest.param(OPEN_MPI_5, ("pmi2", "pmix_v4"), "pmi2", "pmix_v4", id="a version of PMIx"),
        pytest.param(OPEN_MPI_5, ("pmi2",), "pmi2", "pmix", id="PMIx that the profile does not list"),
        pytest.param(OPEN_MPI_4, ("pmi2", "pmix"), "", "pmix", id="Open MPI 4 takes PMIx first"),
        pytest.param(OPEN_MPI_4, ("pmi2",), "", "pmi2", id="and pmi2 otherwise"),
        pytest.param(MPICH, ("pmix", "pmi2"), "pmix", "pmi2", id="MPICH"),
        pytest.param(MPICH, (), "", "pmi2", id="MPICH where nothing is known"),
        pytest.param(HOST, ("cray_shasta", "pmi2"), "", "", id="Cray MPICH in the image's place"),
        pytest.param(HOST, ("pmi2",), "cray_shasta", "cray_shasta", id="and the site's own type"),
        pytest.param("", ("pmix", "pmi2"), "pmix", "pmix", id="no MPI, or not known"),
    ],
)
def test_the_type_fits_the_image(image: str, offered: tuple[str, ...], default: str, chosen: str) -> None:
    assert choose_mpi(image, Launcher(mpi=offered, mpi_default=default)) == chosen


def test_the_user_chooses_unless_it_cannot_work() -> None:
    assert choose_mpi(OPEN_MPI_4, Launcher(), "pmi2") == "pmi2"
    assert choose_mpi(OPEN_MPI_5, Launcher(), "pmix_v5") == "pmix_v5"
    with pytest.raises(BadInputError, match="rank 0 of 1"):
        choose_mpi(OPEN_MPI_5, Launcher(), "pmi2")


def test_a_type_that_the_profile_does_not_list_is_reported() -> None:
    assert "needs --mpi=pmix" in explain_mpi(OPEN_MPI_5, Launcher(mpi=("pmi2",)), "pmix")
    assert explain_mpi(OPEN_MPI_5, Launcher(mpi=("pmix_v4",)), "pmix_v4") == ""
    assert explain_mpi(OPEN_MPI_5, Launcher(), "pmix") == ""
    assert explain_mpi("", Launcher(mpi=("pmi2",)), "") == ""
