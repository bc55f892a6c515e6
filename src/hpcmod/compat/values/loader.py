"""The dynamic loader's rules: the file for each needed library, decided for any set of files without running one.

The rules are glibc's, from ld.so(8), and from what `ldd` shows where the manual is silent. A name with a slash is a
path. A library that is already loaded is not searched for. Then come DT_RPATH of the file and its requesters, unless
the file has a DT_RUNPATH; LD_LIBRARY_PATH; DT_RUNPATH; the cache; the default directories.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from hpcmod.compat.values.elf import ElfFile

GLIBC = frozenset(
    f"lib{name}"
    for name in (
        *("c.so.6", "m.so.6", "dl.so.2", "pthread.so.0", "rt.so.1", "util.so.1", "resolv.so.2", "anl.so.1"),
        "mvec.so.1",
        *("nsl.so.1", "BrokenLocale.so.1", "thread_db.so.1", "c_malloc_debug.so.0", "memusage.so", "pcprofile.so"),
        *("SegFault.so", *(f"nss_{service}.so.2" for service in ("compat", "db", "dns", "files", "hesiod"))),
    )
)
"""Names of glibc's own libraries (package libc6 of Debian 11 and 12): they only work together, with one loader."""

_LOADER = re.compile(r"ld(-linux.*|64)\.so\.\d")


class Files(Protocol):
    """File system as seen by the loader."""

    def elf(self, path: str) -> ElfFile | None:
        """Return the data of an ELF file, following links; None if it does not exist or is not ELF."""

    def real(self, path: str) -> str:
        """Return a path with all links resolved."""


@dataclass(frozen=True)
class Search:
    """Where one machine's loader searches, besides the paths in the files."""

    library_path: tuple[str, ...] = ()
    """LD_LIBRARY_PATH; may contain $ORIGIN, $LIB and $PLATFORM."""
    cache: tuple[tuple[str, str], ...] = ()
    """/etc/ld.so.cache: soname and path, the preferred one of a name first."""
    defaults: tuple[str, ...] = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
    lib: str = "lib64"
    """Value of $LIB."""
    platform: str = "x86_64"
    """Value of $PLATFORM."""


@dataclass(frozen=True)
class Library:
    """One loaded file."""

    name: str
    """Name under which it was requested."""
    path: str
    """Path where the loader finds it, links not resolved."""
    real: str
    elf: ElfFile = field(compare=False)
    wanted_by: str = ""
    """Path of the file that first requested it; empty: it was a root."""
    names: tuple[str, ...] = ()
    """All names by which it is known once loaded: its soname, and those it was requested under."""


@dataclass(frozen=True)
class Closure:
    """Everything that gets loaded with some files."""

    libraries: tuple[Library, ...]
    """In loading order, roots first."""
    missing: tuple[tuple[str, str], ...]
    """Libraries that are not found: name, and the file that needs it."""

    @property
    def own(self) -> tuple[Library, ...]:
        """Return all libraries except glibc's."""
        return tuple(library for library in self.libraries if not is_glibc(library))


def is_glibc(library: Library) -> bool:
    """Return whether a library is one of glibc's own."""
    names = (posixpath.basename(library.name), library.elf.soname)
    return any(name in GLIBC or _LOADER.fullmatch(name) for name in names)


def find_closure(roots: Iterable[str], files: Files, search: Search) -> Closure:
    """Find everything that the loader loads with these files, breadth first, as in one process.

    Notes
    -----
    Libraries that a program opens later with dlopen are not recorded in any file; add them to the roots.
    """
    walk = _Walk(files, search)
    for root in roots:
        walk.load_root(root)
    walk.load_needed()
    return Closure(tuple(walk.libraries()), tuple(walk.missing))


def find_library(name: str, files: Files, search: Search) -> str:
    """Return the file that dlopen(name) opens in a program without its own search paths; empty if there is none."""
    library = _Walk(files, search).find(name, None)
    return library.path if library else ""


def is_executable_name(elf: ElfFile) -> bool:
    """Return whether a file is a program rather than a library."""
    return bool(elf.interpreter) and not elf.soname  # libc.so.6 can be run too, but is a library


@dataclass(frozen=True)
class _Loaded:
    library: Library
    origin: str
    """Value of $ORIGIN."""
    by: _Loaded | None


class _Walk:
    """One run of the loader."""

    def __init__(self, files: Files, search: Search) -> None:
        self.files, self.search = files, search
        self.loaded: list[_Loaded] = []
        self.missing: list[tuple[str, str]] = []
        self._machine: tuple[str, int] | None = None
        self._by_name: dict[str, _Loaded] = {}
        self._by_file: dict[str, _Loaded] = {}

    def load_root(self, path: str) -> None:
        elf = self.files.elf(path)
        if elf is None:
            self.missing.append((path, ""))
            return
        # The kernel tells a program its real path; a library keeps the path by which it was opened.
        place = self.files.real(path) if is_executable_name(elf) else path
        self._machine = self._machine or (elf.machine, elf.bits)
        self._add(Library(path, place, self.files.real(path), elf), None)

    def load_needed(self) -> None:
        at = 0
        while at < len(self.loaded):
            by = self.loaded[at]
            for name in by.library.elf.needed:
                if name in self._by_name:
                    continue
                library = self.find(name, by)
                if library is None:
                    self.missing.append((name, by.library.path))
                else:
                    self._add(library, by)
            at += 1

    def libraries(self) -> Iterator[Library]:
        names: dict[str, list[str]] = {}
        for name, loaded in self._by_name.items():
            names.setdefault(loaded.library.real, []).append(name)
        return (replace(loaded.library, names=tuple(names[loaded.library.real])) for loaded in self.loaded)

    def _add(self, library: Library, by: _Loaded | None) -> None:
        known = self._by_file.get(library.real)
        loaded = known or _Loaded(library, posixpath.dirname(library.path), by)
        if known is None:
            self._by_file[library.real] = loaded
            self.loaded.append(loaded)
        for name in (library.name, library.elf.soname):
            if name:
                self._by_name.setdefault(name, loaded)

    def find(self, name: str, by: _Loaded | None) -> Library | None:
        """Return the file for a name that another file needs; None if there is none."""
        wanted_by = by.library.path if by else ""
        for path in self._candidates(name, by):
            elf = self.files.elf(path)
            if elf is not None and self._machine in (None, (elf.machine, elf.bits)):
                return Library(name, path, self.files.real(path), elf, wanted_by)
        return None

    def _candidates(self, name: str, by: _Loaded | None) -> Iterator[str]:
        main = self.loaded[0] if self.loaded else None
        if "/" in name:
            yield from self._expanded([name], by)
            return
        if by is None or not by.library.elf.runpath:
            yield from self._below(self._rpath(by, main), name)
        yield from self._below(self._expanded(self.search.library_path, main), name)
        if by is not None:
            yield from self._below(self._expanded(by.library.elf.runpath, by), name)
        yield from (path for soname, path in self.search.cache if soname == name)
        yield from self._below(self.search.defaults, name)

    def _rpath(self, by: _Loaded | None, main: _Loaded | None) -> Iterator[str]:
        """Yield the directories of DT_RPATH: of the file, of its chain of requesters, and of the program."""
        chain: list[_Loaded] = []
        while by is not None:
            chain.append(by)
            by = by.by
        if main is not None and main not in chain and is_executable_name(main.library.elf):
            chain.append(main)
        for loaded in chain:
            if not loaded.library.elf.runpath:
                yield from self._expanded(loaded.library.elf.rpath, loaded)

    def _expanded(self, directories: Iterable[str], owner: _Loaded | None) -> Iterator[str]:
        """Substitute $ORIGIN, $LIB and $PLATFORM; without an owner, $ORIGIN has no meaning."""
        meaning = {"LIB": self.search.lib, "PLATFORM": self.search.platform, "ORIGIN": owner.origin if owner else ""}
        for directory in directories:
            if owner is None and "ORIGIN" in directory:
                continue
            yield re.sub(
                r"\$(?:\{(ORIGIN|LIB|PLATFORM)\}|(ORIGIN|LIB|PLATFORM)(?![A-Za-z0-9_]))",
                lambda match: meaning[match[1] or match[2]],
                directory,
            )

    def _below(self, directories: Iterable[str], name: str) -> Iterator[str]:
        for directory in directories:
            yield posixpath.join(directory or ".", name)
