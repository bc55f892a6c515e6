"""Labels of a built image, measured from its content: versions, and its requirements on host libraries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hpcmod.compat import find_stack, open_files
from hpcmod.compat.values.stack import PART, StackFacts, newest_version
from hpcmod.core.values.facts import ImageFacts
from hpcmod.images import read_facts

_PREFIX = "org.hpcmod"
_LABELLED = ("torch", "tensorflow", "mpi4py", "mpich", "numpy", "horovod", "deepspeed")
"""Python packages whose versions are in a label; the full list is in the image, /opt/hpcmod/sbom.cdx.json."""


def measure_labels(sif: Path) -> dict[str, str]:
    """Measure an image and return its labels, without those that are unknown.

    Raises
    ------
    HpcmodError
        If the image cannot be read.
    """
    facts = read_facts(sif)
    with open_files(sif) as files:
        stack = find_stack(files, facts)
        users = [part.path for part in stack.mpis] + [part.path for part in stack.plugins]
        users += [path for kind, path in stack.others if kind == PART]
        needed = [version for path in users if (elf := files.elf(path)) for _, version in elf.versions_needed]
    labels = {
        f"{_PREFIX}.versions": " ".join(_versions(facts, stack)),
        f"{_PREFIX}.needs.glibc": stack.glibc_needed,
        f"{_PREFIX}.needs.fabric": newest_version(needed, "FABRIC_").removeprefix("FABRIC_"),
    }
    return {name: value for name, value in labels.items() if value}


def _versions(facts: ImageFacts, stack: StackFacts) -> Iterator[str]:
    """Return NAME=VERSION of what determines where the image runs, and of the best-known packages."""
    libfabric = next((fabric.release for fabric in stack.fabrics), "")
    found = {
        "python": facts.python.version if facts.python else "",
        "glibc": stack.glibc,
        "libfabric": libfabric,
        "cuda": stack.cuda,
        "rocm": stack.rocm,
        **{package.name: package.version for package in facts.packages if package.name in _LABELLED},
    }
    yield from (f"{name}={version}" for name, version in found.items() if version)
    yield from (f"mpi={mpi.soname}" for mpi in stack.mpis[:1])
