"""The directory of one build: what an engine leaves is in it, and goes with it, also after a kill -9.

An engine runs in a session of its own, whose number is noted here: the next build kills leftover processes.
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

from hpcmod.errors import HpcmodError, LackingError
from hpcmod.fs.temporary import PRIVATE, is_private
from hpcmod.process import follow, run, which

ELSEWHERE = "build elsewhere: HPCMOD_BUILD_DIR=DIRECTORY"
"""What puts a build on another disk, as the end of a sentence."""

_SESSION = "session"
_RUNROOT_LIMIT = 50  # bytes, of podman and buildah 1.28: longer names make a socket's path too long
_REMOVERS = (
    ("buildah", "unshare", "rm", "-rf"),
    ("podman", "unshare", "rm", "-rf"),
    ("unshare", "--user", "--map-root-user", "--map-auto", "rm", "-rf"),
)
_ENDING = 20.0  # seconds that killed processes have to go
_KEPT_LINES = 40
_STEP = re.compile(r"(?:STEP \S+ RUN|#\d+ \[.*\] RUN|\+) .*\bbash /\S*/(\d\d-[a-z0-9-]+)\.sh")
"""What buildah and podman, docker, and the shell of a definition file's %post say when they begin a component."""


@dataclass(frozen=True)
class Place:
    """Where one build happens."""

    directory: Path
    """All that is intermediate; nobody else writes here while the lock of the build is held."""
    runroot: Path
    """A directory with a short name, for the sockets of engines."""
    environ: Mapping[str, str]
    """Of the programs that are run."""
    tell: Callable[[str], None] = lambda _: None
    """Called with a line for the user for each step of the build."""
    said: list[str] = field(default_factory=list)
    """The last lines that an engine said."""
    steps: list[str] = field(default_factory=list)
    """Number and name of each component that was begun, e.g. `03-mpich`."""

    @property
    def step(self) -> str:
        """Which component runs, or ran last; empty before the first."""
        return self.steps[-1] if self.steps else ""

    @property
    def context(self) -> Path:
        """The build context."""
        return self.directory / "context"

    @property
    def temporary(self) -> Path:
        """What engines have for temporary files."""
        return self.directory / "tmp"

    @property
    def log(self) -> Path:
        """All that the engine said."""
        return self.directory / "build.log"

    def run(self, argv: Sequence[str], *, cwd: Path | None = None) -> int:
        """Run a program of an engine to its end; what it says goes to the log, and its steps to the user."""
        self.said.clear()
        return follow(
            argv,
            log=self.log,
            env=self.environ,
            cwd=cwd or self.directory,
            on_start=self._note_session,
            on_line=self._hear,
        )

    def has_said(self, text: str) -> bool:
        """Return whether the engine has said this."""
        return text.encode() in self.log.read_bytes()

    def quietly(self, argv: Sequence[str]) -> None:
        """Run a program that tidies up; whether it has something to tidy up is not asked."""
        with contextlib.suppress(LackingError):
            run(argv, env=self.environ, timeout=60)

    def _note_session(self, number: int) -> None:
        (self.directory / _SESSION).write_text(f"{number} {_start_of(number)} {_boot()}")

    def _hear(self, line: str) -> None:
        self.said.append(line)
        del self.said[:-_KEPT_LINES]
        step = _STEP.match(line)
        if step and step.group(1) != self.step:
            self.steps.append(step.group(1))
            self.tell(f"step {step.group(1)}")


def build_directory(parent: Path, name: str) -> Path:
    """Return the directory of a build, named after what is built, so that the next build of the same finds it."""
    return parent / f".{name}.hpcmod-build"


@contextlib.contextmanager
def open_place(
    parent: Path, name: str, environ: Mapping[str, str], *, tell: Callable[[str], None] = lambda _: None
) -> Iterator[Place]:
    """Return a new, empty place; what an earlier build left is cleared first, and the place goes when the block ends.

    Parameters
    ----------
    parent
        The directory to make it in.
    name
        Of what is built: only one process at a time may build it.

    Raises
    ------
    LackingError
        If what an earlier build left cannot be removed.
    """
    directory = build_directory(parent, name)
    clear_place(directory, environ)
    runroot = _runroot(directory, environ)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=PRIVATE)
        # XDG_RUNTIME_DIR stays: the logins of registries are there
        place = Place(directory, runroot, {**environ, "TMPDIR": str(directory / "tmp")}, tell)
        for needed in (place.context, place.temporary, runroot):
            needed.mkdir(mode=0o700)
        yield place
    finally:
        clear_place(directory, environ)


def clear_place(directory: Path, environ: Mapping[str, str]) -> None:
    """Remove a place, and end what still runs in it; only the holder of the build's lock may.

    Raises
    ------
    LackingError
        If it cannot be removed, or is another user's: both names can be guessed, and may be in a directory for all.
    """
    runroot = _runroot(directory, environ)
    _check_ours(runroot)
    _check_ours(directory, is_private)
    _end_session(directory / _SESSION)
    for path in (runroot, directory):
        remove_tree(path, environ)


def _check_ours(path: Path, is_ours: Callable[[os.stat_result], bool] = lambda _: True) -> None:
    """Refuse what another user has put there, or renamed: its note would have us end our own processes."""
    with contextlib.suppress(FileNotFoundError):
        status = path.lstat()
        if status.st_uid != os.geteuid():
            raise LackingError(f"{path}: belongs to the user {status.st_uid}", f"Have it removed, or {ELSEWHERE}.")
        if not is_ours(status):
            raise LackingError(
                f"{path}: is not a directory that hpcmod made for a build", f"Rename or remove it, or {ELSEWHERE}."
            )


def remove_tree(path: Path, environ: Mapping[str, str]) -> None:
    """Remove a directory with all in it, whoever of our subordinate users owns it.

    Raises
    ------
    LackingError
        If it cannot be removed.
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
        raise LackingError(f"{path}: cannot be removed", f"Remove it by hand: buildah unshare rm -rf {path}")


def _open_and_try_again(function: Callable[..., object], path: str, _: object) -> None:
    """Take a second try at what an image's permissions forbid: its directories may be read-only."""
    with contextlib.suppress(OSError):
        parent = os.path.dirname(path)  # noqa: PTH120 - of what shutil gives, a text
        os.chmod(parent, stat.S_IMODE(os.lstat(parent).st_mode) | stat.S_IRWXU)  # noqa: PTH101
        if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
            os.chmod(path, stat.S_IRWXU)  # noqa: PTH101
            shutil.rmtree(path, ignore_errors=True)
        else:
            function(path)


def _unmount_below(path: Path) -> None:
    """Take away what root's engines mounted and did not live to take away; those of others are in a namespace."""
    if os.geteuid() != 0:
        return
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split()[4] for line in lines]
    for point in reversed([point for point in points if f"{point}/".startswith(f"{path}/")]):
        run(["umount", "-l", point])


def _runroot(directory: Path, environ: Mapping[str, str]) -> Path:
    """Return the directory for sockets: a short name, the same for the same place, so that the next build finds it."""
    name = f"hpcmod-{os.getuid()}-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]}"
    parent = environ.get("XDG_RUNTIME_DIR") or "/tmp"  # noqa: S108 - the name is ours, and mkdir refuses one that is there
    if len(os.fsencode(parent)) + len(name) >= _RUNROOT_LIMIT or not os.access(parent, os.W_OK):
        parent = "/tmp"  # noqa: S108
    return Path(parent, name)


def _end_session(note: Path) -> None:
    """End what still runs of the engine that an earlier build started."""
    try:
        number, started, boot = note.read_text().split(" ")
        session = int(number)
    except (OSError, ValueError):
        return
    # the number is another process's by now, or was given on another machine that sees this disk
    if _start_of(session) not in ("", started) or boot != _boot():
        return
    until = time.monotonic() + _ENDING
    while (left := list(_members(session))) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    if left:
        raise HpcmodError(f"processes of an earlier build do not end: {left}", "Look at them with ps, and end them.")


def _members(session: int) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        fields = _stat(path)
        if fields and fields[3] == str(session) and fields[0] not in "ZX":
            yield int(path.parent.name)


def _start_of(pid: int) -> str:
    """Return the start of a process in clock ticks since boot; empty if there is none."""
    fields = _stat(Path(f"/proc/{pid}/stat"))
    return fields[19] if fields and fields[0] not in "ZX" else ""


def _boot() -> str:
    """Tell this start of this machine from all others."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _stat(path: Path) -> list[str]:
    """Read the fields of a process from its state on; its name, which may hold anything, stands before."""
    try:
        return path.read_text().rpartition(")")[2].split()
    except OSError:
        return []
