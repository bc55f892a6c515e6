"""Read which Python packages are in a directory, or in the packages that a user added to an installation."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import partial
from pathlib import Path

from hpcmod.core.fs.reading import open_regular, read_start
from hpcmod.core.values.facts import Package
from hpcmod.images.values.metadata import METADATA, METADATA_LIMIT, read_package

_READ_START = partial(read_start, most=METADATA_LIMIT)


def read_packages(packed: Path) -> tuple[Package, ...]:
    """Return the Python packages of a user in a squashfs or a directory, sorted by name; none if it does not exist.

    Raises BadInputError, VerificationError, LackingError if the squashfs cannot be read.
    """
    if not packed.is_file():
        found = _find_packages(str(packed), _names_in, _READ_START)
        return tuple(sorted(found, key=lambda package: package.name.lower()))
    from hpcmod.images import Squashfs  # packages are rarely packed

    with open_regular(packed) as file:
        squashfs = Squashfs(file, 0, packed.stat().st_size)

        read = partial(squashfs.text_of, limit=METADATA_LIMIT)
        return tuple(sorted(_find_packages("", squashfs.listdir, read), key=lambda package: package.name.lower()))


def _find_packages(top: str, names_in: Callable[[str], list[str]], read: Callable[[str], str]) -> Iterator[Package]:
    """Yield the packages of all virtual environments below a directory."""
    for venv in names_in(f"{top}/venv"):
        for python in names_in(f"{top}/venv/{venv}/lib"):
            directory = f"{top}/venv/{venv}/lib/{python}/site-packages"
            found = (
                read_package(f"{directory}/{name}", read) for name in names_in(directory) if name.endswith(METADATA)
            )
            yield from filter(None, found)


def read_packages_in(directory: Path, only: Container[str] | None = None) -> tuple[Package, ...]:
    """Return the Python packages in a directory, sorted by name; of the directories with metadata, `only` those."""
    metadata = (name for name in _names_in(str(directory)) if name.endswith(METADATA))
    named = (name for name in metadata if only is None or name in only)
    found = filter(None, (read_package(f"{directory}/{name}", _READ_START) for name in named))
    return tuple(sorted(found, key=lambda package: package.name.lower()))


def _names_in(directory: str) -> list[str]:
    return [path.name for path in Path(directory).glob("*")]
