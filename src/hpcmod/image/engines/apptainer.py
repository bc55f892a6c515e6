"""Build a definition file with Apptainer or SingularityCE, by one of the ways to be root without being it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hpcmod.image.engines.engine import BuildSource, check_base, check_done
from hpcmod.image.engines.place import Place
from hpcmod.image.programs import without_settings
from hpcmod.model.reference import ImageReference
from hpcmod.process import run, which

_PACKING = ("--mksquashfs-args", "-comp zstd -Xcompression-level 3")


@dataclass(frozen=True)
class Way:
    """One way to seem root while a definition file's %post runs."""

    program: str
    flags: tuple[str, ...]
    companion: str
    """Another program that it needs."""


WAYS = {
    "fakeroot": Way("apptainer", ("--fakeroot",), "newuidmap"),
    "rootmapped": Way("apptainer", ("--fakeroot", "--ignore-subuid"), "fakeroot"),
    "proot": Way("singularity", (), "proot"),
}
"""By subordinate users of /etc/subuid; by a namespace with one user in it; by PRoot, which only SingularityCE knows."""


@dataclass(frozen=True)
class Apptainer:
    """Apptainer in one of its ways; it writes a SIF itself."""

    way: str
    form: str = "definition"

    @property
    def name(self) -> str:
        """As --engine takes it."""
        return f"{WAYS[self.way].program}-{self.way}"

    def lacks(self, environ: Mapping[str, str]) -> str:
        """Do what `Engine.lacks` says."""
        way = WAYS[self.way]
        missing = [one for one in (way.program, way.companion) if not which(one, environ)]
        if missing:
            return f"no {missing[0]} on PATH"
        if self.way == "proot" and "singularity-ce" not in run(["singularity", "--version"], env=environ).stdout:
            return "the singularity on PATH is not SingularityCE"
        return ""

    def build(self, place: Place, source: BuildSource) -> ImageReference:
        """Do what `Engine.build` says."""
        way, out = WAYS[self.way], place.directory / "image.sif"
        argv = [way.program, "build", *way.flags, *_PACKING, os.fspath(out), os.fspath(source.file)]
        status = replace(place, environ=_environment(place)).run(argv, cwd=source.context)
        if source.base and not place.has_said("Running post scriptlet"):
            check_base(place, status, source.base)
        check_done(place, status, what=f"{way.program} build")
        return ImageReference.parse(os.fspath(out))


def _environment(place: Place) -> dict[str, str]:
    """Let nothing be written but in the place: bases are taken apart there, and kept nowhere.

    Notes
    -----
    %post would see /tmp and /var/tmp of the machine, where it may meet others' files, and remove them.
    """
    environ = without_settings(place.environ)
    for prefix in ("APPTAINER", "SINGULARITY"):
        environ[f"{prefix}_TMPDIR"] = str(place.temporary)
        environ[f"{prefix}_CACHEDIR"] = str(place.temporary / "cache")
        environ[f"{prefix}_NO_MOUNT"] = "tmp"
    return environ
