"""Find an image by its reference in the directories for images; if missing, report all of them in one error."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpcmod.core.errors import BadInputError, HpcmodError, NotFoundError
from hpcmod.core.fs.reading import open_regular
from hpcmod.core.values.reference import LOCAL_KINDS, OCI_KINDS, TRANSPORT, ImageReference, sif_name
from hpcmod.images.integrity import parse_sha256

_TAR_AT, _TAR = 257, b"ustar"


def image_directories(parents: Sequence[str], name: str, central: Sequence[str]) -> list[str]:
    """List the directories to search for an image: below each parent in EasyBuild's order for sources, then the site's.

    `name` is that of the software.
    """
    below = (f"{name.lower()[0]}/{name}", name, "")
    return [*(os.path.normpath(f"{parent}/{folder}") for parent in parents for folder in below), *central]


def find_image(reference: ImageReference, directories: Sequence[str]) -> Path | None:
    """Return the first image with that path or file name in the directories; an absolute path unchanged.

    A relative path is not relative to the working directory, because in an easyconfig it is beside that file.
    """
    name = reference.text if reference.kind == "path" else reference.file_name
    candidates = [Path(directory, name) for directory in (directories or ["/"])]
    return next((path.absolute() for path in candidates if path.is_file()), None)


def recognize(reference: ImageReference) -> ImageReference:
    """Return a path reference with the kind of its archive or layout, and the file name of its SIF, if it is one."""
    if reference.kind not in LOCAL_KINDS:
        return reference
    path = Path(reference.path)
    if path.is_dir() and (path / "index.json").is_file():
        return replace(reference, kind="oci", file_name=sif_name(path.name))
    if path.is_file():
        with open_regular(path) as file:
            if file.read(512)[_TAR_AT:].startswith(_TAR):
                return replace(reference, kind="docker-archive", file_name=sif_name(path.name))
    return reference


def names_image(text: str) -> bool:
    """Return whether a word of a user names an image: a reference with its transport, a SIF, the path of a layout."""
    if TRANSPORT.match(text) or text.endswith((".sif", ".simg", ".img", ".def")):
        return True
    is_path = text.startswith(("./", "../", "/")) and not text.endswith((".eb", ".def", "/"))
    return is_path and recognize(ImageReference.parse(text)).kind in OCI_KINDS


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


def nowhere(reference: ImageReference, directories: Sequence[str], instructions: str = "") -> HpcmodError:
    """Return the error for an image that is in none of the directories and has no address.

    `instructions` are the easyconfig's `download_instructions`.
    """
    if reference.kind == "path":
        return NotFoundError(f"image {reference}: no such file", "Fix the path in sources.")
    places = "\n".join(f"  {Path(place, reference.file_name)}" for place in dict.fromkeys(directories))
    return NotFoundError(
        f"image {reference} not found, and the easyconfig has no source_urls; searched:\n{places}",
        f"{instructions.rstrip('.')}.\n" * bool(instructions)
        + "Put the file into one of these directories, or give its directory: eb --sourcepath=WRITABLE:DIRECTORY ...",
    )
