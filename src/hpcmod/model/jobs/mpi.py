"""How srun and the image's MPI find each other: which type of MPI a step asks srun for."""

from __future__ import annotations

from hpcmod.errors import BadInputError
from hpcmod.model.site import Launcher

OPEN_MPI_5, OPEN_MPI_4, MPICH, HOST = "Open MPI 5", "Open MPI before 5", "MPICH", "the host's MPI"
"""What an image's programs get for MPI; HOST: the host's stands in for the image's, as Cray MPICH does for MPICH."""

_NEEDS = {
    # open-mpi/ompi issue 13523: Open MPI 5 has PMIx alone, and with another type each rank is rank 0 of 1.
    OPEN_MPI_5: ("pmix",),
    # Open MPI 4 has PMIx, too, and pmi2 where it was built for it: HPE's images of 2024 (crickett-hpe/hpc-ai-envs).
    OPEN_MPI_4: ("pmix", "pmi2"),
    # MPICH documentation, "Using the Hydra Process Manager" with Slurm: --mpi=pmi2.
    MPICH: ("pmi2",),
    HOST: (),
}


def choose_mpi(image: str, launcher: Launcher, asked: str = "") -> str:
    """Choose the value of srun's --mpi; empty: the flag is left out, and Slurm's own default counts.

    Parameters
    ----------
    image
        One of the four above; empty: not known, or no MPI at all.
    asked
        What the user wants; `none` is a type as well.

    Raises
    ------
    BadInputError
        If the user asks for a type with which each rank of the image would be alone.
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
    offered = [kind for kind in fitting if any(_is_kind(one, kind) for one in launcher.mpi)]
    if offered:
        return next(one for one in launcher.mpi if _is_kind(one, offered[0]))
    if image == OPEN_MPI_5:  # anything else is wrong in any case; srun says so where it has no PMIx
        return "pmix"
    return launcher.mpi_default


def explain_mpi(image: str, launcher: Launcher, chosen: str) -> str:
    """Say what may be wrong with the type chosen for an image; empty if nothing is."""
    fitting = _NEEDS.get(image, ())
    if not fitting or not launcher.mpi or any(_is_kind(one, kind) for one in launcher.mpi for kind in fitting):
        return ""
    needs = " or ".join(f"--mpi={kind}" for kind in fitting)
    shown = f"--mpi={chosen}" if chosen else "srun's default"
    return (
        f"The image's {image} needs {needs}, and the profile lists {', '.join(launcher.mpi)} only; the script has "
        f"{shown}. `srun --mpi=list` prints what there is."
    )


def _is_kind(offered: str, kind: str) -> bool:
    """Return whether a type that srun lists is of a kind: pmix_v4 is of pmix."""
    return offered == kind or offered.startswith(f"{kind}_")
