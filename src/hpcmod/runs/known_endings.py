"""Known endings of runs: those that come with hpcmod, and those that a site adds to its catalogues."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from hpcmod.catalogue import Catalogue
from hpcmod.core.errors import BadInputError
from hpcmod.core.resources import read_texts
from hpcmod.runs.values.endings.ending import Ending, parse_endings

_LIMIT = 1 << 20  # bytes of a file


def shipped_endings() -> dict[str, str]:
    """Return the known endings that come with hpcmod: TOML text by file name without .toml."""
    return read_texts(Path(__file__).with_name("endings"), ".toml")


def read_known_endings(
    catalogues: Iterable[Catalogue], *, module: str = "NAME"
) -> tuple[tuple[Ending, ...], list[str]]:
    """Return all known endings, and a message for each file that is not valid.

    A catalogue has them in `advisories/endings`; one with the name of ours replaces it.

    `module`: Name of the container, for NAME in what to do.
    """
    endings = [ending for name, text in shipped_endings().items() for ending in parse_endings(text, f"{name}.toml")]
    faults = []
    for catalogue in catalogues:
        for path in sorted((catalogue.advisories / "endings").glob("[!.]*.toml")):
            try:
                endings += parse_endings(catalogue.read_file(path, _LIMIT).decode(), str(path))
            except BadInputError as err:
                faults.append(err.message)
            except (OSError, UnicodeDecodeError) as err:
                faults.append(f"known endings {path} cannot be read: {err}")
    by_name = {
        ending.name: replace(ending, cure=re.sub(r"\bNAME\b", lambda _: module, ending.cure)) for ending in endings
    }
    return tuple(by_name.values()), faults
