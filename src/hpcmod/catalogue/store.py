"""A catalogue on disk: its places, its records, and which catalogues there are, in order of priority."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hpcmod.errors import BadInputError, NotFoundError
from hpcmod.fs.reading import read_whole
from hpcmod.fs.tree import Tree
from hpcmod.machine import absolute
from hpcmod.model.catalogue.record import RECORD_LIMIT, CatalogueRecord, parse_record
from hpcmod.model.site import Site
from hpcmod.model.strict_json import JsonObject, load_json

CATALOGUE = "catalogue.json"
"""What makes a directory a catalogue."""

FORMAT = 1

_LIMIT = 1 << 20  # bytes of the file that makes a directory a catalogue


@dataclass(frozen=True)
class Catalogue:
    """A directory that holds a catalogue; reading it asks nobody and waits for nobody."""

    directory: Path
    name: str = ""
    site: str = ""
    """Name of the profile it is for; empty: not said."""
    counts_use: bool = False
    """Whether its modules count how often they are loaded; see `hpcmod.catalogue.storage.usage`."""

    mode: int = 0
    """Mode that its directory was given; 0: not recorded."""
    group: str = ""
    """Group that may change it; empty: nobody but the owner, or not recorded."""
    moved_to: str = ""
    """Where it is now; empty: here. What is left here loads, but takes no more changes."""
    moving_from: str = ""
    """Where it is being copied from, until that is finished; empty: this is no copy, or a finished one."""

    @property
    def tree(self) -> Tree:
        """The directory as one in which no link is followed: whoever may publish may also put links there."""
        return Tree(self.directory)

    def read_file(self, path: Path, limit: int, *, check: Callable[[os.stat_result], None] = lambda _: None) -> bytes:
        """Read a file of the catalogue.

        Parameters
        ----------
        check
            Called with the status of each directory on the way and of the file; what it raises as an OSError is an
            error of the catalogue.

        Raises
        ------
        FileNotFoundError
            If there is none.
        BadInputError
            If it is not a regular file of at most `limit` bytes, or may not be read.
        """
        try:
            with self.tree.open_checked(path, check) as file:
                return read_whole(file, path, limit)
        except (FileNotFoundError, NotADirectoryError) as err:
            raise FileNotFoundError(err.errno, err.strerror, err.filename) from err
        except OSError as err:
            raise BadInputError(
                f"{path}: {err.strerror}",
                f"See who put it there: namei -l {path}. An admin of the catalogue can remove or replace it.",
            ) from err

    @property
    def records_directory(self) -> Path:
        """The truth: one file a container, `records/<Name>/<version>.json`."""
        return self.directory / "records"

    @property
    def images(self) -> Path:
        """The SIFs: on EasyBuild's source path."""
        return self.directory / "images"

    @property
    def easyconfigs(self) -> Path:
        """On EasyBuild's robot path, as `easyconfigs/<letter>/<Name>/*.eb`."""
        return self.directory / "easyconfigs"

    @property
    def software(self) -> Path:
        """Where the modules' run scripts and wrappers lie."""
        return self.directory / "software"

    @property
    def modules(self) -> Path:
        """What users have on MODULEPATH."""
        return self.directory / "modules" / "all"

    @property
    def code(self) -> Path:
        """What modulefiles in Lua run as they are loaded; no module tool looks for modules there."""
        return self.directory / "modules" / ".code"

    @property
    def notices(self) -> Path:
        """What a module looks at when it loads: one file a SIF, by its sha256."""
        return self.directory / "notices"

    @property
    def advisories(self) -> Path:
        """Dated, known problems: `*.toml`."""
        return self.directory / "advisories"

    @property
    def kept(self) -> Path:
        """What `eb` made of each container, as it was: `kept/<Name>/<version>/`; what users see is made from that."""
        return self.directory / "kept"

    @property
    def usage(self) -> Path:
        """What is known of loads: totals, and `loads/` with one empty file a load."""
        return self.directory / "usage"

    @property
    def loads(self) -> Path:
        """Where every user may add a file, and nobody but its owner may change or remove one."""
        return self.usage / "loads"

    @property
    def staging(self) -> Path:
        """What is about to be published; nobody looks in there."""
        return self.directory / ".staging"

    @property
    def locks(self) -> Path:
        """Locks of those who change the catalogue."""
        return self.directory / ".locks"

    def record_path(self, name: str, version: str) -> Path:
        """Return the file of a record, whether or not there is one."""
        return self.records_directory / name / f"{version}.json"

    def easyconfigs_of(self, name: str) -> Path:
        """Where a name's easyconfigs lie, by EasyBuild's rule: below the letter, or below 0."""
        letter = name[0].lower()
        return self.easyconfigs / (letter if letter.isalpha() else "0") / name

    def containers(self) -> tuple[tuple[str, str], ...]:
        """Name and version of every record, sorted; none is opened."""
        names = _directories(self.records_directory)
        return tuple(sorted((name, one) for name in names for one in self.versions(name)))

    def versions(self, name: str) -> list[str]:
        """Return the versions of a name, in no order; no record is opened."""
        return _versions(self.records_directory / name)

    def records(self) -> Iterator[CatalogueRecord]:
        """Read every record, in the order of `containers`; one that was removed meanwhile is left out.

        Raises
        ------
        BadInputError
            If one is damaged.
        """
        for name, version in self.containers():
            record = self.find(name, version)
            if record:
                yield record

    def named(self, name: str) -> tuple[CatalogueRecord, ...]:
        """Read the records of one name, sorted by version.

        Raises
        ------
        BadInputError
            If one is damaged.
        """
        found = (self.find(name, version) for version in sorted(self.versions(name)))
        return tuple(record for record in found if record)

    def find(self, name: str, version: str) -> CatalogueRecord | None:
        """Read a record; None if there is none."""
        path = self.record_path(name, version)
        try:
            return parse_record(self.read_file(path, RECORD_LIMIT), str(path))
        except FileNotFoundError:
            return None

    def read(self, name: str, version: str) -> CatalogueRecord:
        """Read a record.

        Raises
        ------
        NotFoundError
            If there is none.
        """
        record = self.find(name, version)
        if record is None:
            raise NotFoundError(f"{name}/{version} is not in the catalogue {self.directory}", "See: hpcmod ls")
        return record


def _directories(place: Path) -> list[str]:
    with suppress(FileNotFoundError), os.scandir(place) as found:
        return [entry.name for entry in found if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")]
    return []


def _versions(place: Path) -> list[str]:
    with suppress(FileNotFoundError), os.scandir(place) as found:
        names = [entry.name for entry in found if entry.name.endswith(".json") and not entry.name.startswith(".")]
        return [name[: -len(".json")] for name in names]
    return []


def open_catalogue(directory: Path) -> Catalogue:
    """Open a catalogue, and check that it is one of ours.

    Raises
    ------
    NotFoundError
        If there is none in the directory.
    BadInputError
        If it is of a format that this hpcmod does not know.
    """
    path = directory / CATALOGUE
    try:
        text = Catalogue(directory).read_file(path, _LIMIT)
    except FileNotFoundError as err:
        raise NotFoundError(f"{directory} is not a catalogue: it has no {CATALOGUE}", _MAKE_ONE) from err
    found = JsonObject(load_json(text, str(path), limit=_LIMIT), str(path))
    if found.number("format") != FORMAT:
        raise BadInputError(f"{path}: format {found.number('format')}, known is {FORMAT}", "Use a later hpcmod.")
    counts = found.values.get("counts_use") is True
    texts = {key: found.text(key) for key in ("name", "site", "group", "moved_to", "moving_from")}
    return Catalogue(directory, counts_use=counts, mode=_octal(found), **texts)


def _octal(found: JsonObject) -> int:
    text = found.text("mode") or "0"
    if not re.fullmatch("[0-7]{1,4}", text):
        raise found.bad("mode", "an octal number", text)
    return int(text, 8)


_MAKE_ONE = (
    "If it was moved, correct HPCMOD_CATALOGUE or `catalogues` of the site profile. To make one: "
    "hpcmod catalogue init DIRECTORY"
)


def render_catalogue(catalogue: Catalogue) -> str:
    """Render the file that makes a directory a catalogue."""
    values: dict[str, object] = {"name": catalogue.name, "site": catalogue.site, "counts_use": catalogue.counts_use}
    values |= {"mode": f"{catalogue.mode:04o}"} if catalogue.mode else {}
    values |= {"group": catalogue.group} if catalogue.group else {}
    values |= {"moved_to": catalogue.moved_to} if catalogue.moved_to else {}
    values |= {"moving_from": catalogue.moving_from} if catalogue.moving_from else {}
    return json.dumps({"format": FORMAT, **values}, indent=1, sort_keys=True) + "\n"


def find_catalogues(
    site: Site | None, environ: Mapping[str, str], *, tell: Callable[[str], None]
) -> tuple[Catalogue, ...]:
    """Open the catalogues of this machine: those of $HPCMOD_CATALOGUE, of the site profile, and the user's own.

    Parameters
    ----------
    tell
        Called with a line about each that cannot be opened. Only the first must open: it is the one that verbs change.

    Raises
    ------
    HpcmodError
        If the first is not a catalogue; the user's own need not exist.
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
    """Directories of the catalogues, the first has priority, each once."""
    named = [place for place in environ.get("HPCMOD_CATALOGUE", "").split(":") if place]
    places = [*named, *(site.catalogues if site else ())]
    own = user_catalogue(environ)
    if own and (own / CATALOGUE).is_file():
        places.append(str(own))
    return tuple(Path(place).absolute() for place in dict.fromkeys(places))


def user_catalogue(environ: Mapping[str, str]) -> Path | None:
    """Where a user's own catalogue belongs; None where there is no home."""
    home = absolute(environ.get("XDG_DATA_HOME")) or (f"{environ['HOME']}/.local/share" if environ.get("HOME") else "")
    return Path(home, "hpcmod", "catalogue") if home else None
