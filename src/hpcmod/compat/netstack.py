"""Check that captured network libraries are intact, and are still what the host itself would load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hpcmod.compat.install_netstack import is_whole, plan_capture, read_capture
from hpcmod.compat.values.netstack import Capture, CapturedLibrary
from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.finding import FAIL, OK, WARN, Finding


def check_capture(directory: Path) -> Iterator[Finding]:
    """Compare a captured directory with its record, and with what a capture made now would contain.

    Raises NotFoundError if the directory was not created by a capture; BadInputError if its record is damaged;
    LackingError if its record may not be read.
    """
    capture = read_capture(directory)
    cure = _cure(directory, capture)
    yield from _check_copies(directory, capture, cure)
    try:
        now = plan_capture(
            [root.asked for root in capture.roots],
            {"LD_LIBRARY_PATH": ":".join(capture.library_path)},
            leave_out=capture.leave_out,
        )
    except (NotFoundError, BadInputError) as err:
        yield Finding(FAIL, "host", err.message, cure)
        return
    yield from _check_host(capture, now, cure)


def _cure(directory: Path, capture: Capture) -> str:
    left = [word for name in capture.leave_out for word in ("--leave-out", name)]
    words = ["hpcmod", "site", "netstack", "capture", "--output", str(directory.parent), *left]
    loaded = ", with the modules loaded that set LD_LIBRARY_PATH" if capture.library_path else ""
    return f"Capture again{loaded}: {' '.join(map(sh_word, [*words, *(root.asked for root in capture.roots)]))}"


def _check_copies(directory: Path, capture: Capture, cure: str) -> Iterator[Finding]:
    damaged = [library for library in capture.libraries if not is_whole(directory, library)]
    for library in damaged:
        found = "the copy or a link to it is missing, or differs from the captured file"
        yield Finding(FAIL, "copies", found, cure, subject=library.file)
    if not damaged:
        yield Finding(OK, "copies", f"{len(capture.libraries)} libraries in {directory}, all intact")


def _check_host(capture: Capture, now: Capture, cure: str) -> Iterator[Finding]:
    """Compare library by library, by the name that other libraries use."""
    before, after = dict(capture.host), dict(now.host)
    if before.get("os") != after.get("os"):
        yield Finding(WARN, "host", f"is {after.get('os')}, was {before.get('os')} when they were captured")
    stale = [*_stale(capture, now, cure)]
    yield from stale
    if not stale:
        yield Finding(OK, "host", "loads the same libraries")


def _by_name(capture: Capture) -> dict[str, CapturedLibrary]:
    return {library.soname or library.file: library for library in capture.libraries}


def _stale(capture: Capture, now: Capture, cure: str) -> Iterator[Finding]:
    had, has, missing = _by_name(capture), _by_name(now), dict(now.missing)
    for name, library in has.items():
        if name not in had:
            yield Finding(
                FAIL, "host", f"the host now needs {library.source}, which was not captured", cure, subject=name
            )
        elif file_sha256(library.source) != had[name].sha256:
            yield Finding(
                FAIL,
                "host",
                f"stale: captured from {had[name].source}, the host now has another {library.source}",
                cure,
                subject=name,
            )
    for name, wanted_by in now.missing:
        if (name, wanted_by) not in capture.missing:
            yield Finding(FAIL, "host", f"needed by {wanted_by}, and not found on the host", cure, subject=name)
    for name in sorted(had.keys() - has.keys() - missing.keys()):
        yield Finding(
            WARN,
            "host",
            f"captured from {had[name].source}, and no longer needed by the host's libraries",
            cure,
            subject=name,
        )
