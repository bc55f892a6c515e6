"""What building a state needs of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Builder:
    """Tools and directories of this machine that building a state needs."""

    runtime: str
    """Path of the container runtime."""
    environ: Mapping[str, str]
    temporary: Path
    """Node-local directory for pip's files."""
    now: str
    user: str
