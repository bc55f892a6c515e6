"""Base images and copied files of a definition file of Apptainer or Singularity."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from hpcmod.core.errors import BadInputError

_HEADER = re.compile(r"\s*(bootstrap|registry|namespace|from)\s*:\s*(.*)", re.IGNORECASE)
_FILES = re.compile(r"^%files[ \t]*\n((?:(?!%)[^\n]*\n?)*)", re.IGNORECASE | re.MULTILINE)


def bases_of(text: str) -> list[tuple[str, str]]:
    """Return the value of Bootstrap, in lower case, and the source of each stage; variables are not expanded.

    A stage ends where the next one has its Bootstrap, as for Apptainer: other lines of a section are not headers.
    """
    stages: list[dict[str, str]] = [{}]
    is_header = True
    for line in text.splitlines():
        header = _HEADER.match(line)
        if header and header[1].lower() == "bootstrap":
            is_header = True
            if "bootstrap" in stages[-1]:
                stages.append({})
        if line.startswith("%"):
            is_header = False
        elif header and is_header:
            stages[-1][header[1].lower()] = header[2].partition(" #")[0].strip()
    parts = ("registry", "namespace", "from")
    return [
        (stage.get("bootstrap", "").lower(), "/".join(stage[part] for part in parts if stage.get(part)))
        for stage in stages
    ]


def files_of(text: str) -> Iterator[str]:
    """Yield the paths and patterns of the files that %files copies from this machine, without those with a variable.

    Raises BadInputError if a line has a quote without an end.
    """
    for section in _FILES.findall(text):
        for line in section.splitlines():
            try:
                words = shlex.split(line, comments=True) if "{{" not in line else []
            except ValueError as err:
                raise BadInputError(f"%files: {line.strip()!r}: {err}", "Fix the definition file.") from err
            yield from words[:1]
