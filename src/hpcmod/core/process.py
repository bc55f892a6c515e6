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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from hpcmod.core.errors import LackingError
from hpcmod.core.log import CommandLine, Logger
from hpcmod.core.which import which

_LOG = Logger(__name__)

TO_STDERR = 2
"""Descriptor for the stdout of a program that we `call` while our own stdout is reserved for data."""

_LOOK = 0.5  # seconds after which a silent program is checked
_PATIENCE = 10  # seconds that a program has to clean up after it is asked to end
_TIE = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, int(sys.argv[2]), 0, 0, 0)  # PR_SET_PDEATHSIG: linux/prctl.h
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[3], sys.argv[4:])
"""
"""Runs a program that gets a signal when the process that started it dies, even of SIGKILL."""


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
    tied: bool | signal.Signals = False,
) -> Completed:
    """Run a program to its end and return its result; the caller checks the exit status.

    `argv`: Program and arguments; the program is looked up on PATH.
    `env`: The program's complete environment; None for our own.
    `stdin`: The program's standard input; None for our own.
    `timeout`: Seconds after which the program is killed.
    `cwd`: The program's working directory; None for our own.
    `tied`: Whether the program ends with this process: it leads a session, which is ended on any exception, and gets
        SIGTERM, or the given signal, when this process is killed.

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
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=bool(tied),
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
    return Completed(child.returncode, stdout, stderr)


def call(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: int | None = None,
    stdout: int | None = None,
    tied: bool = False,
) -> int:
    """Run a program on our own terminal to its end and return its exit status.

    `cwd`, `tied`: As for `run`; it stays in our session, where it receives Ctrl-C itself.
    `stdin`, `stdout`: Descriptors of its standard input and output; None for our own.

    Raises LackingError if the program is not on this machine.
    """
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
    argv: Sequence[str], *, env: Mapping[str, str] | None, cwd: Path | None, tied: bool | signal.Signals, **how: Any
) -> subprocess.Popen[Any]:
    environ = os.environ if env is None else env
    program = argv[0] if "/" in argv[0] else which(argv[0], environ)
    if program is None:
        raise _cannot_start(argv[0], FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
    _LOG.debug("run %s in %s", CommandLine([program, *argv[1:]]), cwd or environ.get("PWD"))
    sent = signal.SIGTERM if tied is True else tied
    tie = [sys.executable, "-I", "-S", "-c", _TIE, str(os.getpid()), str(int(sent)), program] if tied else []
    try:
        return subprocess.Popen([*tie, *argv], executable=None if tied else program, env=env, cwd=cwd, **how)
    except OSError as err:
        raise _cannot_start(argv[0], err) from err


class Program:
    """A long program that runs in its own session."""

    status = 0
    """Its exit status, after it has ended."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self.session = child.pid
        """ID of its process and its session."""
        self._child = child

    def lines(self, log: Path | None = None) -> Iterator[str]:
        """Yield the lines of its stdout and stderr until it has ended, and append their bytes to a log as they arrive.

        A process that it left running may keep its output open forever.
        """
        with (log or Path(os.devnull)).open("ab", buffering=0) as file:
            for line in self._lines():
                file.write(line)
                yield line.decode(errors="replace").rstrip()

    def _lines(self) -> Iterator[bytes]:
        pipe, rest = self._child.stdout.fileno() if self._child.stdout else -1, b""
        while True:
            ended = self._child.poll() is not None
            there = select.select([pipe], [], [], 0 if ended else _LOOK)[0]
            block = os.read(pipe, 1 << 16) if there else b""
            *lines, rest = (rest + block).split(b"\n")
            yield from (line + b"\n" for line in lines)
            if not block and (there or ended):
                break
        if rest:
            yield rest


@contextlib.contextmanager
def follow(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None, tied: bool = False
) -> Iterator[Program]:
    """Run a long program while the block reads all its lines; an exception ends it and everything it started.

    `tied`: Whether it gets SIGTERM when this process is killed.

    Raises LackingError if the program is not on this machine.
    """
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    child = _start(argv, env=env, cwd=cwd, tied=tied, start_new_session=True, **streams)
    program = Program(child)
    with child:
        try:
            yield program
            program.status = child.wait()
        except BaseException:
            _end_group(child)
            raise
    _LOG.debug("%s ended with status %d", argv[0], program.status)


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
