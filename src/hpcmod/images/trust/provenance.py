"""The origin of a SIF, in a file beside it: reference, digest, checksum, time, tool, and how it was verified.

That file is copied with the SIF and can be written by anyone. What this user's runs have fetched is also recorded in
the user's state directory, and only that record counts if a site's policy requires proof.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from hpcmod.core.errors import BadInputError
from hpcmod.core.fs.ownership import make_private_directory, others_may_change
from hpcmod.core.fs.reading import UnusableFileError, read_file
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.fs.tree import write_file
from hpcmod.core.values.facts import PROVENANCE, Provenance
from hpcmod.core.values.json_form import parse_json
from hpcmod.core.values.text import absolute

_VERSION = 1
_LIMIT = 1 << 20  # bytes


def sidecar(sif: Path) -> Path:
    """Return the path of a SIF's provenance file."""
    return sif.with_name(f"{sif.name}{PROVENANCE}")


def write_provenance(sif: Path, provenance: Provenance) -> None:
    """Write a SIF's provenance file."""
    _write(sidecar(sif), provenance)


def _write(path: Path, provenance: Provenance) -> None:
    write_file(path, json.dumps({"version": _VERSION, **asdict(provenance)}, indent=1) + "\n")


def read_provenance(sif: Path) -> Provenance | None:
    """Read a SIF's provenance file; None if missing. The caller must check that the SIF still has this sha256.

    Raises BadInputError if the provenance file is damaged.
    """
    try:
        return parse_provenance(read_file(sidecar(sif), _LIMIT), str(sidecar(sif)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnusableFileError as err:
        raise BadInputError(f"{err.filename}: {err.strerror}", f"Remove it: rm {err.filename}") from err
    except BadInputError as err:
        raise BadInputError(err.message, err.cure or f"Remove it: rm {sidecar(sif)}") from err


def parse_provenance(text: bytes, where: str) -> Provenance:
    """Parse a provenance file.

    Raises BadInputError if it is not a valid provenance file.
    """
    return parse_json(Provenance, text, where, limit=_LIMIT, version=("version", _VERSION))


def remember(found: Provenance, environ: Mapping[str, str]) -> None:
    """Record that a run of this user has fetched a SIF."""
    place = _memory(found, environ)
    if place is None:
        return
    for directory in (place.parent.parent, place.parent):
        make_private_directory(directory)
    clear_leftovers(place.parent)  # a killed build may have left one of an image that is never made again
    _write(place, found)


def is_remembered(found: Provenance, environ: Mapping[str, str]) -> bool:
    """Return whether a run of this user has recorded exactly this provenance.

    A record that another user may change proves nothing.
    """
    place = _memory(found, environ)
    try:
        if place is None or any(others_may_change(path.stat()) for path in (place, *place.parents[:2])):
            return False
        return parse_provenance(read_file(place, _LIMIT), str(place)) == found
    except (OSError, BadInputError):
        return False


def _memory(found: Provenance, environ: Mapping[str, str]) -> Path | None:
    home = environ.get("HOME", "")
    state = absolute(environ.get("XDG_STATE_HOME")) or (f"{home}/.local/state" if home else "")
    name = re.sub(r"[^0-9a-f]", "", found.sha256)[:64]
    return Path(state, "hpcmod", "images", f"{name}.json") if state and name else None


def render_provenance(found: Provenance) -> Sequence[str]:
    """Return the lines that describe a SIF's provenance to the user."""
    lines = [f"reference: {found.reference}", f"digest: {found.digest or 'none'}", f"sha256: {found.sha256}"]
    lines += [f"lock: sha256 {found.lock}"] if found.lock else []
    return [
        *lines,
        f"time: {found.time}",
        f"tool: {found.tool}",
        f"trust: {'; '.join(found.verified) or 'nothing required'}",
    ]
