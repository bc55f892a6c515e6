"""Build a Dockerfile with buildah, in a storage of the build's own, without a daemon and without root."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hpcmod.errors import HpcmodError
from hpcmod.fs.reading import read_text
from hpcmod.image.engines.engine import BuildSource, check_base, check_done, exact
from hpcmod.image.engines.place import Place
from hpcmod.model.reference import ImageReference, is_loopback
from hpcmod.process import which

_BUILT = "oci:image:built"
"""Where the image goes, without being committed to the storage first: a layout in the place, its layers unpacked."""

_ID = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_FUSE = "fuse-overlayfs"
_LIMIT = 1 << 20  # bytes of a Dockerfile
_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class Buildah:
    """Buildah, with one of the ways to keep layers.

    Notes
    -----
    `--isolation=chroot` is the only one that works without cgroups of one's own, as on most login nodes, and it has the
    network of the machine. The storage is named in full, so that no storage.conf of user or machine has a say.
    """

    way: str
    """Driver of the storage: overlay, fuse-overlayfs or vfs."""
    name: str = "buildah"
    verb: str = "bud"
    form: str = "Dockerfile"

    def lacks(self, environ: Mapping[str, str]) -> str:
        """Do what `Engine.lacks` says."""
        needed = (self.name, _FUSE) if self.way == _FUSE else (self.name,)
        missing = [each for each in needed if not which(each, environ)]
        return f"no {missing[0]} on PATH" if missing else ""

    def build(self, place: Place, source: BuildSource) -> ImageReference:
        """Do what `Engine.build` says."""
        base = ["--from", self._pull(place, source.base)] if source.base else []
        for reference in () if source.base else _local_bases(source.file):
            self._pull(place, reference)
        argv = [*self._call(place), self.verb, "--isolation=chroot", "--layers=false", *base]
        status = place.run([*argv, "-f", os.fspath(source.file), "-t", _BUILT, os.fspath(source.context)])
        check_done(place, status, what=f"{self.name} {self.verb}")
        return ImageReference.parse(f"oci:{place.directory / 'image'}:built")

    def _call(self, place: Place) -> list[str]:
        driver = "overlay" if self.way == _FUSE else self.way
        mount = which(_FUSE, place.environ)
        options = ["--storage-opt", f"overlay.mount_program={mount}"] if self.way == _FUSE else []
        storage = ["--root", os.fspath(place.directory / "storage"), "--runroot", os.fspath(place.runroot)]
        return [self.name, *storage, "--storage-driver", driver, *options]

    def _pull(self, place: Place, base: ImageReference) -> str:
        """Bring the base into the storage, and give its id."""
        name = exact(base).canonical
        if base.path:
            # by a link, because the image is named after its path, and names have no capital letters
            (place.directory / "base").symlink_to(Path(base.path).absolute())
            name = f"{base.kind}:base" + (base.tag and f":{base.tag}")
        plain = ["--tls-verify=false"] if _is_local(base.registry) else []
        check_base(place, place.run([*self._call(place), "pull", "-q", *plain, name]), base)
        ids = [match.group(1) for match in map(_ID.fullmatch, place.said) if match]
        if not ids:
            raise HpcmodError(
                f"{self.name} pull does not say what it has got: {place.said[-1:]}", "Build with another: --engine NAME"
            )
        return ids[-1]


def _local_bases(file: Path) -> list[ImageReference]:
    """Return the images of a Dockerfile that are in registries of this machine.

    Notes
    -----
    Such a registry speaks plain http, for which buildah and podman would need an entry in registries.conf. So these
    images are brought into the storage before the build.
    """
    names = dict.fromkeys(_FROM.findall(read_text(file, _LIMIT)))
    return [ImageReference.parse(f"docker://{name}") for name in names if _is_local(name.partition("/")[0])]


def _is_local(registry: str) -> bool:
    """Return whether a registry is on a port of this machine."""
    host, _, port = registry.rpartition(":")
    return port.isdigit() and is_loopback(host.strip("[]"))
