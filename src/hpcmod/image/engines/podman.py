"""Build a Dockerfile with podman, which is buildah under another name, and leaves a process behind."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hpcmod.image.engines.buildah import Buildah
from hpcmod.image.engines.engine import BuildSource
from hpcmod.image.engines.place import Place
from hpcmod.model.reference import ImageReference


@dataclass(frozen=True)
class Podman(Buildah):
    """Podman, with one of the ways to keep layers."""

    name: str = "podman"
    verb: str = "build"

    def build(self, place: Place, source: BuildSource) -> ImageReference:
        """Do what `Engine.build` says; the process that keeps podman's user namespace is ours alone, and is ended."""
        own = replace(place, environ={**_with_login(place), "XDG_RUNTIME_DIR": str(place.runroot)})
        try:
            return super().build(own, source)
        finally:
            own.quietly([*self._call(own), "system", "migrate"])


def _with_login(place: Place) -> dict[str, str]:
    """Return the environment with the file of registry logins, for podman does not get the directory it looks in."""
    environ = dict(place.environ)
    runtime = environ.get("XDG_RUNTIME_DIR")
    if runtime and "REGISTRY_AUTH_FILE" not in environ:
        environ["REGISTRY_AUTH_FILE"] = f"{runtime}/containers/auth.json"
    return environ
