"""Build a Dockerfile with buildah or podman, with a storage for each build, without a daemon and without root."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hpcmod.building.engines.engine import BuildSource, check_base, check_done
from hpcmod.building.engines.workspace import Workspace
from hpcmod.building.values.dockerfile import images_of
from hpcmod.core.errors import HpcmodError, LackingError
from hpcmod.core.fs.reading import read_text
from hpcmod.core.process import run
from hpcmod.core.values.reference import ImageReference, is_loopback
from hpcmod.core.which import which

_BUILT = "oci:image:built"
"""Target of the image, not committed to the storage first: an OCI layout in the workspace, layers not compressed."""

_ID = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_FUSE = "fuse-overlayfs"
_LIMIT = 1 << 20  # bytes of a Dockerfile


@dataclass(frozen=True)
class Buildah:
    """Buildah with one of its storage drivers.

    Notes
    -----
    Only `--isolation=chroot` works without delegated cgroups, as on most login nodes; it uses the host's network. All
    storage options are given, so that no storage.conf of the user or the machine applies.
    """

    way: str
    """Storage driver: overlay, fuse-overlayfs or vfs."""
    name: str = "buildah"
    verb: str = "bud"
    form: str = "Dockerfile"

    def lacks(self, environ: Mapping[str, str]) -> str:
        """Return which required program is missing; empty if none is."""
        needed = (self.name, _FUSE) if self.way == _FUSE else (self.name,)
        missing = [each for each in needed if not which(each, environ)]
        return f"{missing[0]} not found on PATH" if missing else ""

    def build(self, workspace: Workspace, source: BuildSource) -> ImageReference:
        """Build in the workspace, and return a reference to the OCI image.

        Raises NotFoundError if the base image cannot be fetched; HpcmodError if the build fails.
        """
        base = ["--from", self._pull(workspace, source.base)] if source.base else []
        for reference in () if source.base else _local_images(source.file):
            self._pull(workspace, reference)
        argv = [*self._call(workspace), self.verb, "--isolation=chroot", "--layers=false", *base]
        status = workspace.run([*argv, "-f", os.fspath(source.file), "-t", _BUILT, os.fspath(source.context)])
        check_done(workspace, status, what=f"{self.name} {self.verb}")
        return ImageReference.parse(f"oci:{workspace.directory / 'image'}:built")

    def _call(self, workspace: Workspace) -> list[str]:
        driver = "overlay" if self.way == _FUSE else self.way
        mount = which(_FUSE, workspace.environ)
        options = ["--storage-opt", f"overlay.mount_program={mount}"] if self.way == _FUSE else []
        storage = ["--root", os.fspath(workspace.directory / "storage"), "--runroot", os.fspath(workspace.runroot)]
        return [self.name, *storage, "--storage-driver", driver, *options]

    def _pull(self, workspace: Workspace, base: ImageReference) -> str:
        """Pull the base into the storage, and return its id."""
        name = (replace(base, tag="") if base.digest else base).canonical  # engines do not accept both
        if base.path:
            # through a link: the image is named after its path, and names cannot have capital letters
            (workspace.directory / "base").symlink_to(Path(base.path).absolute())
            name = f"{base.kind}:base" + (base.tag and f":{base.tag}")
        plain = ["--tls-verify=false"] if _is_local(base.registry) else []
        check_base(workspace, workspace.run([*self._call(workspace), "pull", "-q", *plain, name]), base)
        ids = [match.group(1) for match in map(_ID.fullmatch, workspace.said) if match]
        if not ids:
            raise HpcmodError(
                f"{self.name} pull printed no image id: {workspace.said[-1:]}", "Use another engine: --engine NAME"
            )
        return ids[-1]


@dataclass(frozen=True)
class Podman(Buildah):
    """Podman with one of its storage drivers: it builds like buildah, but leaves a process running."""

    name: str = "podman"
    verb: str = "build"

    def build(self, workspace: Workspace, source: BuildSource) -> ImageReference:
        """Build as buildah does; also stop the process that keeps podman's user namespace for this build."""
        own = replace(workspace, environ={**_with_login(workspace), "XDG_RUNTIME_DIR": str(workspace.runroot)})
        try:
            return super().build(own, source)
        finally:
            with suppress(LackingError):
                run([*self._call(own), "system", "migrate"], env=own.environ, timeout=60)


def _with_login(workspace: Workspace) -> dict[str, str]:
    """Return the environment with the registry login file, because XDG_RUNTIME_DIR is replaced for podman."""
    environ = dict(workspace.environ)
    runtime = environ.get("XDG_RUNTIME_DIR")
    if runtime and "REGISTRY_AUTH_FILE" not in environ:
        environ["REGISTRY_AUTH_FILE"] = f"{runtime}/containers/auth.json"
    return environ


def _local_images(file: Path) -> list[ImageReference]:
    """Return the images that a user's Dockerfile names and that are in registries on this machine.

    Such a registry uses plain http, for which buildah and podman would need an entry in registries.conf. These images
    are therefore pulled into the storage before the build.
    """
    names = images_of(read_text(file, _LIMIT))
    return [ImageReference.parse(f"docker://{name}") for name in names if _is_local(name.partition("/")[0])]


def _is_local(registry: str) -> bool:
    """Return whether a registry is on this machine."""
    host, _, port = registry.rpartition(":")
    return port.isdigit() and is_loopback(host.strip("[]"))
