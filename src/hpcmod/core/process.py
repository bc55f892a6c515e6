"""Run other programs, with argv lists and never a shell string; no other module does."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from hpcmod.core.errors import LackingError
from hpcmod.core.log import CommandLine, Logger
from hpcmod.core.which import which

_LOG = Logger(__name__)

_LOOK = 0.5  # seconds after which a silent program is checked
_PATIENCE = 10  # seconds that a program has to clean up after it is asked to end
_TIE = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGTERM: linux/prctl.h
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[3:])
"""
"""Runs a program that gets SIGTERM when the process that started it dies, even of SIGKILL."""


class Completed(NamedTuple):
    """Result of a program: its exit status and its output as text."""

    status: int
    stdout: str
    stderr: str


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    timeout: float | None = None,
    cwd: Path | None = None,
    tied: bool = False,
    shows_errors: bool = False,
) -> Completed:
    """Run a program to its end and return its result; the caller checks the exit status.

    `argv`: Program and arguments; the program is looked up on PATH.
    `env`: The program's complete environment; None for our own.
    `stdin`: The program's standard input; None for our own.
    `timeout`: Seconds after which the program is killed.
    `cwd`: The program's working directory; None for our own.
    `tied`: Whether the program ends with this process: it leads a session, which is ended on any exception, and gets
        SIGTERM when this process is killed.
    `shows_errors`: Whether its stderr is our own, and not in the result. Programs that it leaves running may keep that
        open.

    Raises LackingError if the program is not on this machine, or did not end in time.
    """
    began = time.monotonic()
    child = _start(
        argv,
        env=env,
        cwd=cwd,
        tied=tied,
        stdin=None if stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if shows_errors else subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=tied,
    )
    with child:
        try:
            stdout, stderr = child.communicate(stdin, timeout=timeout)
        except BaseException as err:
            if tied:
                _end_group(child)
            child.kill()
            if isinstance(err, subprocess.TimeoutExpired):
                raise LackingError(f"{argv[0]} did not end within {timeout} s") from err
            raise
    _LOG.debug("%s ended with status %d after %.1f s", argv[0], child.returncode, time.monotonic() - began)
    return Completed(child.returncode, stdout, stderr or "")


def call(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: int | None = None,
    tied: bool = False,
    to_stderr: bool = False,
) -> int:
    """Run a program on our own terminal to its end and return its exit status.

    `cwd`, `tied`: As for `run`; it stays in our session, where it receives Ctrl-C itself.
    `stdin`: Descriptor of its standard input; None for our own.
    `to_stderr`: Whether its stdout goes to stderr, because stdout is reserved for our own data.

    Raises LackingError if the program is not on this machine.
    """
    stdout = sys.stderr.fileno() if to_stderr else None
    with _start(argv, env=env, cwd=cwd, tied=tied, stdin=stdin, stdout=stdout) as child:
        try:
            status = child.wait()
        except BaseException as err:
            if not isinstance(err, KeyboardInterrupt):  # the terminal has sent that to the program too
                child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=_PATIENCE)
            child.kill()
            raise
    _LOG.debug("%s ended with status %d", argv[0], status)
    return status


def _start(
    argv: Sequence[str], *, env: Mapping[str, str] | None, cwd: Path | None, tied: bool, **how: Any
) -> subprocess.Popen[Any]:
    environ = os.environ if env is None else env
    program = argv[0] if "/" in argv[0] else which(argv[0], environ)
    if program is None:
        raise _cannot_start(argv[0], FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
    _LOG.debug("run %s in %s", CommandLine([program, *argv[1:]]), cwd or Path.cwd())
    tie = [sys.executable, "-I", "-S", "-c", _TIE, str(os.getpid()), program] if tied else []
    try:
        return subprocess.Popen([*tie, *argv], executable=None if tied else program, env=env, cwd=cwd, **how)
    except OSError as err:
        raise _cannot_start(argv[0], err) from err


def follow(
    argv: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str],
    cwd: Path,
    on_start: Callable[[int], None] = lambda _: None,
    on_line: Callable[[str], None] = lambda _: None,
    tied: bool = False,
) -> int:
    """Run a long program in its own session, write all its output to a log, and return its exit status.

    `log`: File to which the program's stdout and stderr are appended as they arrive.
    `on_start`: Called with the process ID, which is also the session ID.
    `on_line`: Called with each line; an exception from it ends the program and everything it started, as Ctrl-C does.
    `tied`: Whether the program gets SIGTERM when this process is killed.

    Raises LackingError if the program is not on this machine.
    """
    child = _start(
        argv,
        env=env,
        cwd=cwd,
        tied=tied,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    with child, log.open("ab", buffering=0) as file:  # unbuffered, so that readers of the log see the current state
        try:
            on_start(child.pid)
            for line in _lines(child):
                file.write(line)
                on_line(line.decode(errors="replace").rstrip())
        except BaseException:
            _end_group(child)
            raise
        status = child.wait()
        _LOG.debug("%s ended with status %d; its output is in %s", argv[0], status, log)
        return status


def _lines(child: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Yield a program's lines until it has ended: a process that it left running may keep its output open forever."""
    pipe, rest = child.stdout.fileno() if child.stdout else -1, b""
    while True:
        ended = child.poll() is not None
        there = select.select([pipe], [], [], 0 if ended else _LOOK)[0]
        block = os.read(pipe, 1 << 16) if there else b""
        *lines, rest = (rest + block).split(b"\n")
        yield from (line + b"\n" for line in lines)
        if not block and (there or ended):
            break
    if rest:
        yield rest


def _end_group(child: subprocess.Popen[bytes]) -> None:
    """End a program that leads a session and everything it started; it has some time to clean up."""
    _signal_group(child.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=_PATIENCE)
    _signal_group(child.pid, signal.SIGKILL)
    if child.stdout:
        child.stdout.close()


def _signal_group(number: int, sent: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(number, sent)


def become(argv: Sequence[str]) -> NoReturn:
    """Replace this process by a program, so that signals and the terminal go to it directly.

    Raises LackingError if the program is not on this machine.
    """
    _LOG.debug("become %s", CommandLine(argv))
    try:
        os.execv(argv[0] if "/" in argv[0] else which(argv[0], os.environ) or argv[0], list(argv))  # noqa: S606 - no shell
    except OSError as err:
        raise _cannot_start(argv[0], err) from err


def _cannot_start(program: str, err: OSError) -> LackingError:
    return LackingError(f"{program} cannot be started: {err.strerror}", f"Install {program}, or add it to PATH.")
