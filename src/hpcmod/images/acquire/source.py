"""The image of an easyconfig: found on disk or fetched, and checked against the site's policy in both cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hpcmod.core.errors import NotFoundError, RemoteError
from hpcmod.core.progress import Progress
from hpcmod.core.values.reference import ImageReference
from hpcmod.core.values.trust import TrustPolicy
from hpcmod.images.acquire.locate import find_image
from hpcmod.images.trust.policy import LocalImage, verify_local_sif

if TYPE_CHECKING:
    from hpcmod.images.acquire.fetch_sif import ObtainOptions

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


def make_source(text: str, source_urls: Sequence[str], checksum: str | None) -> ImageSource:
    """Make the image source of an easyconfig.

    `text` is a reference, or the name of the SIF; `source_urls` are directories with the SIF, or complete references to
    it.

    Raises BadInputError if one of them is not a valid reference.
    """
    reference = ImageReference.parse(text)
    if reference.kind == "path":
        return ImageSource(reference, (), checksum)
    if reference.kind != "name":
        return ImageSource(reference, (reference,), checksum)
    whole = (url if url.startswith(_WHOLE) else f"{url.rstrip('/')}/{text}" for url in source_urls)
    origins = tuple(replace(ImageReference.parse(url), file_name=reference.file_name) for url in whole)
    return ImageSource(reference, origins, checksum)


def find_source(
    source: ImageSource, directories: Sequence[str], *, policy: TrustPolicy, environ: Mapping[str, str]
) -> LocalImage | None:
    """Find the image in the first of the directories that has it; None if missing.

    Raises HpcmodError if the file is not the image of the easyconfig, or the site's policy is not met.
    """
    path = find_image(source.reference, directories)
    if path is None:
        return None
    asked = next((origin for origin in source.origins if origin.registry), source.reference)
    found = verify_local_sif(path, asked, policy, checksum=source.checksum, environ=environ)
    return replace(found, sha256=source.checksum or found.sha256)


def get_source(
    source: ImageSource,
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
    from hpcmod.images.acquire.obtain import obtain  # imports requests and more: saves 0.1 s for a local image

    options = replace(options, checksum=source.checksum)
    said = []
    for origin in (_placed(origin, beside) for origin in source.origins):
        try:
            got = obtain(origin, directory / source.reference.file_name, options=options, progress=progress)
        except (NotFoundError, RemoteError) as err:
            if len(source.origins) == 1:
                raise
            said.append(f"  {origin.canonical}: {err.message}")
            continue
        return LocalImage(got.path, got.provenance.sha256, got.provenance, ours=True)
    name = source.reference.file_name
    raise RemoteError(
        f"{name} could not be fetched from any address:\n" + "\n".join(said), "Download it manually to a source path."
    )


def _placed(origin: ImageReference, directories: Sequence[str]) -> ImageReference:
    """Return an origin with the path where it exists in the directories, else unchanged."""
    places = (Path(directory, origin.path) for directory in directories) if origin.path else ()
    return replace(origin, path=next((str(place) for place in places if place.exists()), origin.path))
