"""The workspace of one build: a directory for everything an engine writes, removed even after a kill -9.

An engine runs in its own session, whose id is recorded here: the next build kills leftover processes.
Files of a rootless engine may belong to subordinate users, so that only a user namespace can remove them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hpcmod.core.errors import HpcmodError, LackingError
from hpcmod.core.fs.temporary import PRIVATE, is_private, start_of
from hpcmod.core.process import follow, run
from hpcmod.core.which import which

ELSEWHERE = "build elsewhere: HPCMOD_BUILD_DIR=DIRECTORY"
"""How to build on another disk, as the end of a sentence."""

_SESSION = "session"
_RUNROOT_LIMIT = 50  # bytes; podman and buildah 1.28: longer paths make a socket's path too long
_REMOVERS = (
    ("buildah", "unshare", "rm", "-rf"),
    ("podman", "unshare", "rm", "-rf"),
    ("unshare", "--user", "--map-root-user", "--map-auto", "rm", "-rf"),
)
_ENDING = 20.0  # seconds to wait for killed processes
_KEPT_LINES = 40
_STEP = re.compile(r"(?:STEP \S+ RUN|#\d+ \[.*\] RUN|\+) .*\bbash /\S*/(\d\d-[a-z0-9-]+)\.sh")
"""Printed by buildah and podman, docker, and the shell of a definition file's %post when a component starts."""


@dataclass(frozen=True)
class Workspace:
    """The workspace of one build."""

    directory: Path
    """Intermediate files; no other process writes here while the build's lock is held."""
    runroot: Path
    """A directory with a short path, for the engine's sockets."""
    environ: Mapping[str, str]
    """Environment of the engine's processes."""
    tell: Callable[[str], None] = lambda _: None
    """Called with a message for the user at each step of the build."""
    said: list[str] = field(default_factory=list)
    """The engine's last output lines."""
    steps: list[str] = field(default_factory=list)
    """Number and name of each component that has started, e.g. `03-mpich`."""

    @property
    def step(self) -> str:
        """The component that runs or ran last; empty before the first."""
        return self.steps[-1] if self.steps else ""

    @property
    def context(self) -> Path:
        """The build context."""
        return self.directory / "context"

    @property
    def temporary(self) -> Path:
        """Directory for the engine's temporary files."""
        return self.directory / "tmp"

    @property
    def log(self) -> Path:
        """The engine's complete output."""
        return self.directory / "build.log"

    def run(self, argv: Sequence[str], *, cwd: Path | None = None) -> int:
        """Run an engine's program, log its output, report its steps to the user, and return the exit status."""
        self.said.clear()
        with follow(argv, env=self.environ, cwd=cwd or self.directory) as program:
            note = f"{program.session} {start_of(program.session)} {_boot()}"
            (self.directory / _SESSION).write_text(note)
            for line in program.lines(self.log):
                self._hear(line)
        return program.status

    def _hear(self, line: str) -> None:
        self.said.append(line)
        del self.said[:-_KEPT_LINES]
        step = _STEP.match(line)
        if step and step.group(1) != self.step:
            self.steps.append(step.group(1))
            self.tell(f"step {step.group(1)}")


def build_directory(parent: Path, name: str) -> Path:
    """Return the workspace directory, named after the image so that the next build of the same image finds it."""
    return parent / f".{name}.hpcmod-build"


@contextlib.contextmanager
def open_workspace(
    parent: Path, name: str, environ: Mapping[str, str], *, tell: Callable[[str], None] = lambda _: None
) -> Iterator[Workspace]:
    """Create an empty workspace; remove leftovers of an earlier build first, and the workspace at the end of the block.

    `parent`: Directory in which it is created.
    `name`: Name of the image: only one process at a time may build it.

    Raises LackingError if leftovers of an earlier build cannot be removed.
    """
    directory = build_directory(parent, name)
    remove_workspace(directory, environ)
    runroot = _runroot(directory, environ)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=PRIVATE)
        # keep XDG_RUNTIME_DIR, which has the registry logins
        workspace = Workspace(directory, runroot, {**environ, "TMPDIR": str(directory / "tmp")}, tell)
        for path in (workspace.context, workspace.temporary, runroot):
            path.mkdir(mode=0o700)
        yield workspace
    finally:
        remove_workspace(directory, environ)


def remove_workspace(directory: Path, environ: Mapping[str, str]) -> None:
    """Remove a workspace and kill its remaining processes; the caller must hold the build's lock.

    Raises LackingError if it cannot be removed, or belongs to another user, who can guess its name in a shared
    directory.
    """
    runroot = _runroot(directory, environ)
    _check_ours(runroot)
    _check_ours(directory, is_private)
    _end_session(directory / _SESSION)
    for path in (runroot, directory):
        remove_tree(path, environ)


def _check_ours(path: Path, is_ours: Callable[[os.stat_result], bool] = lambda _: True) -> None:
    """Raise LackingError if another user made or moved the directory: its session id could make us kill processes."""
    with contextlib.suppress(FileNotFoundError):
        status = path.lstat()
        if status.st_uid != os.geteuid():
            raise LackingError(f"{path}: belongs to user {status.st_uid}", f"Ask them to remove it, or {ELSEWHERE}.")
        if not is_ours(status):
            raise LackingError(f"{path}: not a build directory of hpcmod", f"Rename or remove it, or {ELSEWHERE}.")


def remove_tree(path: Path, environ: Mapping[str, str]) -> None:
    """Remove a directory tree, including files of our subordinate users.

    Raises LackingError if it cannot be removed.
    """
    if path.is_symlink():
        path.unlink()
    if not path.exists():
        return
    _unmount_below(path)
    shutil.rmtree(path, onerror=_open_and_try_again)
    for remover in _REMOVERS:
        if not path.exists():
            return
        if which(remover[0], environ):
            run([*remover, os.fspath(path)], env=environ)
    if path.exists():
        raise LackingError(f"{path}: cannot be removed", f"Remove it manually: buildah unshare rm -rf {path}")


def _open_and_try_again(function: Callable[..., object], path: str, _: object) -> None:
    """Make the directory writable and retry, because directories of images may be read-only."""
    with contextlib.suppress(OSError):
        parent = os.path.dirname(path)  # noqa: PTH120 - shutil passes a string
        os.chmod(parent, stat.S_IMODE(os.lstat(parent).st_mode) | stat.S_IRWXU)  # noqa: PTH101
        if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
            os.chmod(path, stat.S_IRWXU)  # noqa: PTH101
            shutil.rmtree(path, ignore_errors=True)
        else:
            function(path)


def _unmount_below(path: Path) -> None:
    """Unmount what a killed engine of root left mounted; rootless engines mount in their own namespace."""
    if os.geteuid() != 0:
        return
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split()[4] for line in lines]
    for point in reversed([point for point in points if f"{point}/".startswith(f"{path}/")]):
        run(["umount", "-l", point])


def _runroot(directory: Path, environ: Mapping[str, str]) -> Path:
    """Return the directory for sockets: a short path derived from the workspace, so that the next build finds it."""
    name = f"hpcmod-{os.getuid()}-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]}"
    parent = environ.get("XDG_RUNTIME_DIR") or "/tmp"  # noqa: S108 - mkdir fails if it exists
    if len(os.fsencode(parent)) + len(name) >= _RUNROOT_LIMIT or not os.access(parent, os.W_OK):
        parent = "/tmp"  # noqa: S108
    return Path(parent, name)


def _end_session(note: Path) -> None:
    """Kill the remaining processes of the engine of an earlier build."""
    try:
        number, started, boot = note.read_text().split(" ")
        session = int(number)
    except (OSError, ValueError):
        return
    # the id now belongs to another process, or to a process on another machine that shares this disk
    if start_of(session) not in ("", "ended", started) or boot != _boot():
        return
    until = time.monotonic() + _ENDING
    while (left := list(_members(session))) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    if left:
        raise HpcmodError(
            f"processes of an earlier build are still running: {left}", "Check them with ps, and kill them."
        )


def _members(session: int) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if fields[3] == str(session) and fields[0] not in "ZX":
                yield int(path.parent.name)


def _boot() -> str:
    """Return the boot id of this machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
