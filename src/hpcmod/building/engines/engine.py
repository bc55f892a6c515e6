"""What all engines have in common: their input, and the errors of their programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hpcmod.building.engines.workspace import ELSEWHERE, Workspace
from hpcmod.core.errors import HpcmodError, NoSpaceError, NotFoundError
from hpcmod.core.values.reference import ImageReference
from hpcmod.images import ConvertOptions

_FULL = "No space left on device"


@dataclass(frozen=True)
class BuildSource:
    """The input of a build."""

    context: Path
    """The build context."""
    file: Path
    """The Dockerfile or the definition file."""
    base: ImageReference | None
    """The base image; None if only the file names it."""
    conversion: ConvertOptions = field(default_factory=ConvertOptions)
    """Compression of a SIF that the engine itself writes."""


def check_done(workspace: Workspace, status: int, *, what: str) -> None:
    """Raise an error with the last output lines if a program failed.

    `what`: The command that ran, for the message: `buildah bud`.

    Raises NoSpaceError if the output says that a disk is full; HpcmodError for any other failure.
    """
    if not status:
        return
    step = f"the component {workspace.step.partition('-')[2]} failed: " if workspace.step else ""
    said = "\n".join(f"  | {line}" for line in workspace.said)
    message = f"{step}{what} failed with status {status}:\n{said}"
    if any(_FULL in line for line in workspace.said):
        raise NoSpaceError(message, f"Free some space where {workspace.directory.parent} is, or {ELSEWHERE}.")
    raise HpcmodError(message, "Fix the error above, and build again." * bool(workspace.step))


def check_base(workspace: Workspace, status: int, base: ImageReference) -> None:
    """Raise NotFoundError if the base image could not be pulled."""
    if status:
        reason = workspace.said[-1] if workspace.said else f"status {status}"
        raise NotFoundError(
            f"the base image {base.canonical} cannot be pulled: {reason}",
            "Check the reference and that the registry is reachable; or use a local image: --base oci:DIR.",
        )
