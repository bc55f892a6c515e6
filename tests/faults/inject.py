"""Run a command under strace: list the system calls with which it writes, then make one of them fail or kill it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults.kinds import KILL
from tests.faults.places import MARK, Shim

WRITES = (
    *("write", "pwrite64", "writev", "copy_file_range", "sendfile", "ftruncate", "fallocate", "fsync", "fdatasync"),
    *("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "mkdir", "mkdirat", "unlink"),
    *("unlinkat", "rmdir", "chmod", "fchmod", "fchmodat", "chown", "fchown", "fchownat", "utimensat"),
)
"""System calls that change a file system; calls that create a file by opening it are detected by their flags."""

ON_FILES = (
    *("write", "sendfile", "pwrite64", "writev", "ftruncate"),
    *("fallocate", "fsync", "fdatasync", "fchmod", "fchown"),
)
"""Those whose first argument is an open file."""

OPENS = ("openat", "open")

LIMIT = 300.0
"""Seconds after which a run counts as stuck."""

_OURS = re.compile(r'"/proc/(self|\d+)/fd/\d+|/\.hpcmod-')  # paths through open directories; temporary files
_UNUSED = re.compile(r'AT_FDCWD<[^>]*>(?=, "/)')  # the working directory, before an absolute path
_LINE = re.compile(r"((?P<pid>\d+) +)?(?P<call>\w+)\((?P<arguments>.*)")


@dataclass(frozen=True)
class Point:
    """One system call of a run: the n-th with its name in its thread, or at its place in its process."""

    call: str
    number: int
    """Counted from 1: in each thread, as strace counts, or, if it has a place, in each process at this place."""
    what: str
    """Its arguments, for people to read."""
    place: str = ""
    """ID of the Python lines that make the call; empty if it was not made from Python."""
    lines: str = ""
    """Those lines, for people to read; without any, the program and the file without digits."""


@dataclass(frozen=True)
class Ran:
    """Result of a run."""

    status: int
    """Exit status; negative: minus the number of the signal that ended it, or STUCK."""
    output: str


STUCK = -1000
"""Status of a run that did not end in time."""


def find_points(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    below: Path,
    log: Path,
    children: bool = True,
    shim: Shim | None = None,
) -> list[Point]:
    """Run a command without a fault, and list its system calls that write below a directory.

    `children`: Whether to include those of its threads and child processes.
    `shim`: Finds the places of the calls; without it, points have none.

    Raises RuntimeError if the command fails.
    """
    options = ["-y", "-e", f"trace={','.join((*WRITES, *OPENS, 'faccessat', 'execve'))}", "-o", str(log)]
    variables = shim.recording() if shim else {}
    options += [word for name, value in variables.items() for word in ("-E", f"{name}={value}")]
    done = run_traced(argv, options, env=env, cwd=cwd, children=children)
    if done.status:
        raise RuntimeError(f"{' '.join(argv)}: {done.status}\n{done.output}")
    text = log.read_text(errors="replace")
    return list(_points_in(text, below, shim.lines() if shim else {}))


def _points_in(log: str, below: Path, lines: Mapping[str, str]) -> Iterator[Point]:
    counts: dict[tuple[str, str], int] = {}
    marks: dict[str, tuple[str, int]] = {}
    programs: dict[str, str] = {}
    seen = set()
    for line in log.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        pid, call, arguments = found["pid"] or "", found["call"], found["arguments"]
        if "/hpcmod-fault-places" in arguments:  # the shim's own calls
            continue
        counts[pid, call] = counts.get((pid, call), 0) + 1
        if call == "execve":
            programs[pid] = arguments.split('"')[1].rpartition("/")[2] if '"' in arguments else ""
        elif mark := MARK.search(arguments) if call == "faccessat" else None:
            marks[pid] = mark["place"], int(mark["number"])
        elif _writes_below(call, arguments, below):
            place, number = marks.pop(pid, ("", counts[pid, call]))
            where = lines.get(place) or f"{call} of {programs.get(pid, 'a child')}: {_without_digits(arguments, below)}"
            if (place or call, number) not in seen:
                seen.add((place or call, number))
                yield Point(call, number, arguments[:120], place, where)


def _writes_below(call: str, arguments: str, below: Path) -> bool:
    creates = call in WRITES or (call in OPENS and "O_CREAT" in arguments)
    if call in ON_FILES:  # ignore the data, which may be a message with a path
        arguments = arguments.partition(",")[0]
    arguments = _UNUSED.sub("", arguments)
    return creates and (str(below) in arguments or bool(_OURS.search(arguments)))


def _without_digits(arguments: str, below: Path) -> str:
    """Return the file in a call's arguments, without the parts of its name that vary between runs."""
    name = re.search(rf"{re.escape(str(below))}([^\">]*)", arguments)
    return re.sub(r"[0-9a-f]{16,}|\d+", "#", name[1]) if name else ""


def run_with_fault(
    argv: Sequence[str], point: Point, fault: str, *, env: Mapping[str, str], cwd: Path, children: bool = True
) -> Ran:
    """Run a command under strace, and make one of its system calls fail or kill the calling process.

    The fault also occurs at the call with this number in each child process; `Shim.failing` injects it only once.
    """
    how = f"signal={KILL}" if fault == KILL else f"error={fault}"
    options = ["-e", f"trace={point.call}", "-e", f"inject={point.call}:{how}:when={point.number}", "-o", os.devnull]
    return run_traced(argv, options, env=env, cwd=cwd, children=children, stop_at_all=fault == KILL)


def run_traced(
    argv: Sequence[str],
    options: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    children: bool = True,
    stop_at_all: bool = False,
) -> Ran:
    """Run a command under strace, with or without its children.

    `stop_at_all`: Whether to stop at every system call; otherwise strace 6.1 does not deliver injected signals.
    """
    follow = ["-f", *([] if stop_at_all else ["--seccomp-bpf"])] if children else []
    return run_plainly(["strace", *follow, "-qq", "-e", "signal=none", *options, *argv], env=env, cwd=cwd)


def run_plainly(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> Ran:
    """Run a command in its own process group; stdout and stderr together."""
    with subprocess.Popen(
        argv,
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as started:
        try:
            output = started.communicate(timeout=LIMIT)[0]
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            return Ran(STUCK, started.communicate()[0])
    return Ran(started.returncode, output)
