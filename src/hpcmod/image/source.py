"""The image that an easyconfig names: found where such files lie, or fetched; the site's policy holds both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hpcmod.errors import NotFoundError, RemoteError
from hpcmod.image.integrity import Progress
from hpcmod.image.locate import find_image
from hpcmod.image.provenance import Provenance
from hpcmod.image.trust import verify_local_sif
from hpcmod.model.reference import ImageReference
from hpcmod.model.trust import TrustPolicy, TrustRule

if TYPE_CHECKING:
    from hpcmod.image.fetch_sif import ObtainOptions

_NO_RULE = TrustRule("*")
_WHOLE = ("docker://", "oras://", "library://")
"""A source URL that begins so names an image, and not a directory of images."""


@dataclass(frozen=True)
class ImageSource:
    """What an easyconfig says of its image."""

    reference: ImageReference
    """Its file name is that of the SIF."""
    origins: tuple[ImageReference, ...]
    """Where it can be got, in the order to try; empty if nowhere."""
    checksum: str | None
    """The sha256 of the SIF; None if none is given."""

    @property
    def pinned(self) -> bool:
        """Whether its bytes are named: by a checksum, or by a digest wherever it comes from."""
        return self.checksum is not None or (bool(self.origins) and all(one.pinned for one in self.origins))


@dataclass(frozen=True)
class LocalImage:
    """The image on disk, which satisfies the trust policy; its bytes are still to be compared with the sum."""

    path: Path
    sha256: str | None
    """What it must have; None if nothing tells."""
    provenance: Provenance | None
    """Where it came from, if that is known."""
    ours: bool = False
    """Whether hpcmod has got it for this user, now or earlier."""
    copy_rule: TrustRule = _NO_RULE
    """What a copy must be checked for itself, for this file may be another one by the time that it is copied."""


def make_source(text: str, source_urls: Sequence[str], checksum: str | None) -> ImageSource:
    """Make the value of what an easyconfig says.

    Parameters
    ----------
    text
        A reference, or the name of the SIF.
    source_urls
        Directories on web servers that hold the SIF, or whole references to it.

    Raises
    ------
    BadInputError
        If one of them is not a reference.
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
    """Find the image in the directories, in their order; None if it is in none.

    Raises
    ------
    HpcmodError
        If what is there is not what the easyconfig names, or the site's policy is not met.
    """
    path = find_image(source.reference, directories)
    if path is None:
        return None
    asked = next((one for one in source.origins if one.registry), source.reference)
    found = verify_local_sif(path, asked, policy, checksum=source.checksum, environ=environ)
    return LocalImage(path, source.checksum or found.sha256, found.provenance, found.ours, found.copy_rule)


def get_source(
    source: ImageSource,
    directory: Path,
    *,
    options: ObtainOptions,
    beside: Sequence[str] = (),
    progress: Progress | None = None,
) -> LocalImage:
    """Get the image from the first of its origins that has it.

    Parameters
    ----------
    directory
        Where it goes.
    beside
        Directories in which an archive, a layout or a definition file is looked for that is named without its own.

    Raises
    ------
    RemoteError
        If none has, with what each said.
    HpcmodError
        As obtain.
    """
    from hpcmod.image.obtain import obtain  # imports requests and more: 0.1 s that an image at hand need not pay

    options = replace(options, checksum=source.checksum)
    said = []
    for origin in (_placed(one, beside) for one in source.origins):
        try:
            got = obtain(origin, directory / source.reference.file_name, options=options, progress=progress)
        except (NotFoundError, RemoteError) as err:
            if len(source.origins) == 1:
                raise
            said.append(f"  {origin.canonical}: {err.message}")
            continue
        return LocalImage(got.path, got.provenance.sha256, got.provenance, ours=True)
    name = source.reference.file_name
    raise RemoteError(f"no address gave {name}:\n" + "\n".join(said), "Download it by hand to a source path.")


def _placed(origin: ImageReference, directories: Sequence[str]) -> ImageReference:
    """Return the place of what is made into a SIF, as far as that lies on disk."""
    places = (Path(directory, origin.path) for directory in directories) if origin.path else ()
    return replace(origin, path=next((str(place) for place in places if place.exists()), origin.path))
