"""Run a command under strace: list the system calls with which it writes, then have one of them fail or kill it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

WRITES = (
    *("write", "pwrite64", "writev", "copy_file_range", "sendfile", "ftruncate", "fallocate", "fsync", "fdatasync"),
    *("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "mkdir", "mkdirat", "unlink"),
    *("unlinkat", "rmdir", "chmod", "fchmod", "fchmodat", "chown", "fchown", "fchownat", "utimensat"),
)
"""System calls that change a file system; opening a file to create it is found by its flags."""

OPENS = ("openat", "openat2", "open")

ERRORS = ("EIO", "ENOSPC", "EDQUOT", "ESTALE")
KILL = "KILL"

_LIMIT = 300.0  # seconds after which a run counts as stuck
_DESCRIPTOR = re.compile(r'"/proc/(self|\d+)/fd/\d+')  # hpcmod's paths through open directories; see fs/
_LINE = re.compile(r"((?P<pid>\d+) +)?(?P<call>\w+)\((?P<arguments>.*)")


@dataclass(frozen=True)
class Point:
    """One system call of a run: the n-th of its name in its thread."""

    call: str
    number: int
    """Counted from 1 in each thread, as strace counts."""
    what: str
    """Its arguments, for a person."""


@dataclass(frozen=True)
class Ran:
    """What became of a run."""

    status: int
    """Exit status; negative: the number of the signal that ended it, or STUCK."""
    output: str


STUCK = -1000
"""Status of a run that did not end in time."""


def find_points(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, below: Path, log: Path, children: bool = True
) -> list[Point]:
    """Run a command whole, and list its system calls that write below a directory.

    Parameters
    ----------
    children
        Whether those of its threads and child processes count too.

    Raises
    ------
    RuntimeError
        If the command fails.
    """
    options = ["-y", "-e", f"trace={','.join((*WRITES, *OPENS))}", "-o", str(log)]
    done = run_traced(argv, options, env=env, cwd=cwd, children=children)
    if done.status:
        raise RuntimeError(f"{' '.join(argv)}: {done.status}\n{done.output}")
    counts: dict[tuple[str, str], int] = {}
    points: dict[tuple[str, int], Point] = {}
    for line in log.read_text(errors="replace").splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        key = found["pid"] or "", found["call"]
        counts[key] = counts.get(key, 0) + 1
        creates = found["call"] not in OPENS or "O_CREAT" in found["arguments"]
        if creates and (str(below) in found["arguments"] or _DESCRIPTOR.search(found["arguments"])):
            point = Point(found["call"], counts[key], found["arguments"][:120])
            points.setdefault((point.call, point.number), point)
    return list(points.values())


def run_with_fault(
    argv: Sequence[str], point: Point, fault: str, *, env: Mapping[str, str], cwd: Path, children: bool = True
) -> Ran:
    """Run a command, and have one of its system calls fail with an error, or kill the process that makes it."""
    how = f"signal={KILL}" if fault == KILL else f"error={fault}"
    options = ["-e", f"trace={point.call}", "-e", f"inject={point.call}:{how}:when={point.number}", "-o", os.devnull]
    return run_traced(argv, options, env=env, cwd=cwd, children=children)


def run_traced(
    argv: Sequence[str], options: Sequence[str], *, env: Mapping[str, str], cwd: Path, children: bool = True
) -> Ran:
    """Run a command under strace, with all its children or without."""
    follow = ["-f", "--seccomp-bpf"] if children else []
    return run_plainly(["strace", *follow, "-qq", "-e", "signal=none", *options, *argv], env=env, cwd=cwd)


def run_plainly(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> Ran:
    """Run a command in a process group of its own; stdout and stderr together."""
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
            output = started.communicate(timeout=_LIMIT)[0]
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            return Ran(STUCK, started.communicate()[0])
    return Ran(started.returncode, output)
