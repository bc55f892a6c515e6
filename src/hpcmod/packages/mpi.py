"""The MPI that came with the packages that a user added: it decides how the ranks of a job connect."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hpcmod.compat.values.mpi import MPICH, OPEN_MPI_4, OPEN_MPI_5
from hpcmod.core.errors import HpcmodError
from hpcmod.modules.values.install_record import InstallRecord
from hpcmod.modules.values.place import CHOICE_VARIABLE, parse_choice, set_directory

_LIKE_MPICH = ("mpich", "impi-rt")
"""Packages with an MPI of MPICH's family: those of PyPI and conda, by their normalized names."""


def find_mpi(record: InstallRecord, environ: Mapping[str, str]) -> str:
    """Return the MPI of the packages that are active in this shell, as in hpcmod.compat.values.mpi; empty: none."""
    own = record.own_packages
    with suppress(HpcmodError, OSError):  # the module reports it when it is loaded
        choice = parse_choice(environ.get(CHOICE_VARIABLE, ""))
        if own is None or choice is None:
            return ""
        directory = Path(set_directory(own.name, choice, environ))
        if not directory.is_dir():
            return ""
        from hpcmod.packages.sets import PackageSet  # takes time to import, and most users have no packages
        from hpcmod.packages.values.requirement import normalize_package

        kept = PackageSet(own.name, choice, directory)
        number = kept.chosen_number(own.tag)
        if number is None:
            return ""
        state = kept.read(number)
        versions = {normalize_package(each.name): each.version for each in state.locked}
        versions.update({each.name: each.version for each in state.conda.packages})
        if versions.keys() & {*_LIKE_MPICH}:
            return MPICH
        if "openmpi" in versions:
            return OPEN_MPI_4 if versions["openmpi"].startswith(("3.", "4.")) else OPEN_MPI_5
    return ""
