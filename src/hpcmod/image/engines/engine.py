"""What every engine is: a name, what it builds from, and how it builds that in a place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from hpcmod.errors import HpcmodError, NoSpaceError, NotFoundError
from hpcmod.image.engines.place import ELSEWHERE, Place
from hpcmod.model.reference import ImageReference

_FULL = "No space left on device"


@dataclass(frozen=True)
class EngineFinding:
    """What trying an engine has shown."""

    name: str
    works: bool
    why: str
    """How it works, or why it does not."""


@dataclass(frozen=True)
class BuildSource:
    """What is built."""

    context: Path
    """The build context."""
    file: Path
    """The Dockerfile or the definition file."""
    base: ImageReference | None
    """The image that it begins with; None if the file alone says that."""


class Engine(Protocol):
    """One program in one of its ways to build images."""

    @property
    def name(self) -> str:
        """As --engine takes it."""

    @property
    def way(self) -> str:
        """What distinguishes it among those of its name."""

    @property
    def form(self) -> str:
        """What it builds from: `Dockerfile` or `definition`."""

    def lacks(self, environ: Mapping[str, str]) -> str:
        """Say what is missing here so that it cannot even be tried; empty if nothing."""

    def build(self, place: Place, source: BuildSource) -> ImageReference:
        """Build in the place; the reference names a SIF, or an OCI image that is still to be converted.

        Raises
        ------
        NotFoundError
            If the base cannot be got.
        HpcmodError
            If the build fails.
        """


def exact(reference: ImageReference) -> ImageReference:
    """Leave out the tag where there is a digest: engines take one of both only."""
    return replace(reference, tag="") if reference.digest else reference


def check_done(place: Place, status: int, *, what: str) -> None:
    """Raise for a program that failed, with the last that it said.

    Parameters
    ----------
    what
        What it was to do: `buildah bud`.

    Raises
    ------
    NoSpaceError
        If it said that a disk is full.
    HpcmodError
        For any other fault.
    """
    if not status:
        return
    step = f"the component {place.step.partition('-')[2]} failed: " if place.step else ""
    said = "\n".join(f"  | {line}" for line in place.said)
    message = f"{step}{what} ended with status {status}:\n{said}"
    if any(_FULL in line for line in place.said):
        raise NoSpaceError(message, f"Free some space where {place.directory.parent} is, or {ELSEWHERE}.")
    raise HpcmodError(message, "Fix what it says is wrong, and build again." * bool(place.step))


def check_base(place: Place, status: int, base: ImageReference) -> None:
    """Raise for a base that could not be got."""
    if status:
        raise NotFoundError(
            f"the base image {base.canonical} cannot be got: {place.said[-1] if place.said else f'status {status}'}",
            "See that the reference is right and the registry reached; or name an image that is here: --base oci:DIR.",
        )
