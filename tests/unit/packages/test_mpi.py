"""The MPI that came with the user's packages decides how the ranks of a job connect."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.compat.values.mpi import MPICH, OPEN_MPI_4, OPEN_MPI_5
from hpcmod.core.registry import offered
from hpcmod.core.values.facts import PythonFacts
from hpcmod.modules.values.install_record import NO_RECORD, InstallRecord, OwnPackages
from hpcmod.packages.values.conda import CondaPackage, CondaPart
from hpcmod.packages.values.state import Locked
from tests.package_states import EINOPS, TAG, make_state, write_set

PYTHON = PythonFacts("/usr/bin/python3.12", "3.12", "/usr")
RECORD = InstallRecord(own_packages=OwnPackages("PyTorch", TAG, "/user-software/venv/pytorch", PYTHON))


@pytest.mark.parametrize(
    ("package", "choice", "mpi"),
    [
        (Locked("mpich", "5.0.2"), "", MPICH),
        (Locked("impi-rt", "2021.17"), "default", MPICH),
        (Locked("openmpi", "5.0.9"), "", OPEN_MPI_5),
        (Locked("openmpi", "4.1.6"), "default@1", OPEN_MPI_4),
        (EINOPS, "", ""),
        (Locked("mpich", "5.0.2"), "none", ""),
        (Locked("mpich", "5.0.2"), "other", ""),
        (Locked("mpich", "5.0.2"), "default@7", ""),
        (Locked("mpich", "5.0.2"), "a/b", ""),
    ],
)
def test_the_active_packages_decide(tmp_path: Path, package: Locked, choice: str, mpi: str) -> None:
    write_set(tmp_path / "packages/PyTorch/default", make_state(1, package))
    (find,) = offered("mpis")
    environ = {"HPCMOD_PACKAGES": choice, "HPCMOD_PACKAGES_DIR": str(tmp_path)}
    assert find(RECORD, environ) == mpi
    assert find(NO_RECORD, environ) == ""


def test_conda_packages_count_too(tmp_path: Path) -> None:
    conda = CondaPart(
        packages=(CondaPackage("mpich", "5.0", "h0_0", "https://example.org/mpich-5.0-h0_0.conda", "a" * 64),)
    )
    write_set(tmp_path / "packages/PyTorch/default", replace(make_state(1), conda=conda))
    (find,) = offered("mpis")
    assert find(RECORD, {"HPCMOD_PACKAGES_DIR": str(tmp_path)}) == MPICH
