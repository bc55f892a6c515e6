"""The image of an easyconfig: found on disk or fetched, and checked against the site's policy in both cases."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcmod.core.errors import BadInputError, HpcmodError, NotFoundError, RemoteError
from hpcmod.core.fs.checksums import parse_sha256
from hpcmod.core.progress import Progress
from hpcmod.core.values.reference import ImageReference
from hpcmod.core.values.trust import TrustPolicy
from hpcmod.images import LocalImage

if TYPE_CHECKING:
    from hpcmod.images import ObtainOptions

_WHOLE = ("docker://", "oras://")
"""Prefixes of source URLs that name an image rather than a directory of images."""


@dataclass(frozen=True)
class ImageSource:
    """The image in an easyconfig."""

    reference: ImageReference
    """Reference whose file name is that of the SIF."""
    origins: tuple[ImageReference, ...]
    """References to fetch it from, in the order to try; empty if none."""
    checksum: str | None
    """The sha256 of the SIF; None if not given."""

    @property
    def pinned(self) -> bool:
        """Whether its content is fixed: by a checksum, or by a digest in all origins."""
        return self.checksum is not None or (bool(self.origins) and all(origin.pinned for origin in self.origins))

    @classmethod
    def make(cls, text: str, source_urls: Sequence[str], checksum: str | None) -> ImageSource:
        """Make the image source of an easyconfig.

        `text` is a reference, or the name of the SIF; `source_urls` are directories with the SIF, or references to it.

        Raises BadInputError if one of them is not a valid reference.
        """
        reference = ImageReference.parse(text)
        if reference.kind == "path":
            return cls(reference, (), checksum)
        if reference.kind != "name":
            return cls(reference, (reference,), checksum)
        whole = (url if url.startswith(_WHOLE) else f"{url.rstrip('/')}/{text}" for url in source_urls)
        origins = tuple(replace(ImageReference.parse(url), file_name=reference.file_name) for url in whole)
        return cls(reference, origins, checksum)

    def locate(self, directories: Sequence[str]) -> Path | None:
        """Return the first image with that path or file name in the directories; an absolute path unchanged.

        A relative path is not relative to the working directory, because in an easyconfig it is beside that file.
        """
        name = self.reference.text if self.reference.kind == "path" else self.reference.file_name
        candidates = [Path(directory, name) for directory in (directories or ["/"])]
        return next((path.absolute() for path in candidates if path.is_file()), None)

    def find(self, directories: Sequence[str], *, policy: TrustPolicy, environ: Mapping[str, str]) -> LocalImage | None:
        """Find the image in the first of the directories that has it; None if missing.

        Raises HpcmodError if the file is not the image of the easyconfig, or the site's policy is not met.
        """
        path = self.locate(directories)
        if path is None:
            return None
        asked = next((origin for origin in self.origins if origin.registry), self.reference)
        found = LocalImage.verify(path, asked, policy, checksum=self.checksum, environ=environ)
        return replace(found, sha256=self.checksum or found.sha256)

    def fetch(
        self,
        directory: Path,
        *,
        options: ObtainOptions,
        beside: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> LocalImage:
        """Fetch the image from the first of its origins that has it.

        `beside` are the directories to search for an archive or a layout with a relative path.

        Raises RemoteError if none has it, with the error of each, and HpcmodError as obtain.
        """
        from hpcmod.images import obtain  # imports requests and more: saves 0.1 s for a local image

        options = replace(options, checksum=self.checksum)
        said = []
        for origin in (_placed(origin, beside) for origin in self.origins):
            try:
                got = obtain(origin, directory / self.reference.file_name, options=options, progress=progress)
            except (NotFoundError, RemoteError) as err:
                if len(self.origins) == 1:
                    raise
                said.append(f"  {origin.canonical}: {err.message}")
                continue
            return LocalImage(got.path, got.provenance.sha256, got.provenance, ours=True)
        name = self.reference.file_name
        raise RemoteError(
            f"{name} could not be fetched from any address:\n" + "\n".join(said),
            "Download it manually to a source path.",
        )

    def missing(self, directories: Sequence[str], instructions: str = "") -> HpcmodError:
        """Return the error for an image that is in none of the directories and has no address.

        `instructions` are the easyconfig's `download_instructions`.
        """
        reference = self.reference
        if reference.kind == "path":
            return NotFoundError(f"image {reference}: no such file", "Fix the path in sources.")
        places = "\n".join(f"  {Path(place, reference.file_name)}" for place in dict.fromkeys(directories))
        return NotFoundError(
            f"image {reference} not found, and the easyconfig has no source_urls; searched:\n{places}",
            (f"{instructions.rstrip('.')}.\n" if instructions else "")
            + "Put the file into one of these directories, or give its directory: "
            + "eb --sourcepath=WRITABLE:DIRECTORY ...",
        )


def parse_checksum(value: Any, filename: str) -> str | None:
    """Parse one entry of an easyconfig's `checksums`: a sha256, ('sha256', sha256), or a dict by file name.

    Raises BadInputError if it is another kind of checksum: images are verified by sha256 while they are copied.
    """
    if isinstance(value, Mapping):
        value = value.get(filename)
    if isinstance(value, tuple) and len(value) == 2 and value[0] == "sha256":
        value = value[1]
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadInputError(
            f"checksums: {value!r} for {filename} is not a sha256", "Give a sha256 of 64 hexadecimal digits."
        )
    return parse_sha256(value)


def image_directories(parents: Sequence[str], name: str, central: Sequence[str]) -> list[str]:
    """List the directories to search for an image: below each parent in EasyBuild's order for sources, then the site's.

    `name` is that of the software.
    """
    below = (f"{name.lower()[0]}/{name}", name, "")
    return [*(os.path.normpath(f"{parent}/{folder}") for parent in parents for folder in below), *central]


def _placed(origin: ImageReference, directories: Sequence[str]) -> ImageReference:
    """Return an origin with the path where it exists in the directories, else unchanged."""
    places = (Path(directory, origin.path) for directory in directories) if origin.path else ()
    return replace(origin, path=next((str(place) for place in places if place.exists()), origin.path))
