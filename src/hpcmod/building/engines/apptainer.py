"""Build a definition file with Apptainer or SingularityCE, with one of their methods of rootless builds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hpcmod.building.engines.engine import BuildSource, check_base, check_done
from hpcmod.building.engines.workspace import Workspace
from hpcmod.core.process import run
from hpcmod.core.values.reference import ImageReference
from hpcmod.core.which import which
from hpcmod.images import ConvertOptions

_HARMFUL = ("BIND", "BINDPATH", "MOUNT", "NV", "ROCM", "CONTAINALL", "CLEANENV")
"""Runtime settings that break a build, because they refer to files that are not in the image."""
_PACKING = "--mksquashfs-args"
"""Option that chooses the compression, since Apptainer 1.4; older ones and SingularityCE always use gzip."""


@dataclass(frozen=True)
class Way:
    """A method of emulating root while a definition file's %post runs."""

    program: str
    flags: tuple[str, ...]
    companion: str
    """Another program that the method requires."""


WAYS = {
    "fakeroot": Way("apptainer", ("--fakeroot",), "newuidmap"),
    "rootmapped": Way("apptainer", ("--fakeroot", "--ignore-subuid"), "fakeroot"),
    "proot": Way("singularity", (), "proot"),
}
"""With subordinate users of /etc/subuid; with a namespace of a single user; with PRoot (SingularityCE only)."""


@dataclass(frozen=True)
class Apptainer:
    """Apptainer with one of its methods; it writes a SIF itself."""

    way: str
    form: str = "definition"

    @property
    def name(self) -> str:
        """Name of the engine for --engine."""
        return f"{WAYS[self.way].program}-{self.way}"

    def lacks(self, environ: Mapping[str, str]) -> str:
        """Return what is missing; empty if nothing is."""
        way = WAYS[self.way]
        missing = [program for program in (way.program, way.companion) if not which(program, environ)]
        if missing:
            return f"{missing[0]} not found on PATH"
        if self.way == "proot" and "singularity-ce" not in run(["singularity", "--version"], env=environ).stdout:
            return "the singularity on PATH is not SingularityCE"
        return ""

    def build(self, workspace: Workspace, source: BuildSource) -> ImageReference:
        """Build in the workspace, and return a reference to the SIF; for errors see `Buildah.build`."""
        way, out = WAYS[self.way], workspace.directory / "image.sif"
        can_choose = _PACKING in run([way.program, "build", "--help"], env=workspace.environ).stdout
        packing = [_PACKING, _packing_options(source.conversion)] if can_choose else []
        argv = [way.program, "build", *way.flags, *packing, os.fspath(out), os.fspath(source.file)]
        status = replace(workspace, environ=_environment(workspace)).run(argv, cwd=source.context)
        if source.base and b"Running post scriptlet" not in workspace.log.read_bytes():
            check_base(workspace, status, source.base)
        check_done(workspace, status, what=f"{way.program} build")
        return ImageReference.parse(os.fspath(out))


def _packing_options(conversion: ConvertOptions) -> str:
    """Return the options of mksquashfs for a compression."""
    if conversion.compression == "none":
        return "-noI -noD -noF -noX"
    return f"-comp {conversion.compression}" + (f" -Xcompression-level {conversion.level}" if conversion.level else "")


def _environment(workspace: Workspace) -> dict[str, str]:
    """Return the environment in which Apptainer writes only to the workspace, without a persistent cache.

    Notes
    -----
    Otherwise %post would see /tmp and /var/tmp of the host, and could use or remove other users' files there.
    """
    environ = without_settings(workspace.environ)
    for prefix in ("APPTAINER", "SINGULARITY"):
        environ[f"{prefix}_TMPDIR"] = str(workspace.temporary)
        environ[f"{prefix}_CACHEDIR"] = str(workspace.temporary / "cache")
        environ[f"{prefix}_NO_MOUNT"] = "tmp"
    return environ


def without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without runtime settings that break a build and variables set inside containers."""
    settings = {f"{prefix}_{name}" for prefix in ("APPTAINER", "SINGULARITY") for name in _HARMFUL}
    inside = ("APPTAINERENV_", "SINGULARITYENV_")
    return {name: value for name, value in environ.items() if name not in settings and not name.startswith(inside)}
