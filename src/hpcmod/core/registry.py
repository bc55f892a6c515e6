"""What one part of hpcmod adds to the commands of another, by dotted name: imported only when a command needs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

VERIFIERS = ("hpcmod.packages.packages:verify_packages",)
"""For `hpcmod verify`: called with an installation and the environment, each yields findings."""

DEPENDENTS = ("hpcmod.notebooks.kernels:find_dependent_kernels",)
"""For `hpcmod remove`: called with the root of an installation and the environment, each yields `Dependent` values."""

EXAMPLES = ("hpcmod.jobs.text.job_example:render_job_example",)
"""For `hpcmod catalogue docs`: called with a module and a site, each yields a title and a text to copy and run."""


class Dependent(NamedTuple):
    """Something that stops working when an installation is removed."""

    kind: str
    name: str
    removal: str
    """The command that removes it."""


def load_all(names: Sequence[str]) -> Iterator[Any]:
    """Import and yield the functions of a table of this module, in order."""
    for name in names:
        module, _, attribute = name.partition(":")
        yield getattr(import_module(module), attribute)
