"""The one door to other programs: argv lists in, output out, never a shell string."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from hpcmod.errors import LackingError


@dataclass(frozen=True)
class Completed:
    """A program that ended: its exit status and what it wrote, as text."""

    status: int
    stdout: str
    stderr: str


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    timeout: float | None = None,
) -> Completed:
    """Run a program to its end and return what it did; a non-zero status is the caller's to judge.

    Parameters
    ----------
    argv
        Program and arguments; the program is looked up on PATH.
    env
        The whole environment of the program; None for our own.
    stdin
        What the program reads on its standard input; None for our own input.
    timeout
        Seconds after which the program is killed.

    Raises
    ------
    LackingError
        If the program is not on this machine, or did not end in time.
    """
    try:
        done = subprocess.run(
            list(argv),
            env=env,
            input=stdin,
            timeout=timeout,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as err:
        raise _cannot_start(argv[0], err) from err
    except subprocess.TimeoutExpired as err:
        raise LackingError(f"{argv[0]} did not end within {timeout} s") from err
    return Completed(done.returncode, done.stdout, done.stderr)


def call(argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> int:
    """Run a program on our own terminal to its end and return its exit status.

    Raises
    ------
    LackingError
        If the program is not on this machine.
    """
    try:
        return subprocess.run(list(argv), env=env, check=False).returncode
    except OSError as err:
        raise _cannot_start(argv[0], err) from err


def become(argv: Sequence[str]) -> NoReturn:
    """Run a program in place of this one, so that signals and the terminal are its own.

    Raises
    ------
    LackingError
        If the program is not on this machine.
    """
    try:
        os.execvp(argv[0], list(argv))  # noqa: S606 - argv, no shell
    except OSError as err:
        raise _cannot_start(argv[0], err) from err


def _cannot_start(program: str, err: OSError) -> LackingError:
    return LackingError(f"{program} cannot be started: {err.strerror}", f"Install {program}, or add it to PATH.")
