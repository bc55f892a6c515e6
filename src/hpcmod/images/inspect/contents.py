"""Read facts about an image from its root file system, without starting it or reading most of it.

All input is from the image's author and not trusted: reads are bounded, and nothing is evaluated.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import product

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.facts import ImageCommands, ImageFacts, Package, PythonFacts, comparable_name
from hpcmod.images.inspect.entry import read_entry
from hpcmod.images.sif.reader import SifHeader
from hpcmod.images.squashfs.reader import Squashfs
from hpcmod.images.values.assignments import assignments
from hpcmod.images.values.metadata import METADATA, METADATA_LIMIT, read_package

MOST_LISTED = 20_000
"""Most packages, commands or scripts read from one directory; the largest images have about a thousand."""

_ENVIRONMENT = "/.singularity.d/env"
_LABELS = "/.singularity.d/labels.json"
_CONDA_ROOTS = ("/opt/miniconda3", "/opt/miniforge3", "/opt/conda")
_SYSTEM_PREFIXES = ("/usr/local", "/usr", "")
_SYSTEM_DIRECTORIES = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")

BAKED_IN_CONTAINER = "/opt/hpcmod-packages"
"""Directory in an image of the packages that `hpcmod bake` added: a prefix for each time, named 1, 2, ..."""

DEFAULT_PATH = ("/usr/local/sbin", "/usr/local/bin", *_SYSTEM_DIRECTORIES)
"""PATH set by both runtimes if the image sets none."""

_TRIALS = (("true",), ("sh", "-c", ":"), ("busybox", "true"), ("env",))
"""Command lines that do nothing, the one of most images first."""

_ASSIGNED = re.compile(r"(?:^|[\s;&(])([A-Za-z_][A-Za-z0-9_]*)=", re.MULTILINE)
_ACTIVATE = re.compile(r"(?:source|\.)\s+(/\S*)/bin/activate(?:\s+([^\s;&|]+))?")
_PYTHON = re.compile(r"python(\d+\.\d+)")


def read_facts(header: SifHeader, squashfs: Squashfs) -> ImageFacts:
    """Read the facts of a SIF: labels, environment, and its Python with packages and commands."""
    environment, search_path = read_environment(squashfs)
    python = find_python(squashfs, environment, search_path)
    return ImageFacts(
        architecture=header.architecture,
        size=header.size,
        python=python,
        conda=_find_conda(squashfs, python) if python else "",
        entry=read_entry(squashfs),
        packages=_read_packages(squashfs, python) if python else (),
        commands=_executables(squashfs, f"{python.prefix}/bin") if python else (),
        tools=_read_tools(squashfs, search_path, python),
        labels=_read_labels(squashfs),
        environment=tuple(environment.items()),
        assigned=_read_assigned(squashfs),
        has_bash=_is_executable(squashfs, "/bin/bash"),
        trial=_find_trial(squashfs, search_path, python),
    )


def read_commands(squashfs: Squashfs, paths: Iterable[str]) -> ImageCommands:
    """Read which commands an image has, and which of the given absolute paths."""
    environment, search_path = read_environment(squashfs)
    python = find_python(squashfs, environment, search_path)
    places = dict.fromkeys([*([f"{python.prefix}/bin"] if python else []), *search_path, *DEFAULT_PATH])
    there = [place for place in places if squashfs.find(place)]
    names = (posixpath.basename(name) for place in there for name in squashfs.listdir(place))
    absent = tuple(place for place in search_path if place not in there)
    files = frozenset(path for path in paths if squashfs.find(path))
    programs = frozenset(path for path in files if _is_executable(squashfs, path))
    return ImageCommands(frozenset(names), absent, files, programs)


def _list(squashfs: Squashfs, directory: str, *suffixes: str) -> list[str]:
    """List the names in a directory that end with one of the suffixes.

    Raises BadInputError if there are more than in any legitimate image.
    """
    names = [name for name in squashfs.listdir(directory) if not suffixes or name.endswith(suffixes)]
    if len(names) > MOST_LISTED:
        what = f" ending in {' or '.join(suffixes)}" if suffixes else ""
        raise BadInputError(
            f"the image has {len(names)} files{what} in {directory}; at most {MOST_LISTED} are read",
            "Such an image may be malicious: check where it comes from.",
        )
    return names


def _read_labels(squashfs: Squashfs) -> tuple[tuple[str, str], ...]:
    try:
        labels = json.loads(squashfs.text_of(_LABELS) or "{}")
    except (ValueError, RecursionError):  # labels are informational: an image with invalid ones still runs
        return ()
    if not isinstance(labels, dict):
        return ()
    return tuple(sorted((key, value) for key, value in labels.items() if isinstance(value, str)))


def read_environment(squashfs: Squashfs) -> tuple[dict[str, str], list[str]]:
    """Return the variables with a known value, and the directories of PATH in search order."""
    environment: dict[str, str] = {}
    search_path: list[str] = []
    for name in _list(squashfs, _ENVIRONMENT, ".sh"):
        for variable, value, written, is_default in assignments(squashfs.text_of(f"{_ENVIRONMENT}/{name}")):
            if variable == "PATH":
                search_path[:0] = _literal_directories(written)
            if value is None:  # computed when the container starts: any earlier value is out of date
                environment.pop(variable, None)
            elif not (is_default and variable in environment):
                environment[variable] = value
    return environment, search_path


def _read_assigned(squashfs: Squashfs) -> tuple[str, ...]:
    """Return the names of all variables that the image's scripts may assign."""
    scripts = (squashfs.text_of(f"{_ENVIRONMENT}/{name}") for name in _list(squashfs, _ENVIRONMENT))
    return tuple(sorted({name for script in scripts for name in _ASSIGNED.findall(script)}))


def _literal_directories(written: str) -> list[str]:
    entries = written.strip().strip("\"'").split(":")
    return [entry for entry in entries if entry.startswith("/") and not re.search(r"[$`\\\"'\s]", entry)]


def find_python(squashfs: Squashfs, environment: dict[str, str], search_path: list[str]) -> PythonFacts | None:
    """Find the main Python of an image from the result of `read_environment`; None if it has none."""
    found = (_read_python(squashfs, prefix) for prefix in _prefixes(squashfs, environment, search_path))
    return next((python for python in found if python is not None), None)


def _prefixes(squashfs: Squashfs, environment: dict[str, str], search_path: list[str]) -> Iterator[str]:
    """Yield the prefixes where an image's Python may be: first those from its environment, then the usual ones."""
    activated = _ACTIVATE.search(environment.get("WITH_CONDA", ""))
    if activated:
        root, name = activated.groups()
        yield from (f"{root}/envs/{name}", name) if name else ()
        yield root
    yield from (environment[name] for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if name in environment)
    parents = (entry.rstrip("/")[: -len("/bin")] for entry in search_path if entry.rstrip("/").endswith("/bin"))
    yield from (parent for parent in parents if parent not in _SYSTEM_PREFIXES)
    for root in _CONDA_ROOTS:
        yield from (f"{root}/envs/{name}" for name in _list(squashfs, f"{root}/envs"))
        yield root
    yield from ("/opt/venv", "/usr/local", "/usr")


def _read_python(squashfs: Squashfs, prefix: str) -> PythonFacts | None:
    """Find a Python with this prefix; None if missing."""
    if not prefix.startswith("/"):
        return None
    for name in ("python3", "python"):
        executable = squashfs.real_path(f"{prefix}/bin/{name}")
        if executable is None:
            continue
        version = _python_version(squashfs, prefix, executable)
        if version:
            versioned = f"{prefix}/bin/python{version}"
            found = versioned if squashfs.find(versioned) else f"{prefix}/bin/{name}"
            scripts = any(script.endswith(".sh") for script in squashfs.listdir(f"{prefix}/etc/conda/activate.d"))
            return PythonFacts(found, version, prefix, scripts)
    return None


def _find_conda(squashfs: Squashfs, python: PythonFacts) -> str:
    """Return the root of the conda installation of a Python; empty if it has no `conda`."""
    root = python.prefix.partition("/envs/")[0]
    return root if root not in _SYSTEM_PREFIXES and squashfs.real_path(f"{root}/bin/conda") else ""


def _python_version(squashfs: Squashfs, prefix: str, executable: str) -> str:
    named = _PYTHON.fullmatch(executable.rpartition("/")[2])
    if named:
        return named.group(1)
    libraries = filter(None, map(_PYTHON.fullmatch, squashfs.listdir(f"{prefix}/lib")))
    return next((library.group(1) for library in libraries), "")


def _read_packages(squashfs: Squashfs, python: PythonFacts) -> tuple[Package, ...]:
    """List the packages that the Python can import, sorted by name; the first directory on its path wins."""
    packages: dict[str, Package] = {}
    for directory in site_directories(squashfs, python):
        for name in _list(squashfs, directory, *METADATA):
            package = read_package(f"{directory}/{name}", partial(squashfs.text_of, limit=METADATA_LIMIT))
            if package is not None:
                packages.setdefault(comparable_name(package.name), package)
    return tuple(sorted(packages.values(), key=lambda package: (package.name.lower(), package.name)))


def site_directories(squashfs: Squashfs, python: PythonFacts) -> list[str]:
    """List the directories where the Python looks for packages, in order."""
    base = _base_prefix(squashfs, python.prefix)
    prefixes = [python.prefix] if base is None else [python.prefix, base]
    if "/usr" in prefixes:
        prefixes.insert(prefixes.index("/usr"), "/usr/local")  # Debian and Fedora install pip packages there
    prefixes[:0] = baked_prefixes(squashfs)
    found: dict[str, None] = {}
    for prefix in prefixes:
        for library, place in product(("lib", "lib64"), ("site-packages", "dist-packages")):
            for version in (python.version, "3"):
                found[squashfs.real_path(f"{prefix}/{library}/python{version}/{place}") or ""] = None
    return [directory for directory in found if directory]


def baked_prefixes(squashfs: Squashfs) -> list[str]:
    """List the prefixes of packages that `hpcmod bake` added, the newest first."""
    numbers = [int(name) for name in squashfs.listdir(BAKED_IN_CONTAINER) if re.fullmatch(r"[1-9]\d{0,8}", name)]
    return [f"{BAKED_IN_CONTAINER}/{number}" for number in sorted(numbers, reverse=True)]


def _base_prefix(squashfs: Squashfs, prefix: str) -> str | None:
    """Return the prefix of the Python whose packages a virtual environment also sees; None if it sees none."""
    settings = dict(_setting(line) for line in squashfs.text_of(f"{prefix}/pyvenv.cfg").splitlines())
    if settings.get("include-system-site-packages", "").lower() != "true":
        return None
    home = settings.get("home", "").rstrip("/")
    return home[: -len("/bin")] if home.endswith("/bin") else None


def _setting(line: str) -> tuple[str, str]:
    name, _, value = line.partition("=")
    return name.strip().lower(), value.strip()


def _read_tools(squashfs: Squashfs, search_path: list[str], python: PythonFacts | None) -> tuple[str, ...]:
    """List the executables on PATH that belong neither to the system nor to the Python, sorted."""
    known = (*_SYSTEM_DIRECTORIES, f"{python.prefix}/bin") if python else _SYSTEM_DIRECTORIES
    places = {squashfs.real_path(place) for place in (*search_path, *DEFAULT_PATH)}
    places -= {squashfs.real_path(place) for place in known}
    return tuple(sorted({name for place in places if place for name in _executables(squashfs, place)}))


def _find_trial(squashfs: Squashfs, search_path: list[str], python: PythonFacts | None) -> tuple[str, ...]:
    """Return a command line that does nothing; an image with a single program may have none."""
    for words in _TRIALS:
        if any(_is_executable(squashfs, f"{place}/{words[0]}") for place in (*search_path, *DEFAULT_PATH)):
            return words
    return (python.executable, "-c", "") if python else ()


def _executables(squashfs: Squashfs, directory: str) -> tuple[str, ...]:
    names = _list(squashfs, directory)
    return tuple(sorted(name for name in names if _is_executable(squashfs, f"{directory}/{name}")))


def _is_executable(squashfs: Squashfs, path: str) -> bool:
    inode = squashfs.find(path)
    return inode is not None and inode.executable
