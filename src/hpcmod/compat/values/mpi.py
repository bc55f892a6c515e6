"""How srun and the image's MPI connect: the MPI type that a step requests from srun."""

from __future__ import annotations

from hpcmod.core.errors import BadInputError
from hpcmod.machine.values.site import Launcher

OPEN_MPI_5, OPEN_MPI_4, MPICH, HOST = "Open MPI 5", "Open MPI before 5", "MPICH", "the host's MPI"
"""The MPI that an image's programs use; HOST: the host's replaces the image's, as Cray MPICH does for MPICH."""

_NEEDS = {
    # open-mpi/ompi issue 13523: Open MPI 5 supports only PMIx; with any other type each rank is rank 0 of 1.
    OPEN_MPI_5: ("pmix",),
    # Open MPI 4 supports PMIx, and pmi2 if built with it: HPE's images of 2024 (crickett-hpe/hpc-ai-envs).
    OPEN_MPI_4: ("pmix", "pmi2"),
    # MPICH documentation, "Using the Hydra Process Manager" with Slurm: --mpi=pmi2.
    MPICH: ("pmi2",),
    HOST: (),
}


def choose_mpi(image: str, launcher: Launcher, asked: str = "") -> str:
    """Return the value of srun's --mpi; empty: leave the flag out and use Slurm's default.

    `image`: One of the four above; empty: not known, or no MPI.
    `asked`: The user's choice; `none` is a valid type.

    Raises BadInputError if the requested type would make each rank of the image run on its own.
    """
    fitting = _NEEDS.get(image, ())
    if asked:
        if image == OPEN_MPI_5 and not asked.startswith("pmix"):
            raise BadInputError(
                f"--mpi {asked} does not work with this image: its Open MPI 5 supports PMIx only, and each rank would "
                "be rank 0 of 1",
                "Leave out --mpi, or ask for --mpi pmix.",
            )
        return asked
    offered = [kind for kind in fitting if any(_is_kind(mpi_type, kind) for mpi_type in launcher.mpi)]
    if offered:
        return next(mpi_type for mpi_type in launcher.mpi if _is_kind(mpi_type, offered[0]))
    if image == OPEN_MPI_5 or (image == MPICH and not launcher.mpi):  # with any other type, each rank is rank 0 of 1
        return fitting[0]  # srun reports an error if it lacks it
    return launcher.mpi_default


def explain_mpi(image: str, launcher: Launcher, chosen: str) -> str:
    """Explain what may be wrong with the type chosen for an image; empty if nothing is."""
    fitting = _NEEDS.get(image, ())
    if (
        not fitting
        or not launcher.mpi
        or any(_is_kind(mpi_type, kind) for mpi_type in launcher.mpi for kind in fitting)
    ):
        return ""
    needs = " or ".join(f"--mpi={kind}" for kind in fitting)
    shown = f"--mpi={chosen}" if chosen else "srun's default"
    return (
        f"The image's {image} needs {needs}, but the profile lists only {', '.join(launcher.mpi)}; the script uses "
        f"{shown}. `srun --mpi=list` prints the available types."
    )


def _is_kind(offered: str, kind: str) -> bool:
    """Return whether a type listed by srun is of a kind: pmix_v4 is a kind of pmix."""
    return offered == kind or offered.startswith(f"{kind}_")
