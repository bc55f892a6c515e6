"""Name and version that the reference or the file name of an image says."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hpcmod.core.values.facts import Package
from hpcmod.core.values.reference import ImageReference

_SPLIT = re.compile(r"(?P<name>[A-Za-z0-9_][A-Za-z0-9_.+-]*?)[-_](?P<version>[vV]?\d[A-Za-z0-9_.+-]*)")
_TAGGED = re.compile(
    r"(?:[a-z0-9-]+(?:\.[a-z0-9-]+)+_(?:[A-Za-z0-9.-]+_)*)?(?P<name>[A-Za-z0-9_][A-Za-z0-9_.+-]*):(?P<version>[A-Za-z0-9_][A-Za-z0-9_.+-]*)"
)
"""Names after a reference, with its registry or without: nvcr.io_nvidia_pytorch:21.06-py3."""

_SUFFIX = re.compile(r"\.(?:sif|simg|img)$")

FRAMEWORKS = ("torch", "tensorflow", "jax", "vllm")
"""Packages that make the module of an image one of machine learning."""


def split_name(stem: str) -> tuple[str, str] | None:
    """Return name and version in the name of a SIF without its suffix, NAME_VERSION or NAME-VERSION; None without."""
    split = _TAGGED.fullmatch(stem) or _SPLIT.fullmatch(stem)
    return (split["name"], split["version"]) if split else None


def name_of_reference(reference: ImageReference) -> tuple[str, str]:
    """Return name and version as a reference says them: NAME:TAG, or NAME-VERSION.sif; the version may be empty.

    The tag `latest` is not a version, because it means another image tomorrow.
    """
    if reference.repository:
        name = reference.repository.rpartition("/")[2]
        return name, "" if reference.tag == "latest" else reference.tag
    stem = _SUFFIX.sub("", reference.file_name)
    return split_name(stem) or (stem, "")


def choose_module_class(packages: Iterable[Package]) -> str:
    """Return the class that EasyBuild gives the module of an image with these packages."""
    return "ai" if any(package.name.lower() in FRAMEWORKS for package in packages) else "tools"
