"""Build a Dockerfile with podman, which builds like buildah but leaves a process running."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hpcmod.building.engines.buildah import Buildah
from hpcmod.building.engines.engine import BuildSource
from hpcmod.building.engines.workspace import Workspace
from hpcmod.core.values.reference import ImageReference


@dataclass(frozen=True)
class Podman(Buildah):
    """Podman with one of its storage drivers."""

    name: str = "podman"
    verb: str = "build"

    def build(self, workspace: Workspace, source: BuildSource) -> ImageReference:
        """Build as buildah does; also stop the process that keeps podman's user namespace for this build."""
        own = replace(workspace, environ={**_with_login(workspace), "XDG_RUNTIME_DIR": str(workspace.runroot)})
        try:
            return super().build(own, source)
        finally:
            own.quietly([*self._call(own), "system", "migrate"])


def _with_login(workspace: Workspace) -> dict[str, str]:
    """Return the environment with the registry login file, because XDG_RUNTIME_DIR is replaced for podman."""
    environ = dict(workspace.environ)
    runtime = environ.get("XDG_RUNTIME_DIR")
    if runtime and "REGISTRY_AUTH_FILE" not in environ:
        environ["REGISTRY_AUTH_FILE"] = f"{runtime}/containers/auth.json"
    return environ
