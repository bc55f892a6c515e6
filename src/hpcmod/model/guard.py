"""What keeps the host's Python out of the container: what to empty or set there, unless the image sets it itself."""

from __future__ import annotations

from hpcmod.model.facts import ImageFacts

HOST_PYTHON = (
    "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "LD_PRELOAD", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV",
    "CONDA_EXE", "CONDA_PYTHON_EXE", "CONDA_SHLVL", "CONDA_PROMPT_MODIFIER", "_CE_CONDA", "_CE_M",
)  # fmt: skip
"""Variables with which a Python of the host changes the container's: Apptainer hands all of them on (1.4.5, tried)."""


def make_guard(facts: ImageFacts | None) -> tuple[tuple[str, str], ...]:
    """Make the variables of the container, and their values, that an environment of the host cannot get past.

    What the image sets itself is left out: it wins over the host anyway, and a value of ours would win over it.
    Python, conda and the loader take an empty value for none.
    """
    own = facts.assigned if facts else ()
    pairs = (*((name, "") for name in HOST_PYTHON), ("PYTHONNOUSERSITE", "1"))
    return tuple(pair for pair in pairs if pair[0] not in own)
