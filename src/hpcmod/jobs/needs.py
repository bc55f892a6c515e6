"""Check that a job's program and data files exist, before it waits in the queue."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpcmod.core.errors import HpcmodError
from hpcmod.jobs.values.request import JobRequest, is_command
from hpcmod.jobs.values.slurm import value_of
from hpcmod.modules import Installed, find_packages

if TYPE_CHECKING:
    from hpcmod.core.values.facts import ImageCommands

_IN_CONTAINER = ("/staged-data/", "/runscripts/", "/user-software/")
"""Directories that exist only in a job's container."""

_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
"""Options of Python that take the next word."""

Fault = tuple[str, str]
"""A missing file or command, and how to fix it."""


def find_missing(request: JobRequest, installed: Installed | None) -> tuple[Fault, ...]:
    """Return what a job needs but does not exist: program, data files.

    `installed`: The installation of the job's module; None if unknown: then commands are not checked.
    """
    start = Path(value_of(request.more, "chdir", "D") or ".")
    name = request.program[0] if is_command(request.program) else find_script(request.program)
    is_file = not is_command(request.program) or "/" in name
    missing = [name] if is_file and name and not _is_on_host(name, start, request.container.binds) else []
    environ = {**os.environ, **dict(request.module.choice)}
    image = _read_image(installed, missing, environ) if installed and (missing or not is_file) else None
    data = [file for file in request.staging.data if "$" not in file and not (start / file).is_file()]
    return (
        *_find_missing_files("program", [file for file in missing if not image or file not in image.files], start),
        *_find_missing_files("data file", data, start),
        *(_find_missing_command(name, image, installed) if image and installed and not is_file else ()),
    )


def find_script(program: Sequence[str]) -> str:
    """Return the file that Python will run; empty if it runs something else: a module, a command line, its input."""
    words = list(program[1:] if program[0] in ("python", "python3") else program)
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option == "-" or (not option.startswith("--") and set(option[1:]) & set("cm")):
            return ""
        if option in _WITH_VALUE:
            words = words[1:]
    return words[0] if words else ""


def _is_on_host(path: str, start: Path, binds: Iterable[str]) -> bool:
    """Return whether a path in the container is on the host, by the job's bind paths; True if unknown."""
    if "$" in path or path.startswith(_IN_CONTAINER):
        return True
    for bind in binds:
        source, _, rest = bind.partition(":")
        destination = rest.partition(":")[0].rstrip("/")
        if destination and f"{path}/".startswith(f"{destination}/"):
            path = f"{source}/{path[len(destination) :].lstrip('/')}"
            break
    return (start / path).exists()


def _find_missing_files(what: str, names: Iterable[str], start: Path) -> Iterator[Fault]:
    for name in names:
        directory = (start / name).parent
        listed = [path.name for path in directory.iterdir()] if directory.is_dir() else []
        near = _nearest(posixpath.basename(name), listed)
        place = posixpath.dirname(name)
        cure = f"Did you mean {posixpath.join(place, near[0])}?" if near else f"Looked in {directory.absolute()}."
        yield f"{what} {name} not found", cure


def _nearest(name: str, known: Sequence[str]) -> list[str]:
    """Return the known name most similar to a wrong one, if any is similar."""
    from difflib import get_close_matches  # slow to import, and seldom needed

    return get_close_matches(name, known, n=1)


def _read_image(installed: Installed, paths: Sequence[str], environ: Mapping[str, str]) -> ImageCommands | None:
    """Return the commands of the image; None if they are incomplete because packages of the user may add more."""
    image = Path(installed.image.path)
    packages = find_packages(installed.root, installed.record.own_packages, environ)
    if not image.is_file() or packages.is_file():
        return None
    from hpcmod.images import Sif

    try:
        return Sif(image).commands([path for path in paths if path.startswith("/")])
    except HpcmodError:  # the checks of the image report the error
        return None


def _find_missing_command(name: str, image: ImageCommands, installed: Installed) -> Iterator[Fault]:
    own = ("runscripts/*", "runscripts/bin/*", "user-software/venv/*/bin/*")
    known = {path.name for pattern in own for path in installed.root.glob(pattern)}
    # a directory that is missing in the image may be bound from the host, with the host's programs
    known |= {path.name for place in image.absent for path in Path(place).glob("*")} | image.names
    if name not in known:
        near = _nearest(name, sorted(known))
        add = f"If it is in a Python package, add that: hpcmod add {installed.module} {name}"
        cure = f"Did you mean {near[0]}?" if near else add
        yield f"command {name} not found in {installed.module}", cure
