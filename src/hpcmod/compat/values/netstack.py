"""Network libraries captured from a host: the files to copy, their names, and the record."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hpcmod import __version__
from hpcmod.compat.values.loader import Closure, Library, is_executable_name, is_glibc
from hpcmod.core.errors import BadInputError
from hpcmod.core.values.json_form import TABLE, json_form, parse_json
from hpcmod.core.values.strict_json import show_value
from hpcmod.machine.values.bind import ON_HOST, version_key

RECORD = "record.json"
RECORD_VERSION = 1
_LARGEST_RECORD = 16 << 20  # bytes

_SAME_AS = {"GLIBC_ABI_DT_RELR": "GLIBC_2.36"}  # the release that introduced it: commit 57292f57 of April 2022

DEFAULT_LIBRARIES = ("libfabric.so.1",)
"""Libraries to capture if neither the user nor the site names any."""


@dataclass(frozen=True)
class Root:
    """A requested library or program."""

    asked: str
    """As named by the user or the profile: a path, a pattern, or a name that the loader finds."""
    path: str


class NeededVersion(NamedTuple):
    """A symbol version that a library needs, e.g. GLIBC_2.34 of libc.so.6."""

    library: str
    version: str


class MissingLibrary(NamedTuple):
    """A library that is not found."""

    name: str
    wanted_by: str
    """The file that needs it."""


@dataclass(frozen=True)
class CapturedLibrary:
    """One library of a captured directory."""

    file: str
    """Its file name in the directory."""
    links: tuple[str, ...]
    """Other names for it in the directory."""
    source: str
    """Path on the host, links resolved."""
    wanted_by: str
    """Path of the file that needs it; empty: it was requested."""
    soname: str = ""
    """The name under which others need it; empty if it has none."""
    needs: tuple[NeededVersion, ...] = ()
    """The newest needed version of each kind."""
    defines: tuple[str, ...] = ()
    """For each kind, the newest of its own symbol versions, e.g. FABRIC_1.7."""
    size: int = 0
    """Bytes."""
    sha256: str = ""


@dataclass(frozen=True)
class Capture:
    """The contents of one captured directory."""

    roots: tuple[Root, ...]
    libraries: tuple[CapturedLibrary, ...]
    left_out: tuple[str, ...]
    """Names of libraries that the container must provide: glibc's, and those left out on request."""
    missing: tuple[MissingLibrary, ...]
    """Libraries that are not found."""
    warnings: tuple[str, ...]
    library_path: tuple[str, ...] = ()
    """The LD_LIBRARY_PATH that was searched."""
    leave_out: tuple[str, ...] = ()
    """Names and patterns of libraries left out on request."""
    host: tuple[tuple[str, str], ...] = field(default=(), metadata=TABLE)
    """Description of the host: os, kernel, machine."""

    @property
    def glibc_needed(self) -> str:
        """Return the oldest glibc release that works, e.g. 2.34; empty if not known."""
        versions = (version for library in self.libraries for _, version in library.needs)
        matches = (re.fullmatch(r"GLIBC_(\d[\d.]*)", _SAME_AS.get(version, version)) for version in versions)
        return max((match[1] for match in matches if match), key=version_key, default="")


def original(capture: Capture) -> str:
    """Return the host path of the library that identifies the release: libfabric, else the first one requested."""
    asked = [library for library in capture.libraries if not library.wanted_by] or capture.libraries
    fabric = (library for library in capture.libraries if library.soname.startswith("libfabric.so"))
    return next(fabric, asked[0]).source


def make_capture(roots: Sequence[Root], closure: Closure, *, leave_out: Sequence[str] = ()) -> Capture:
    """Choose what to copy from a closure: everything except glibc's libraries and programs that were only roots.

    Raises BadInputError if two requested libraries have the same name, or nothing is left to copy.
    """
    names = {RECORD: RECORD, ON_HOST: ON_HOST}
    stays = {library.real for library in closure.libraries if is_glibc(library) or _is_one_of(library, leave_out)}
    copied = [
        library for library in closure.libraries if library.real not in stays and not is_executable_name(library.elf)
    ]
    if not copied:
        raise BadInputError(
            "nothing to copy: glibc's libraries always come from the container", "Name another library."
        )
    return Capture(
        roots=tuple(roots),
        libraries=tuple(_make_library(library, names) for library in copied),
        left_out=tuple(
            library.elf.soname or posixpath.basename(library.name)
            for library in closure.libraries
            if library.real in stays
        ),
        missing=tuple(MissingLibrary(name, by) for name, by in closure.missing),
        warnings=tuple(warning for library in copied for warning in _warnings(library)),
        leave_out=tuple(leave_out),
    )


def _is_one_of(library: Library, patterns: Sequence[str]) -> bool:
    expressions = [re.escape(pattern).replace(r"\*", ".*") for pattern in patterns]
    names = (library.elf.soname, posixpath.basename(library.name))
    return any(re.fullmatch(expression, name) for expression in expressions for name in names)


def _make_library(library: Library, names: dict[str, str]) -> CapturedLibrary:
    """Choose a library's file name, and record it in `names` with its source."""
    soname, asked = _file_name(library.elf.soname), posixpath.basename(library.name)
    file_names = dict.fromkeys([posixpath.basename(library.real), soname, *map(_file_name, library.names)])
    if not library.wanted_by:  # entry scripts and plugins open a library by its bare name
        file_names[re.sub(r"(\.so)\..*", r"\1", asked)] = None
    same = names.get(soname or asked, library.real)
    if same != library.real:
        raise BadInputError(f"{same} and {library.real} are two libraries with the same name", "Name only one of them.")
    file, *links = [name for name in file_names if name and names.setdefault(name, library.real) == library.real]
    return CapturedLibrary(
        file=file,
        links=tuple(links),
        source=library.real,
        wanted_by=library.wanted_by,
        soname=soname,
        needs=_newest_needs(library.elf.versions_needed),
        defines=_newest(library.elf.versions_defined),
    )


def _file_name(name: str) -> str:
    """Return the last part of a name, which may be a path; empty if it is not a valid file name."""
    last = posixpath.basename(name)
    return "" if last in (".", "..") else last


def _newest(versions: Iterable[str]) -> tuple[str, ...]:
    """Return the newest of each kind: GLIBC_2.34 of GLIBC_2.2.5, GLIBC_2.34 and so on."""
    newest: dict[str, str] = {}
    for version in versions:
        kind = re.split(r"_?\d", version, maxsplit=1)[0]
        newest[kind] = max(newest.get(kind, version), version, key=version_key)
    return tuple(sorted(newest.values()))


def _newest_needs(needs: Iterable[tuple[str, str]]) -> tuple[NeededVersion, ...]:
    by_library: dict[str, list[str]] = {}
    for library, version in needs:
        by_library.setdefault(library, []).append(version)
    return tuple(
        NeededVersion(library, version) for library, versions in by_library.items() for version in _newest(versions)
    )


def _warnings(library: Library) -> Iterable[str]:
    """Yield warnings about library settings that keep the loader from finding its captured dependencies."""
    for name in library.elf.needed:
        if "/" in name:
            yield f"{library.real} needs {name} by its path, which does not exist in containers"
    if library.elf.rpath and not library.elf.runpath:
        yield f"{library.real} has an RPATH ({':'.join(library.elf.rpath)}), which is searched before this directory"
    if re.match(r"libmpi\.so\.[24]0$", library.elf.soname):
        yield f"{library.real} belongs to Open MPI, whose components (mca_*.so) are opened by path and are not captured"


def render_record(capture: Capture, *, time: str) -> str:
    """Render the record as a JSON object."""
    values = {
        "record": RECORD_VERSION,
        "hpcmod": __version__,
        "time": time,
        **json_form(capture),
        "glibc_needed": capture.glibc_needed,
    }
    return json.dumps(values, indent=1) + "\n"


def parse_netstack(text: bytes, where: str) -> Capture:
    """Parse a record.

    Raises BadInputError if it is not a record, or was written by a later release of hpcmod.
    """
    capture = parse_json(Capture, text, where, limit=_LARGEST_RECORD, version=("record", RECORD_VERSION))
    for name in (library.file for library in capture.libraries):
        if not name or "/" in name or name in (".", ".."):
            raise BadInputError(f"{where}: libraries: file: expected a name without a slash, found {show_value(name)}")
    return capture
