"""All that will go into an image that is built, decided: steps, downloads, labels and a fingerprint."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace

BUILD_ROOT = "/opt/hpcmod/build"
"""Directory of the image with the components' scripts, and while it is built with what they take their sources from."""


@dataclass(frozen=True)
class BuildStep:
    """One component, run with bash: the same text for a Dockerfile and for a definition file."""

    component: str
    script: str
    environment: tuple[tuple[str, str], ...]
    """What the script is told, by variable; values hold no quotes, no `$` and no control characters."""


@dataclass(frozen=True)
class Download:
    """A file that a component is made from: fetched before the build, or taken from the offline sources."""

    name: str
    version: str
    url: str
    sha256: str
    """64 hexadecimal digits; empty where the lock file does not know it yet."""

    @property
    def file_name(self) -> str:
        """Name of the file in the build context, and in a directory of offline sources."""
        suffix = next((end for end in _SUFFIXES if self.url.endswith(end)), "")
        return f"{self.name}-{self.version}{suffix}".replace("/", "-")


_SUFFIXES = (".tar.gz", ".tar.bz2", ".tar.xz", ".tgz", ".zip", ".whl")


@dataclass(frozen=True)
class BuildPlan:
    """What an image is built from."""

    recipe: str
    """Name of the recipe; of a user's own Dockerfile the name of its directory."""
    base: str
    """Reference of the base image, as `hpcmod fetch` takes it; empty for a user's own Dockerfile."""
    architecture: str
    """In Go's names: amd64, arm64."""
    steps: tuple[BuildStep, ...]
    options: tuple[tuple[str, str], ...]
    """What was chosen, defaults too: mpi, ofi, with, and each KEY of --set."""
    labels: tuple[tuple[str, str], ...]
    """Of the image; `org.hpcmod.fingerprint` is among them."""
    environment: tuple[tuple[str, str], ...]
    """Baked into the image: values as they are."""
    search_paths: tuple[tuple[str, str], ...]
    """Baked into the image: by variable (PATH, LD_LIBRARY_PATH) the directories, with colons, that come first."""
    inputs: tuple[tuple[str, str], ...]
    """Path on this machine, and path in the build context: files, or directories with all that is below them."""
    sources: tuple[Download, ...]
    lock: str
    """Lines of the lock file that concern this build; the file `hpcmod/lock` of the build context."""
    library: str
    """Functions that the components share; the file `hpcmod/common.sh` of the build context."""
    fingerprint: str
    """sha256 of all that decides what the image holds, in hexadecimal digits. Where inputs lie is no part of it."""
    own_context: str = ""
    """Build context of a user's own Dockerfile, as a path of this machine; empty for recipes."""
    own_dockerfile: str = ""
    """Text of a user's own Dockerfile; there is no definition file then."""

    def script_path(self, number: int) -> str:
        """Path of a step's script in the build context, by its number from 1."""
        return f"hpcmod/{number:02}-{self.steps[number - 1].component}.sh"


def with_fingerprint(plan: BuildPlan, *, contents: str) -> BuildPlan:
    """Give a plan its fingerprint, and the label that says it.

    Parameters
    ----------
    contents
        What stands for the content of the inputs, so that other wheels make another fingerprint.

    Notes
    -----
    The checksums of wheels are no part of it: they become known while the first image is built, and its fingerprint is
    to be that of the next plan. What a package index holds under a name and a version stays the same.
    """
    sources = "".join(line for line in plan.lock.splitlines(keepends=True) if not line.startswith("wheel "))
    values = asdict(replace(plan, fingerprint="", inputs=(), own_context="", lock=sources))
    text = json.dumps([values, sorted(inside for _, inside in plan.inputs), contents], sort_keys=True)
    fingerprint = hashlib.sha256(text.encode()).hexdigest()
    return replace(plan, fingerprint=fingerprint, labels=(*plan.labels, ("org.hpcmod.fingerprint", fingerprint)))
