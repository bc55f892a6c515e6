"""Read which directories an image's scripts add to LD_LIBRARY_PATH, without running them."""

from __future__ import annotations

import re

from hpcmod.compat.inspect.files import ContainerFiles
from hpcmod.images.values.assignments import assignments

VARIABLE = "LD_LIBRARY_PATH"
INJECTED = "/.singularity.d/libs"
"""Directory of the driver's libraries, which the runtime appends to the variable (tested with Apptainer 1.4.5)."""

_DIRECTORY = "/.singularity.d/env"
_SCRIPT_LIMIT = 1 << 20
_OF_THE_RUNTIME = ("01-", "94-", "95-", "99-")  # Apptainer's own: INJECTED, and directories of SCIF apps
_BEFORE = re.compile(rf"\$\{{{VARIABLE}:?\+([:;]?)\$\{{?{VARIABLE}\}}?([:;]?)\}}")  # ${X:+:$X}, ${X:+$X:}
_SELF = re.compile(rf"\$\{{{VARIABLE}(?::?-)?\}}|\${VARIABLE}\b")
_KNOWN = "\0"  # placeholder for the previous value; cannot occur in a script


def read_library_path(files: ContainerFiles) -> tuple[tuple[str, ...], bool]:
    """Return the directories in search order, and whether the list is complete: False if a script computes some."""
    path: list[str] = []
    complete = True
    for name in files.listdir(_DIRECTORY):
        if name.endswith(".sh") and not name.startswith(_OF_THE_RUNTIME):
            script = files.read_bytes(f"{_DIRECTORY}/{name}", _SCRIPT_LIMIT).decode(errors="replace")
            path, known = _follow(script, path)
            complete = complete and known
    return tuple(path), complete


def _follow(script: str, path: list[str]) -> tuple[list[str], bool]:
    """Return the path after a script, and whether it is certain: assignments in blocks are not."""
    done, complete = 0, True
    for variable, value, written, is_default in assignments(script):
        if variable != VARIABLE:
            continue
        done += 1
        if value is None:
            path, known = _extend(written, path)
            complete = complete and known
        elif not (is_default and path):
            path = _absolute(value)
    return path, complete and done == len(re.findall(rf"(?<![\w$]){VARIABLE}=", script))


def _extend(written: str, path: list[str]) -> tuple[list[str], bool]:
    """Apply an assigned value such as `/x:$LD_LIBRARY_PATH` to the path."""
    text = _BEFORE.sub(rf"\1{_KNOWN}\2", written.strip().replace('"', ""))
    entries = _SELF.sub(_KNOWN, text).split(":")
    directories = [directory for entry in entries for directory in (path if entry == _KNOWN else _absolute(entry))]
    return directories, all(entry in (_KNOWN, "") or _absolute(entry) for entry in entries)


def _absolute(text: str) -> list[str]:
    return [entry for entry in text.split(":") if entry.startswith("/") and not re.search(r"[$`\\'\s\0]", entry)]
