"""Where a SIF came from, kept in a file beside it: reference, digest, checksum, time, tool, and how it was verified.

That file travels with the SIF, so anybody may have written it. What this user's own runs have seen is remembered in the
user's own state directory, and only that counts where a site's policy asks for proof of an image.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hpcmod.errors import BadInputError
from hpcmod.fs.ownership import make_private_directory, others_may_change
from hpcmod.fs.reading import UnusableFileError, read_file
from hpcmod.fs.tree import write_file
from hpcmod.machine import absolute
from hpcmod.model.strict_json import JsonObject, load_json

_VERSION = 1
_LIMIT = 1 << 20  # bytes


@dataclass(frozen=True)
class Provenance:
    """Where a SIF came from."""

    reference: str
    """What it was fetched from, in canonical form."""
    digest: str
    """Of the manifest or index that the reference named then; empty where there is none."""
    sha256: str
    """Of the SIF."""
    size: int
    """Bytes of the SIF."""
    time: str
    """When, in UTC."""
    tool: str
    """What got or made it: hpcmod or a runtime, with its version."""
    verified: tuple[str, ...] = ()
    """What met the site's policy, as `need: by what`; empty: nothing was required."""


def sidecar(sif: Path) -> Path:
    """Return the name of the file with a SIF's provenance."""
    return sif.with_name(f"{sif.name}.provenance.json")


def now() -> str:
    """Return the time as a provenance has it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def write_provenance(sif: Path, provenance: Provenance) -> None:
    """Write the provenance of a SIF beside it."""
    _write(sidecar(sif), provenance)


def _write(path: Path, provenance: Provenance) -> None:
    write_file(path, json.dumps({"version": _VERSION, **asdict(provenance)}, indent=1) + "\n")


def read_provenance(sif: Path) -> Provenance | None:
    """Read what is known of a SIF; None if nothing is. Whether its sum is still the one noted is for the caller to ask.

    Raises
    ------
    BadInputError
        If the file beside it is damaged.
    """
    try:
        text = read_file(sidecar(sif), _LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnusableFileError as err:
        raise BadInputError(f"{err.filename}: {err.strerror}", f"Remove it: rm {err.filename}") from err
    return parse_provenance(text, str(sidecar(sif)))


def parse_provenance(text: bytes, where: str) -> Provenance:
    """Parse the text of a provenance.

    Raises
    ------
    BadInputError
        If it is none.
    """
    found = JsonObject(load_json(text, where, limit=_LIMIT), where)
    if found.number("version") != _VERSION:
        raise BadInputError(f"{where}: of a later form than this hpcmod knows", "Update hpcmod.")
    return Provenance(
        reference=found.text("reference"),
        digest=found.text("digest"),
        sha256=found.text("sha256"),
        size=found.number("size"),
        time=found.text("time"),
        tool=found.text("tool"),
        verified=found.texts("verified") or found.texts("vouched"),  # the key of earlier files
    )


def remember(found: Provenance, environ: Mapping[str, str]) -> None:
    """Remember that a run of this user has got a SIF."""
    place = _memory(found, environ)
    if place is None:
        return
    for directory in (place.parent.parent, place.parent):
        make_private_directory(directory)
    _write(place, found)


def is_remembered(found: Provenance, environ: Mapping[str, str]) -> bool:
    """Return whether a provenance is one that a run of this user has written, with these very words.

    What anybody else may change proves nothing.
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
    """Return the lines that tell a user where a SIF came from."""
    lines = [f"reference: {found.reference}", f"digest: {found.digest or 'none'}", f"sha256: {found.sha256}"]
    return [
        *lines,
        f"time: {found.time}",
        f"tool: {found.tool}",
        f"trust: {'; '.join(found.verified) or 'nothing required'}",
    ]
