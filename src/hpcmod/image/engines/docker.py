"""Build a Dockerfile with docker: its daemon does the work, so an archive has to carry the image here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hpcmod.errors import BadInputError
from hpcmod.image.engines.engine import BuildSource, check_done
from hpcmod.image.engines.place import Place
from hpcmod.model.reference import ImageReference
from hpcmod.process import which


@dataclass(frozen=True)
class Docker:
    """Docker, or what calls itself so."""

    name: str = "docker"
    way: str = "by its daemon"
    form: str = "Dockerfile"

    def lacks(self, environ: Mapping[str, str]) -> str:
        """Do what `Engine.lacks` says."""
        return "" if which("docker", environ) else "no docker on PATH"

    def build(self, place: Place, source: BuildSource) -> ImageReference:
        """Do what `Engine.build` says; the daemon keeps the layers, but not the image."""
        if source.base and source.base.path:
            raise BadInputError(
                f"base {source.base.canonical}: docker builds only upon images that a registry has",
                "Choose another engine: --engine buildah; or push the base to a registry.",
            )
        tag, archive = f"localhost/{place.runroot.name}:built", place.directory / "image.tar"
        own = replace(place, environ={**place.environ, "DOCKER_BUILDKIT": "1"})  # which knows RUN --mount
        argv = ["docker", "build", "-f", os.fspath(source.file), "-t", tag, os.fspath(source.context)]
        try:
            check_done(own, own.run(argv), what="docker build")
            check_done(own, own.run(["docker", "save", "-o", os.fspath(archive), tag]), what="docker save")
        finally:
            own.quietly(["docker", "rmi", "--force", tag])
        return ImageReference.parse(f"docker-archive:{archive}")
