"""The MPI that programs of an installed module use on this machine, for the srun that starts them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hpcmod.check.compat import make_case
from hpcmod.errors import HpcmodError
from hpcmod.install.installed import Installed
from hpcmod.model.compat.stack import MPICH as MPICH_FAMILY
from hpcmod.model.compat.stack import OPEN_MPI
from hpcmod.model.compat.verdict import Case
from hpcmod.model.jobs.mpi import HOST, MPICH, OPEN_MPI_4, OPEN_MPI_5
from hpcmod.model.site import Site


def find_image_mpi(installed: Installed | None, site: Site, environ: Mapping[str, str]) -> str:
    """Return a name from hpcmod.model.jobs.mpi; empty if nothing is installed here, or the image has no MPI."""
    if installed is None or not installed.may_have_mpi:
        return ""
    return read_image_mpi(Path(installed.of_image("path")), site, environ)


def read_image_mpi(image: Path, site: Site, environ: Mapping[str, str]) -> str:
    """Return the name of an image's MPI from hpcmod.model.jobs.mpi; empty if it has none, or cannot be read."""
    if not image.is_file():
        return ""
    try:
        return name_mpi(make_case(image, site, environ))
    except HpcmodError:  # the checks of the image report the error
        return ""


def name_mpi(case: Case) -> str:
    """Return the name of the MPI that programs use, from everything known about an image on a machine."""
    own = case.image.mpi
    if own is None:
        return ""
    if any((one.family, one.soname) == (own.family, own.soname) for one in case.host.mpis):
        return HOST
    if own.family == OPEN_MPI:
        return OPEN_MPI_4 if own.has_orte else OPEN_MPI_5
    return MPICH if own.family == MPICH_FAMILY else ""
