"""Recognize what a local path is: a SIF, an archive or a layout of an OCI image."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hpcmod.core.fs.reading import open_regular
from hpcmod.core.values.reference import LOCAL_KINDS, ImageReference, sif_name

_TAR_AT, _TAR = 257, b"ustar"


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
