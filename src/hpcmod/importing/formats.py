"""Formats of `hpcmod import`: each is a file of this folder with a FORMAT, which is imported when it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module

from hpcmod.core.progress import Progress
from hpcmod.importing.outcome import Outcome

FORMATS = {"edf": ".toml", "lumi-eb": ".eb", "ngc": ".lua", "shpc": "container.yaml", "sif": ".sif"}
"""By format: the end of the names of its files, by which `hpcmod import FILE` chooses it."""

Watch = Callable[[str], AbstractContextManager[Progress]]
"""Starts the progress display of a long task, by its label."""


@dataclass(frozen=True)
class ImportOption:
    """An option of one format."""

    name: str
    """Without dashes, e.g. full-names."""
    help: str
    metavar: str = ""
    """Name of its value, e.g. REFERENCE; empty: a switch."""


@dataclass(frozen=True)
class ImportFormat:
    """A kind of recipe that can become easyconfigs."""

    summary: str
    """What is converted, one sentence, for the help."""
    convert: Callable[..., Iterable[Outcome]]
    """Converts files, and all of this kind below directories. Files are read, never run. Called with the paths, a
    Watch, and each of `options` by its name: a bool, or a str, which is empty without the option."""
    examples: tuple[str, ...]
    """Arguments that users may give, for the help, e.g. `old.eb --dry-run`."""
    options: tuple[ImportOption, ...] = ()
    """Options of this format alone."""


def load_format(name: str) -> ImportFormat:
    """Import one of FORMATS."""
    loaded: ImportFormat = import_module(f"hpcmod.importing.{name.replace('-', '_')}").FORMAT
    return loaded
