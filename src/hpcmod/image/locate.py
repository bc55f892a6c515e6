"""Find an image by its reference in the places it may lie, or download it; nowhere is one error that lists them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpcmod.errors import BadInputError, HpcmodError, NotFoundError, RemoteError
from hpcmod.image.integrity import Progress, parse_sha256
from hpcmod.model.reference import ImageReference, redact


def find_image(reference: ImageReference, directories: Sequence[str]) -> Path | None:
    """Find an image: a path as it is, any other by its file name in the directories, in their order."""
    if reference.kind == "path":
        candidates = [Path(reference.text)]
    else:
        candidates = [Path(directory, reference.file_name) for directory in directories]
    return next((path.absolute() for path in candidates if path.is_file()), None)


def parse_checksum(value: Any, filename: str) -> str | None:
    """Parse one entry of an easyconfig's `checksums`: a sha256, ('sha256', sha256), or a dict by file name.

    Raises
    ------
    BadInputError
        If it is of another kind: an image is checked while it is copied, by sha256.
    """
    if isinstance(value, Mapping):
        value = value.get(filename)
    if isinstance(value, tuple) and len(value) == 2 and value[0] == "sha256":
        value = value[1]
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadInputError(f"checksums: {value!r} for {filename} is not a sha256", "Give one sha256 of 64 digits.")
    return parse_sha256(value)


def image_urls(reference: ImageReference, source_urls: Sequence[str]) -> list[str]:
    """Make the addresses an image can be downloaded from."""
    if reference.kind == "url":
        return [reference.text]
    return [f"{url.rstrip('/')}/{reference.file_name}" for url in source_urls]


def fetch_image(
    urls: Sequence[str], final: Path, *, checksum: str | None = None, progress: Progress | None = None
) -> Path:
    """Download an image from the first address that has it; resumed if it was cut off, verified, then named.

    Raises
    ------
    RemoteError
        If no address gave it, with what each said.
    HpcmodError
        If what came is not what the checksum promises, or does not fit.
    """
    from hpcmod.image.fetch import fetch_file  # imports requests: 50 ms that an image at hand need not pay

    said = []
    for url in urls:
        partial = final.with_name(f".{final.name}.part")
        try:
            fetch_file(url, partial, final=final, checksum=checksum, progress=progress)
        except (NotFoundError, RemoteError) as err:
            if len(urls) == 1:
                raise
            said.append(f"  {redact(url)}: {err.message}")
            continue
        return final
    raise RemoteError(f"no address gave {final.name}:\n" + "\n".join(said), "Download it by hand to a source path.")


def nowhere(reference: ImageReference, directories: Sequence[str], instructions: str = "") -> HpcmodError:
    """Make the error for an image that is in none of the places and has no address.

    Parameters
    ----------
    instructions
        The easyconfig's `download_instructions`.
    """
    if reference.kind == "path":
        return NotFoundError(f"image {reference}: no such file", "Mend the path in sources.")
    places = "\n".join(f"  {Path(place, reference.file_name)}" for place in dict.fromkeys(directories))
    return NotFoundError(
        f"image {reference} is in none of these places, and the easyconfig names no source_urls:\n{places}",
        f"{instructions.rstrip('.')}.\n" * bool(instructions)
        + "Put the file into one of them, or name its directory: eb --sourcepath=WRITABLE:DIRECTORY ...",
    )
