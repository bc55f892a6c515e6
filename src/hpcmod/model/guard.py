"""Keep the host's Python out of the container: variables to set there unless the image sets them itself."""

from __future__ import annotations

from hpcmod.model.images.facts import ImageFacts

HOST_PYTHON = (
    "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "LD_PRELOAD", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV",
    "CONDA_EXE", "CONDA_PYTHON_EXE", "CONDA_SHLVL", "CONDA_PROMPT_MODIFIER", "_CE_CONDA", "_CE_M",
)  # fmt: skip
"""Host variables that affect Python in the container: Apptainer passes all of them on (1.4.5, tested)."""


def make_guard(facts: ImageFacts | None) -> tuple[tuple[str, str], ...]:
    """Return the container variables, with values, that shield it from the host's Python environment.

    Variables that the image sets are left out: the image's value overrides the host's, and ours would override it.
    Python, conda and the loader treat an empty value as unset.
    """
    own = facts.assigned if facts else ()
    pairs = (*((name, "") for name in HOST_PYTHON), ("PYTHONNOUSERSITE", "1"))
    return tuple(pair for pair in pairs if pair[0] not in own)
