"""Read packages of other tools as requirements: pip freeze, conda environments, pyproject.toml, venvs."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hpcmod.errors import BadInputError
from hpcmod.model.documents import load_toml, load_yaml
from hpcmod.model.packages.requirement import (
    NOTHING,
    Requirements,
    join,
    name_of,
    normalize_package,
    parse_file,
    parse_typed,
)

_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(\s*\[[^\]]*\])?\s*={2,3}\s*([A-Za-z0-9.!+_-]+)\s*(;.*)?")
_EDITABLE = re.compile(r"\s*(?:-e|--editable)[ =]\s*(\S.*)")
_LOCAL = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)(\[[^\]]*\])?\s*@\s*file://(\S+)(.*)")
_CONDA = re.compile(r"(?:[^\s:]+::)?([A-Za-z0-9_][A-Za-z0-9_.-]*)\s*(?:\[[^\]]*\]\s*)?([^\[\]]*)")
_CONDA_EXACT = re.compile(r"\s*={0,2}\s*([0-9][A-Za-z0-9.!+_]*?)(\.?\*)?(?:=\S+)?\s*")

_CONDA_NAMES = {
    "pytorch": "torch", "pytorch-cpu": "torch", "pytorch-gpu": "torch", "matplotlib-base": "matplotlib",
    "seaborn-base": "seaborn", "dask-core": "dask", "msgpack-python": "msgpack", "pytables": "tables",
    "python-graphviz": "graphviz",
}  # fmt: skip
"""Packages with another name on conda-forge than on the Python index."""

_NOT_PYTHON = frozenset(
    (
        *("python", "pip", "conda", "mamba", "cudatoolkit", "cudnn", "nccl", "pytorch-cuda", "pytorch-mutex"),
        *("openmpi", "mpich", "mpi", "gcc", "gxx", "gfortran", "compilers", "make", "git", "ffmpeg", "nodejs"),
        *("openjdk", "curl", "wget", "zlib", "openssl", "sqlite", "hdf5", "yaml", "graphviz", "blas", "openblas"),
        *("samtools", "bwa", "perl", "julia"),
    )
)
"""Packages of conda that are not Python packages; the index has others, or none, of these names."""
_NOT_PYTHON_PREFIXES = ("_", "r-", "bioconductor-", "cuda-", "gcc_", "gxx_", "sysroot_", "perl-")


@dataclass(frozen=True)
class LeftOut:
    """Something that cannot be taken over."""

    name: str
    reason: str


@dataclass(frozen=True)
class Source:
    """Packages to take over: versions are kept where they fit."""

    asked: Requirements = NOTHING
    """Requirements there, without the versions in `versions`."""
    versions: tuple[tuple[str, str], ...] = ()
    """Normalized name and version of all packages, requested or not; `1.26.*` matches any of these."""
    left_out: tuple[LeftOut, ...] = ()
    optional: frozenset[str] = frozenset()
    """Names that need not exist on the package index."""


@dataclass(frozen=True)
class PipMetadata:
    """What pip wrote about an installed package."""

    name: str
    version: str
    is_requested: bool
    """Whether a user requested it, rather than another package."""
    direct_url: str
    """Text of direct_url.json; empty for packages from an index."""


@dataclass(frozen=True)
class Editable:
    """A package whose code is used from its own directory."""

    name: str
    path: str


def find_editable(name: str, direct_url: str) -> Editable | None:
    """Return an editable installation, from the text of its direct_url.json; None if it is something else."""
    try:
        values = json.loads(direct_url or "{}")
        is_editable = bool((values.get("dir_info") or {}).get("editable"))
        return Editable(name, str(values["url"]).removeprefix("file://")) if is_editable else None
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return None


def make_installed_source(found: Sequence[PipMetadata]) -> Source:
    """Return installed packages as a source; if none is marked as requested, all of them are."""
    lines, versions, left_out = [], [], []
    is_known = any(one.is_requested for one in found)
    for one in found:
        line, reason = _read_direct_url(one)
        if reason:
            left_out.append(LeftOut(one.name, reason))
            continue
        if line == one.name:
            versions.append((normalize_package(one.name), one.version))
        if one.is_requested or not is_known or line != one.name:
            lines.append(line)
    return Source(Requirements(tuple(lines)), tuple(versions), tuple(left_out))


def _read_direct_url(package: PipMetadata) -> tuple[str, str]:
    """Return the requirement for an installed package; or an empty one, and why it cannot be taken over."""
    try:
        values = json.loads(package.direct_url or "{}")
        url = str(values.get("url", ""))
        kinds = {kind: values.get(kind) for kind in ("dir_info", "vcs_info", "archive_info")}
    except (ValueError, AttributeError, RecursionError):
        return package.name, ""
    place = url.removeprefix("file://")
    directory, vcs = kinds["dir_info"], kinds["vcs_info"]
    if isinstance(directory, dict):
        is_editable = directory.get("editable")
        return "", f"editable, from {place}" if is_editable else f"from {place}; to install a copy: --build {place}"
    if isinstance(vcs, dict):
        return "", f"to build it: --build '{package.name} @ {vcs.get('vcs')}+{url}@{vcs.get('commit_id')}'"
    if kinds["archive_info"] is not None and url.startswith("https://"):
        return f"{package.name} @ {url}", ""
    return package.name, ""


def parse_list(path: str, read: Callable[[str], str], exists: Callable[[str], bool], directory: str = "") -> Source:
    """Parse a requirements file or the output of `pip freeze`: pinned versions are kept where they fit.

    Parameters
    ----------
    path, read, exists, directory
        As for `parse_file`.

    Raises
    ------
    BadInputError
        As `parse_file`.
    """
    left_out: list[LeftOut] = []

    def read_rest(file: str) -> str:
        return "\n".join(_without_local(read(file).splitlines(), left_out, exists)) + "\n"

    return _loosen(parse_file(path, read_rest, exists, directory), left_out)


def _without_local(lines: Iterable[str], left_out: list[LeftOut], exists: Callable[[str], bool]) -> Iterator[str]:
    """Yield the lines of a file without editable installations, and with names for files that do not exist here."""
    for line in lines:
        editable, local = _EDITABLE.match(line), _LOCAL.match(line)
        if editable:
            left_out.append(LeftOut(name_of(editable[1]) or editable[1].strip(), "editable"))
            yield ""
        elif local and not (local[3].endswith(".whl") and exists(local[3])):
            yield f"{local[1]}{local[2] or ''}{local[4]}"  # conda writes the directory in which it was built
        else:
            yield line


def _loosen(asked: Requirements, left_out: Sequence[LeftOut]) -> Source:
    """Return a source in which `==` gives a version to keep where it fits, not a requirement."""
    lines, versions = [], []
    for line in asked.lines:
        pin = _PIN.fullmatch(line)
        lines.append(f"{pin[1]}{pin[2] or ''}{pin[4] or ''}" if pin else line)
        if pin:
            versions.append((normalize_package(pin[1]), pin[3]))
    rest = Requirements(tuple(lines), asked.constraints, asked.options, asked.places)
    return Source(rest, tuple(versions), tuple(left_out))


def parse_project(text: str, path: str, exists: Callable[[str], bool]) -> Source:
    """Parse a pyproject.toml: the dependencies of the project, which must be met as they are.

    Raises
    ------
    BadInputError
        If it does not list dependencies in the standard way.
    """
    tree = load_toml(text, f"project {path}")
    project = _table(tree, "project")
    listed = project.get("dependencies")
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        dynamic = "dependencies" in project.get("dynamic", ())
        poetry = "poetry" in _table(tree, "tool")
        how = "poetry export -o requirements.txt" if poetry and not dynamic else "pip freeze > requirements.txt"
        raise BadInputError(
            f"{path}: no list `dependencies` in [project]",
            f"Write a requirements file ({how}), and use it: --from requirements.txt",
        )
    name = str(project.get("name", "")) or "the project"
    left_out = [LeftOut(name, "the project itself; only its dependencies are installed")]
    groups = [*_table(project, "optional-dependencies"), *_table(tree, "dependency-groups")]
    left_out += [LeftOut(group, "optional dependencies; add those that you need by name") for group in groups]
    return Source(parse_typed(tuple(listed), posixpath.dirname(path), exists), left_out=tuple(left_out))


def parse_conda_environment(text: str, path: str, read: Callable[[str], str], exists: Callable[[str], bool]) -> Source:
    """Parse a conda environment.yml: its pip part, and conda packages that the Python index may have too.

    Parameters
    ----------
    path, read, exists
        As for `parse_file`.

    Raises
    ------
    BadInputError
        If it is not a conda environment.
    LackingError
        If PyYAML is not installed.
    """
    values = load_yaml(text, path)
    listed = values.get("dependencies") if isinstance(values, dict) else None
    if not isinstance(listed, list):
        raise BadInputError(f"{path}: no list `dependencies`", "Write one with: conda env export")
    pip: list[str] = []
    conda: list[str] = []
    for one in listed:
        if isinstance(one, str):
            conda.append(one)
        elif isinstance(one, dict) and isinstance(one.get("pip"), list):
            pip += [line for line in one["pip"] if isinstance(line, str)]

    def read_pip(file: str) -> str:
        return "\n".join(pip) if file == path else read(file)

    of_pip = parse_list(path, read_pip, exists)
    of_conda = _read_conda(conda, {name_of(line) for line in of_pip.asked.lines})
    return Source(
        join(of_conda.asked, of_pip.asked),
        (*of_conda.versions, *of_pip.versions),
        (*of_conda.left_out, *of_pip.left_out),
        of_conda.optional,
    )


def _read_conda(listed: Sequence[str], known: set[str]) -> Source:
    """Return conda's packages as a source, without those that pip installs anyway."""
    lines, versions, left_out = [], [], []
    for text in listed:
        found = _CONDA.fullmatch(text.strip())
        name = found[1].lower() if found else text
        if not found or name in _NOT_PYTHON or name.startswith(_NOT_PYTHON_PREFIXES):
            left_out.append(LeftOut(name, "not a Python package"))
            continue
        name = _CONDA_NAMES.get(name, name)
        if normalize_package(name) in known:
            continue
        exact = _CONDA_EXACT.fullmatch(found[2])
        is_range = re.fullmatch(r"[<>!~][A-Za-z0-9.*,<>=!~ ]*", found[2].strip())
        lines.append(f"{name}{found[2].strip()}" if is_range else name)
        if exact:
            is_short = exact[2] or (exact[1].count(".") < 2 and "==" not in found[2])
            versions.append((normalize_package(name), f"{exact[1]}.*" if is_short else exact[1]))
    names = frozenset(map(name_of, lines))
    return Source(Requirements(tuple(lines)), tuple(versions), tuple(left_out), names)


def _table(values: Any, key: str) -> dict[str, Any]:
    table = values.get(key) if isinstance(values, dict) else None
    return table if isinstance(table, dict) else {}
