"""Capture the host's network libraries: find them with their dependencies, and copy all into one directory."""

from __future__ import annotations

import glob
import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from hpcmod.compat.host_stack import files_of_host, read_search
from hpcmod.compat.inspect.files import ContainerFiles
from hpcmod.compat.values.loader import Search, find_closure, find_library
from hpcmod.compat.values.netstack import (
    RECORD,
    Capture,
    CapturedLibrary,
    Root,
    make_capture,
    original,
    parse_netstack,
    render_record,
)
from hpcmod.core.clock import now_text
from hpcmod.core.errors import BadInputError, LackingError, NoSpaceError, NotFoundError, explain_os_error
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.fs.copying import copy_file
from hpcmod.core.fs.reading import read_file
from hpcmod.core.fs.replacing import replacing_directory
from hpcmod.core.fs.temporary import clear_leftovers
from hpcmod.core.fs.tree import write_file
from hpcmod.core.lock import hold
from hpcmod.core.progress import Progress
from hpcmod.core.text.quote import sh_word
from hpcmod.machine.values.bind import ON_HOST, version_key

_LIMIT = 16 << 20  # bytes; size limit of a capture's record


def plan_capture(asked: Sequence[str], environ: Mapping[str, str], *, leave_out: Sequence[str] = ()) -> Capture:
    """Find libraries and their dependencies as this machine's loader does; nothing is run or written.

    `asked`: Paths, patterns (the newest match is used), or names that the loader finds.
    `environ`: LD_LIBRARY_PATH is taken from it.
    `leave_out`: Names of libraries that the container gets elsewhere, like glibc's; `*` matches any characters.

    Raises NotFoundError if a library is not on this machine; BadInputError if a file is not a dynamic ELF file, or a
    damaged one would stop the loader.
    """
    files, search = files_of_host(), read_search(environ)
    named = [os.path.abspath(each) if "/" in each else each for each in asked]  # noqa: PTH100 - its links are to stay
    roots = [Root(each, _find_root(each, files, search)) for each in named]
    for root in roots:
        _check_root(root.path, files)
    closure = find_closure([root.path for root in roots], files, search)
    for path, why in files.broken.items():
        raise BadInputError(
            f"{path}: {why}; this machine's own loader would fail on it",
            "Fix or remove the file, or remove its directory from LD_LIBRARY_PATH.",
        )
    planned = make_capture(roots, closure, leave_out=leave_out)
    sized = tuple(replace(library, size=Path(library.source).stat().st_size) for library in planned.libraries)
    return replace(planned, libraries=sized, library_path=search.library_path, host=_describe_host())


def _find_root(asked: str, files: ContainerFiles, search: Search) -> str:
    """Find a requested library or program."""
    if "/" in asked:
        pattern = asked.replace("[", "[[]")  # as in a profile, only `*` and `?` are special
        fits = [path for path in glob.glob(pattern) if Path(path).is_file()]  # noqa: PTH207 - it is absolute
        path = max(fits, key=version_key, default="")
    else:
        path = find_library(asked, files, search)
    if not path:
        raise NotFoundError(
            f"{asked}: not found on this machine",
            "Load the module that provides it (LD_LIBRARY_PATH is searched), or give the path: "
            "hpcmod site netstack capture /path/libfabric.so.1",
        )
    return path


def _check_root(path: str, files: ContainerFiles) -> None:
    elf = files.elf(path)
    if elf is None and not os.access(path, os.R_OK):
        raise BadInputError(f"{path}: permission denied", f"Check its permissions: ls -l {sh_word(path)}")
    if elf is None or not elf.has_dynamic:
        why = files.broken.get(path, "statically linked")
        raise BadInputError(
            f"{path}: neither a shared library nor a dynamically linked program: {why}",
            "Give the name of a shared library, e.g. libfabric.so.1",
        )


def _describe_host() -> tuple[tuple[str, str], ...]:
    release = Path("/etc/os-release")
    text = release.read_text(encoding="utf-8", errors="replace") if release.is_file() else ""
    name = re.search(r'^PRETTY_NAME="?(.*?)"?$', text, re.MULTILINE)
    return (
        ("os", name[1] if name else ""),
        ("kernel", platform.release()),
        ("machine", platform.machine()),
        ("name", platform.node()),
    )


def write_capture(
    capture: Capture, out: Path, *, tell: Callable[[str], None], progress: Progress | None = None
) -> tuple[Path, bool]:
    """Copy the planned libraries into a new directory below `out`; return its path, and whether it is new.

    If the newest directory there already has the same content, it is returned instead. A new directory is created
    under a temporary name; leftovers of interrupted captures are removed.

    Raises HpcmodError if a library changes while it is read, does not fit on the disk, or the directory is not
    writable; BadInputError if a name is not valid Unicode and so cannot be recorded.
    """
    parse_netstack(render_record(capture, time="").encode(), "the capture")
    with _own_cure(out):
        out.mkdir(parents=True, exist_ok=True)
        with hold(out / ".hpcmod-lock", tell=tell):
            clear_leftovers(out, alone=True)
            hashed = (replace(library, sha256=file_sha256(library.source)) for library in capture.libraries)
            complete = replace(capture, libraries=tuple(hashed))
            newest = next(iter(captured_directories(out)), None)
            if newest and _holds(newest, complete):
                return newest, False
            final = _free_name(out / _name_by_time(capture))
            with replacing_directory(final) as partial:
                _fill(partial, complete, progress)
    return final, True


@contextmanager
def _own_cure(out: Path) -> Iterator[None]:
    """Replace the cure of disk errors: here, no installation is involved."""
    try:
        yield
    except (OSError, NoSpaceError) as fault:
        err = explain_os_error(fault) if isinstance(fault, OSError) else fault
        err.cure = "Choose a directory that is writable and has space: hpcmod site netstack capture --output DIRECTORY"
        raise err from fault


def captured_directories(out: Path) -> list[Path]:
    """Return the captured directories below a directory, newest first."""
    directories = [path.parent for path in out.glob(f"[!.]*/{RECORD}")]
    return sorted(directories, key=lambda path: version_key(str(path)), reverse=True)


def _holds(directory: Path, capture: Capture) -> bool:
    try:
        known = read_capture(directory)
    except (BadInputError, LackingError):
        return False
    return _contents(known) == _contents(capture) and all(is_whole(directory, library) for library in known.libraries)


def is_whole(directory: Path, library: CapturedLibrary) -> bool:
    """Return whether a captured directory has a library unchanged, with all its names pointing to it."""
    file = directory / library.file
    names = (directory / name for name in (library.file, *library.links))
    return all(name.is_file() and name.samefile(file) for name in names) and file_sha256(file) == library.sha256


def _contents(capture: Capture) -> set[tuple[str, tuple[str, ...], str]]:
    return {(library.file, library.links, library.sha256) for library in capture.libraries}


def _free_name(wanted: Path) -> Path:
    final, number = wanted, 2
    while final.exists():
        final, number = wanted.with_name(f"{wanted.name}-{number}"), number + 1
    return final


def _fill(directory: Path, capture: Capture, progress: Progress | None) -> None:
    total, done = sum(library.size for library in capture.libraries), 0
    for library in capture.libraries:
        copy_file(library.source, directory / library.file, checksum=library.sha256)
        for link in library.links:
            (directory / link).symlink_to(library.file)
        done += library.size
        if progress:
            progress(done, total)
    (directory / ON_HOST).symlink_to(original(capture))
    write_file(directory / RECORD, render_record(capture, time=now_text()))
    directory.chmod(0o755)  # regardless of the umask: users of the module need it


def _name_by_time(capture: Capture) -> str:
    """Return a directory name that sorts by time of capture: timestamp and first library."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return f"{stamp}-{re.sub(r'[^A-Za-z0-9._+-]', '_', capture.libraries[0].file)}"


def read_capture(directory: Path) -> Capture:
    """Read the record of a captured directory.

    Raises NotFoundError if there is none; BadInputError if it is invalid; LackingError if it is not readable.
    """
    path = directory / RECORD
    try:
        return parse_netstack(read_file(path, _LIMIT), str(path))
    except (FileNotFoundError, NotADirectoryError) as err:
        raise NotFoundError(
            f"{directory} was not created by `hpcmod site netstack capture`: it has no {RECORD}",
            "Give a captured directory, or create one: hpcmod site netstack capture --output DIRECTORY",
        ) from err
    except BadInputError as err:
        err.cure = err.cure or "Capture the libraries again: hpcmod site netstack capture --output DIRECTORY"
        raise
    except PermissionError as err:
        raise LackingError(
            f"{path}: {err.strerror}", f"Ask its owner for read access: ls -l {sh_word(str(path))}"
        ) from err
