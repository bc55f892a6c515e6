"""Build a Dockerfile with docker: the daemon builds the image, and `docker save` exports it to an archive."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hpcmod.building.engines.engine import BuildSource, check_done
from hpcmod.building.engines.workspace import Workspace
from hpcmod.errors import BadInputError
from hpcmod.model.images.reference import ImageReference
from hpcmod.which import which


@dataclass(frozen=True)
class Docker:
    """Docker, or a program with its command line."""

    name: str = "docker"
    way: str = "by its daemon"
    form: str = "Dockerfile"

    def lacks(self, environ: Mapping[str, str]) -> str:
        """See `Engine.lacks`."""
        return "" if which("docker", environ) else "no docker on PATH"

    def build(self, workspace: Workspace, source: BuildSource) -> ImageReference:
        """See `Engine.build`; the daemon keeps the layers, but not the image."""
        if source.base and source.base.path:
            raise BadInputError(
                f"base {source.base.canonical}: docker can only use base images from a registry",
                "Choose another engine: --engine buildah; or push the base to a registry.",
            )
        tag, archive = f"localhost/{workspace.runroot.name}:built", workspace.directory / "image.tar"
        own = replace(workspace, environ={**workspace.environ, "DOCKER_BUILDKIT": "1"})  # supports RUN --mount
        argv = ["docker", "build", "-f", os.fspath(source.file), "-t", tag, os.fspath(source.context)]
        try:
            check_done(own, own.run(argv), what="docker build")
            check_done(own, own.run(["docker", "save", "-o", os.fspath(archive), tag]), what="docker save")
        finally:
            own.quietly(["docker", "rmi", "--force", tag])
        return ImageReference.parse(f"docker-archive:{archive}")
