"""A catalogue on disk: its paths, its records, and which catalogues are configured, in order of priority."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hpcmod.core.errors import BadInputError, HpcmodError, NotFoundError
from hpcmod.core.fs.reading import read_whole
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.json_form import HIDDEN, json_form, parse_json
from hpcmod.core.values.text import absolute
from hpcmod.machine.values.site import Site

if TYPE_CHECKING:
    from hpcmod.catalogue.values.record import CatalogueRecord
    from hpcmod.core.fs.tree import Tree

CATALOGUE = "catalogue.json"
"""The file that identifies a directory as a catalogue."""

FORMAT = 1

REBUILD = "hpcmod catalogue rebuild"
"""The command that renders what users see, and restores records."""

RESTORE = f"An admin of the catalogue can restore it from the journal: {REBUILD}"
"""The cure for a damaged record."""

FIX_MODES = "hpcmod catalogue verify --fix-modes"
"""The command that sets modes and groups."""

_LIMIT = 1 << 20  # bytes of the file that identifies a catalogue
_FOR_GROUP = 0o2020  # the set-group-ID bit, and that the group may write


class _Below:
    """A path below the directory of a catalogue."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __get__(self, catalogue: Catalogue, _: type[Catalogue]) -> Path:
        return catalogue.directory / self._path


@dataclass(frozen=True)
class Catalogue:
    """A directory that contains a catalogue; it can be read at any time without a lock."""

    directory: Path = field(metadata=HIDDEN)
    name: str = ""
    site: str = ""
    """Name of the profile it is for; empty if not set."""
    counts_use: bool = False
    """Whether its modules count how often they are loaded; see `hpcmod.catalogue.storage.usage`."""

    mode: int = 0
    """Mode that its directory was given; 0 if not recorded."""
    group: str = ""
    """Group that may change it; empty if only the owner may, or if not recorded."""

    records_directory = _Below("records")
    """One file per container: `records/<Name>/<version>.json`."""
    images = _Below("images")
    """The SIFs; on EasyBuild's source path."""
    easyconfigs = _Below("easyconfigs")
    """On EasyBuild's robot path: `easyconfigs/<letter>/<Name>/*.eb`."""
    software = _Below("software")
    """Run scripts and wrappers of the modules."""
    modules = _Below("modules/all")
    """The module tree that users have on MODULEPATH."""
    notices = _Below("notices")
    """What modules print when they load: one file per SIF, named by its sha256."""
    advisories = _Below("advisories")
    """Dated advisories on known problems: `*.toml`."""
    licences = _Below("licences")
    """Texts of licences, each named by its sha256."""
    kept = _Below("kept")
    """Original output of `eb`, `kept/<Name>/<version>/`, from which what users see is made."""
    usage = _Below("usage")
    """Load counts: totals, and `loads/` with one empty file per load."""
    loads = _Below("usage/loads")
    """Every user may add a file, and only its owner may change or remove it."""
    staging = _Below(".staging")
    """What is being published, which users do not see."""
    locks = _Below(".locks")
    """Locks for changing the catalogue."""

    @property
    def tree(self) -> Tree:
        """Return the directory as a tree that follows no links: anyone who may publish may also put links there."""
        from hpcmod.core.fs.tree import Tree  # on many machines there is no catalogue

        return Tree(self.directory)

    def read_file(self, path: Path, limit: int, *, check: Callable[[os.stat_result], None] = lambda _: None) -> bytes:
        """Return the content of a file of the catalogue.

        `check`: Called with the status of each directory on the way and of the file; an OSError from it is reported as
            an error of the catalogue.

        Raises FileNotFoundError if the file does not exist; BadInputError if it is not a regular file of at most
        `limit` bytes, or may not be read.
        """
        try:
            with self.tree.open_checked(path, check) as file:
                return read_whole(file, path, limit)
        except (FileNotFoundError, NotADirectoryError) as err:
            raise FileNotFoundError(err.errno, err.strerror, err.filename) from err
        except OSError as err:
            namei = f"See who put it there: namei -l {path}. An admin of the catalogue can remove or replace it."
            raise BadInputError(f"{path}: {err.strerror}", ask_to_open(path) or namei) from err

    def record_path(self, name: str, version: str) -> Path:
        """Return the path of a record, whether or not it exists."""
        return self.records_directory / name / f"{version}.json"

    def easyconfigs_of(self, name: str) -> Path:
        """Return the directory of a name's easyconfigs, following EasyBuild's rule: below the letter, or below 0."""
        letter = name[0].lower()
        return self.easyconfigs / (letter if letter.isalpha() else "0") / name

    @contextmanager
    def _listing(self) -> Iterator[None]:
        """Take a missing directory as an empty one; raise BadInputError if this user may not list it."""
        try:
            yield
        except FileNotFoundError:
            pass
        except PermissionError as err:
            cure = ask_to_open(Path(err.filename))
            raise BadInputError(f"{err.filename}: {err.strerror}", cure) from err

    def containers(self) -> tuple[tuple[str, str], ...]:
        """Return name and version of every record, sorted, without opening any."""
        names: list[str] = []
        with self._listing(), os.scandir(self.records_directory) as found:
            names = [
                entry.name for entry in found if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            ]
        return tuple(sorted((name, version) for name in names for version in self.versions(name)))

    def versions(self, name: str) -> list[str]:
        """Return the versions of a name, in no order, without opening any record."""
        with self._listing(), os.scandir(self.records_directory / name) as found:
            names = [entry.name for entry in found if entry.name.endswith(".json") and not entry.name.startswith(".")]
            return [name[: -len(".json")] for name in names]
        return []

    def records(self) -> Iterator[CatalogueRecord]:
        """Yield every record in the order of `containers`, but those removed since; raise BadInputError if damaged."""
        yield from filter(None, (self.find(name, version) for name, version in self.containers()))

    def readable_records(self) -> Iterator[CatalogueRecord]:
        """Yield every record that can be read; `verify` reports the others."""
        for name, version in self.containers():
            record = None
            with suppress(OSError, HpcmodError):
                record = self.find(name, version)
            if record:
                yield record

    def named(self, name: str) -> tuple[CatalogueRecord, ...]:
        """Return the records of one name, sorted by version; raise BadInputError if one is damaged."""
        return tuple(filter(None, (self.find(name, version) for version in sorted(self.versions(name)))))

    def find(self, name: str, version: str) -> CatalogueRecord | None:
        """Return a record; None if it does not exist; raise BadInputError if it is damaged."""
        from hpcmod.catalogue.values.record import RECORD_LIMIT, parse_record  # as for `tree`

        path = self.record_path(name, version)
        try:
            return parse_record(self.read_file(path, RECORD_LIMIT), str(path))
        except FileNotFoundError:
            return None
        except BadInputError as err:
            raise BadInputError(err.message, err.cure or RESTORE) from err

    def read(self, name: str, version: str) -> CatalogueRecord:
        """Return a record; raise NotFoundError if it does not exist."""
        record = self.find(name, version)
        if record is None:
            raise NotFoundError(f"{name}/{version} is not in the catalogue {self.directory}", "See: hpcmod ls")
        return record


def ask_to_open(path: Path) -> str:
    """Return whom to ask for access to a file of a catalogue; empty if this user may read it."""
    from hpcmod.core.fs.ownership import find_closed_to_user, user_name  # as for `tree`

    closed = find_closed_to_user(path)
    return f"Ask {user_name(closed.lstat().st_uid)} to run: {FIX_MODES}" if closed else ""


def is_catalogue(directory: Path) -> bool:
    """Return whether a directory is a catalogue, even one that lost the file that identifies it."""
    return (directory / CATALOGUE).exists() or all((directory / name).is_dir() for name in ("records", "modules"))


def open_catalogue(directory: Path) -> Catalogue:
    """Open a catalogue, and check that it is a valid one.

    Raises NotFoundError if the directory is not a catalogue; BadInputError if its format is not known to this hpcmod.
    """
    path = directory / CATALOGUE
    try:
        text = Catalogue(directory).read_file(path, _LIMIT)
    except FileNotFoundError as err:
        cure = _restoring(directory) if is_catalogue(directory) else _MAKE_ONE
        raise NotFoundError(f"{directory} is not a catalogue: it has no {CATALOGUE}", cure) from err
    try:
        return parse_json(Catalogue, text, str(path), limit=_LIMIT, version=("format", FORMAT), directory=directory)
    except BadInputError as err:
        raise BadInputError(err.message, err.cure or _restoring(directory)) from err


def _restoring(directory: Path) -> str:
    """Return how to write the file of a catalogue again, with the group that may change its directory."""
    status, path = directory.stat(), directory / CATALOGUE
    group = ""
    if status.st_mode & _FOR_GROUP == _FOR_GROUP:
        with suppress(KeyError):
            group = f"--group {sh_word(directory.group())} "
    remove = f"rm {sh_word(str(path))}; " if path.exists() else ""
    again = f"{remove}hpcmod catalogue init {group}{sh_word(str(directory))}"
    return f"Restore {CATALOGUE} from a backup; or, with the --name, --site and --count-use of then: {again}"


_MAKE_ONE = (
    "If it was moved, correct HPCMOD_CATALOGUE or `catalogues` in the site profile. To create one: "
    "hpcmod catalogue init DIRECTORY"
)


def render_catalogue(catalogue: Catalogue) -> str:
    """Return the content of the file that identifies a catalogue."""
    return json.dumps({"format": FORMAT, **json_form(catalogue)}, indent=1, sort_keys=True) + "\n"


def find_catalogues(
    site: Site | None, environ: Mapping[str, str], *, tell: Callable[[str], None]
) -> tuple[Catalogue, ...]:
    """Open the catalogues of this machine: those of $HPCMOD_CATALOGUE, of the site profile, and the user's own.

    `tell`: Called with a line about each that cannot be opened. Only the first must open: commands change that one.

    Raises HpcmodError if the first is not a catalogue; the user's own need not exist.
    """
    found: list[Catalogue] = []
    for directory in catalogue_directories(site, environ):
        try:
            found.append(open_catalogue(directory))
        except NotFoundError as err:
            if not found:
                raise
            tell(f"skipped: {err.message}")
    return tuple(found)


def catalogue_directories(site: Site | None, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the directories of the catalogues by priority, each once."""
    named = [place for place in environ.get("HPCMOD_CATALOGUE", "").split(":") if place]
    places = [*named, *(site.catalogues if site else ())]
    own = user_catalogue(environ)
    if own and (own / CATALOGUE).is_file():
        places.append(str(own))
    return tuple(Path(place).absolute() for place in dict.fromkeys(places))


def user_catalogue(environ: Mapping[str, str]) -> Path | None:
    """Return where a user's own catalogue belongs; None without a home directory."""
    home = absolute(environ.get("XDG_DATA_HOME")) or (f"{environ['HOME']}/.local/share" if environ.get("HOME") else "")
    return Path(home, "hpcmod", "catalogue") if home else None


def is_refused(catalogue: Catalogue, record: CatalogueRecord) -> bool:
    """Return whether the image of a container is restricted to a group and this user may not read it."""
    return bool(record.readers) and is_unreadable(catalogue, record.sif)


def is_unreadable(catalogue: Catalogue, sif: str) -> bool:
    """Return whether this user may not read an image of a catalogue, by its file name; False if it does not exist."""
    image = catalogue.images / sif
    return os.access(image, os.F_OK) and not os.access(image, os.R_OK)


def software_of(catalogue: Catalogue, record: CatalogueRecord) -> Path:
    """Return the directory in which a container is installed for all."""
    return catalogue.software / record.name / record.version
