"""The plan of an image build: steps, downloads, labels and a fingerprint."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace

from hpcmod.core.values.json_form import HIDDEN

BUILD_ROOT = "/opt/hpcmod/build"
"""Directory in the image with the components' scripts and, during the build, their sources."""


@dataclass(frozen=True)
class BuildStep:
    """One component, run with bash: the same commands in a Dockerfile and in a definition file."""

    component: str
    script: str = field(metadata=HIDDEN)
    environment: tuple[tuple[str, str], ...]
    """Variables of the script; values contain no quotes, no `$` and no control characters."""


@dataclass(frozen=True)
class Download:
    """A source file of a component: fetched before the build, or taken from the offline sources."""

    name: str
    version: str
    url: str
    sha256: str
    """64 hexadecimal digits; empty if not yet in the lock file."""

    @property
    def file_name(self) -> str:
        """Return the file's name in the build context, and in a directory of offline sources."""
        suffix = next((end for end in _SUFFIXES if self.url.endswith(end)), "")
        return f"{self.name}-{self.version}{suffix}".replace("/", "-")


_SUFFIXES = (".tar.gz", ".tar.bz2", ".tar.xz", ".tgz", ".zip", ".whl")


@dataclass(frozen=True)
class SharedFiles:
    """Files of the build context that all components use."""

    lock: str = ""
    """The relevant lines of the lock file: `hpcmod/lock`."""
    library: str = ""
    """Functions: `hpcmod/common.sh`."""


_NOTHING_SHARED = SharedFiles()


@dataclass(frozen=True)
class BuildPlan:
    """Everything an image is built from."""

    recipe: str
    """Name of the recipe, or of a user's own directory or definition file."""
    architecture: str
    """GOARCH name: amd64, arm64."""
    options: tuple[tuple[str, str], ...]
    """The chosen options, including defaults: mpi, ofi, with, and each KEY of --set."""
    labels: tuple[tuple[str, str], ...]
    """Labels of the image, including `org.hpcmod.fingerprint`."""
    base: str = ""
    """Reference of the base image, in the syntax of `hpcmod fetch`; empty for a user's own file."""
    steps: tuple[BuildStep, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    """Set in the image, unchanged."""
    search_paths: tuple[tuple[str, str], ...] = ()
    """Set in the image: for each variable (PATH, LD_LIBRARY_PATH) the directories to prepend, separated by colons."""
    inputs: tuple[tuple[str, str], ...] = ()
    """Local path and path in the build context: files, or directories with everything below them."""
    sources: tuple[Download, ...] = ()
    shared: SharedFiles = field(default=_NOTHING_SHARED, metadata=HIDDEN)
    fingerprint: str = ""
    """sha256 of everything that determines the image's content, in hexadecimal; input paths are not included."""
    own_form: str = ""
    """Kind of a user's own file: `Dockerfile` or `definition`; empty for recipes."""
    own_text: str = field(default="", metadata=HIDDEN)
    """Its text."""
    own_context: str = ""
    """The build context, a local path."""

    def script_path(self, number: int) -> str:
        """Return the path of a step's script in the build context; steps are numbered from 1."""
        return f"hpcmod/{number:02}-{self.steps[number - 1].component}.sh"


def with_fingerprint(plan: BuildPlan, *, contents: str) -> BuildPlan:
    """Return the plan with its fingerprint, and the label that contains it.

    `contents`: Digest of the inputs' content, so that different wheels result in a different fingerprint.

    Notes
    -----
    The checksums of wheels are not included: they become known while the first image is built, and the next plan must
    have the same fingerprint. A package index does not change the file of a given name and version.
    """
    sources = "".join(line for line in plan.shared.lock.splitlines(keepends=True) if not line.startswith("wheel "))
    values = asdict(replace(plan, fingerprint="", inputs=(), own_context=""))
    values.update(values.pop("shared"), lock=sources)
    text = json.dumps([values, sorted(inside for _, inside in plan.inputs), contents], sort_keys=True)
    fingerprint = hashlib.sha256(text.encode()).hexdigest()
    return replace(plan, fingerprint=fingerprint, labels=(*plan.labels, ("org.hpcmod.fingerprint", fingerprint)))


def with_compression(plan: BuildPlan, compression: str | None) -> BuildPlan:
    """Return the plan with a compression that the user chose, if any: no SIF with another one is reused for it."""
    if not compression:
        return plan
    options = (*plan.options, ("compression", compression))
    return with_fingerprint(replace(plan, options=options, labels=plan.labels[:-1]), contents=plan.fingerprint)
