"""Read the labels of a SIF as shown by `apptainer inspect`, and add labels to a finished SIF."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from hpcmod.core.errors import BadInputError, VerificationError
from hpcmod.core.values.strict_json import load_json
from hpcmod.images.sif.format import DESCRIPTOR, HEADER, TYPES
from hpcmod.images.sif.reader import SifDescriptor, SifHeader, read_sif

METADATA = "inspect-metadata.json"
"""Name of the object with the output of `apptainer inspect`."""

_LIMIT = 16 << 20  # bytes


def read_labels(path: Path) -> dict[str, str]:
    """Read the labels of a SIF from its metadata, without reading its root file system.

    Raises BadInputError if it is not a SIF, or has no metadata because a program other than Apptainer made it.
    """
    sif = read_sif(path)
    with path.open("rb") as file:
        labels = _labels(_read_metadata(sif, file))
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def add_labels(path: Path, labels: Mapping[str, str]) -> None:
    """Add labels to a SIF that is not in use yet; existing labels of the same names are replaced.

    The new metadata is appended to the file, and its descriptor is updated; /.singularity.d/labels.json in the root
    file system is not changed.

    Raises BadInputError if it has no metadata.
    """
    sif = read_sif(path)
    with path.open("r+b") as file:
        metadata = _read_metadata(sif, file)
        _labels(metadata).update(labels)
        data = json.dumps(metadata, sort_keys=True).encode()
        at = file.seek(0, os.SEEK_END)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        _point_to(file, _metadata_object(sif), at, len(data))
        os.fsync(file.fileno())


def with_labels(metadata: bytes, labels: Mapping[str, str]) -> bytes:
    """Return the content of a METADATA object with more labels; existing labels of the same names are replaced.

    Raises BadInputError if it is not in the format of Apptainer.
    """
    found = load_json(metadata, METADATA, limit=_LIMIT)
    _labels(found).update(labels)
    return json.dumps(found, sort_keys=True).encode()


def _metadata_object(sif: SifHeader) -> SifDescriptor:
    found = next(
        (descriptor for descriptor in sif.descriptors if descriptor.kind == "json" and descriptor.name == METADATA),
        None,
    )
    if found is None:
        raise BadInputError(f"{sif.path}: has no {METADATA}, so labels cannot be added")
    return found


def _read_metadata(sif: SifHeader, file: BinaryIO) -> Any:
    descriptor = _metadata_object(sif)
    if descriptor.size > _LIMIT:
        raise BadInputError(f"{sif.path}: {METADATA} has {descriptor.size} bytes, at most {_LIMIT} are read")
    file.seek(descriptor.offset)
    return load_json(file.read(descriptor.size), f"{sif.path}: {METADATA}", limit=_LIMIT)


def _labels(metadata: Any) -> dict[str, Any]:
    """Return the labels in the metadata, created if missing."""
    try:
        attributes = metadata["data"]["attributes"]
        labels: dict[str, Any] = dict(attributes.get("labels") or {})
        attributes["labels"] = labels
    except (KeyError, TypeError, ValueError, AttributeError) as err:
        raise BadInputError(f"{METADATA} is not in the format of Apptainer") from err
    return labels


def _point_to(file: BinaryIO, descriptor: SifDescriptor, at: int, size: int) -> None:
    """Point the descriptor of an object at its new data at the end of the file, and update the length in the header."""
    file.seek(0)
    head = list(HEADER.unpack(file.read(HEADER.size)))
    total, table_at, data_at = head[8], head[9], head[11]
    for number in range(total):
        place = table_at + number * DESCRIPTOR.size
        file.seek(place)
        fields = list(DESCRIPTOR.unpack(file.read(DESCRIPTOR.size)))
        if fields[1] and fields[2] == descriptor.id and TYPES.get(fields[0]) == descriptor.kind:
            fields[5:8] = [at, size, size]
            file.seek(place)
            file.write(DESCRIPTOR.pack(*fields))
            head[12] = at + size - data_at
            file.seek(0)
            file.write(HEADER.pack(*head))
            return
    raise VerificationError(f"the SIF has changed: object {descriptor.id} no longer exists")
