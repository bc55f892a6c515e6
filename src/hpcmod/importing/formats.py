"""Formats of `hpcmod import`: those of hpcmod, and those of other distributions, each loaded when it is used.

Another distribution adds a format by an entry point of the group `hpcmod.importers`: its name is the name of the
format, and its object is an ImportFormat.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path

from hpcmod.core.errors import HpcmodError, LackingError
from hpcmod.images import Progress
from hpcmod.importing.outcome import Outcome

GROUP = "hpcmod.importers"

BUILT_IN = {"edf": ".toml", "lumi-eb": ".eb", "ngc": ".lua", "shpc": "container.yaml", "sif": ".sif"}
"""hpcmod's own formats: each is a file of this folder with a FORMAT, and `hpcmod import FILE` chooses one by the end of
the file's name."""

OURS = "hpcmod"

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
    examples: tuple[str, ...] = ()
    """Arguments that users may give, for the help, e.g. `old.eb --dry-run`."""
    options: tuple[ImportOption, ...] = ()
    """Options of this format alone."""


@dataclass(frozen=True)
class ListedFormat:
    """A format that is installed, not loaded yet."""

    name: str
    target: str
    """Module and object, e.g. hpcmod.importing.sif:FORMAT."""
    distribution: str
    """Name of the distribution that it belongs to."""

    def load(self) -> ImportFormat:
        """Import the format.

        Raises
        ------
        LackingError
            If it cannot be imported, for whatever reason, or is not an ImportFormat.
        """
        module, _, attribute = self.target.partition(":")
        try:
            found = getattr(import_module(module), attribute)
        except Exception as err:
            raise self._error(f"{type(err).__name__}: {err}") from err
        if not isinstance(found, ImportFormat):
            raise self._error(f"{self.target} is not an ImportFormat")
        return found

    def run(
        self, loaded: ImportFormat, paths: Sequence[Path], watch: Watch, **options: bool | str
    ) -> Iterator[Outcome]:
        """Convert recipes.

        Raises
        ------
        HpcmodError
            If that is not possible.
        LackingError
            If the code of another distribution fails in any other way.
        """
        if self.distribution == OURS:
            yield from loaded.convert(paths, watch, **options)
            return
        try:
            yield from loaded.convert(paths, watch, **options)
        except (HpcmodError, OSError):
            raise
        except Exception as err:
            raise self._error(f"{type(err).__name__}: {err}") from err

    def _error(self, cause: str) -> LackingError:
        return LackingError(
            f"the import format {self.name} of {self.distribution} does not work: {cause}",
            f"Update or uninstall {self.distribution}.",
        )


def list_formats() -> tuple[ListedFormat, ...]:
    """Return all formats by name, hpcmod's own first; another distribution cannot replace those."""
    found = {name: _built_in(name) for name in BUILT_IN}
    for entry in sorted(_entry_points(), key=lambda one: (one.name, one.value)):
        found.setdefault(entry.name, ListedFormat(entry.name, entry.value, _distribution(entry)))
    return tuple(found.values())


def find_format(name: str) -> ListedFormat | None:
    """Return a format by name, None if there is none; entry points are searched only for a name that is not ours."""
    if name in BUILT_IN:
        return _built_in(name)
    return next((one for one in list_formats() if one.name == name), None)


def guess_format(path: Path) -> str:
    """Return the format of a file by its name; empty if no format of hpcmod has such files."""
    return next((name for name, suffix in BUILT_IN.items() if path.name.endswith(suffix)), "")


def _built_in(name: str) -> ListedFormat:
    return ListedFormat(name, f"hpcmod.importing.{name.replace('-', '_')}:FORMAT", OURS)


def _entry_points() -> Iterable[metadata.EntryPoint]:
    if sys.version_info >= (3, 10):
        return metadata.entry_points(group=GROUP)
    return metadata.entry_points().get(GROUP, ())


def _distribution(entry: metadata.EntryPoint) -> str:
    """Return the name of the distribution that declares an entry point; Python 3.9 does not know it."""
    found = getattr(entry, "dist", None)
    return str(found.metadata["Name"]) if found is not None else entry.value.partition(":")[0].partition(".")[0]
