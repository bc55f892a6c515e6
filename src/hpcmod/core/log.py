"""Log what hpcmod does to stderr or a file, for people who diagnose a problem.

Every module logs to its `Logger(__name__)`; nothing is written unless logging is turned on. Values that may hold a
password or a token are not logged, and `scrub` removes from each line anything that looks like one. Python's `logging`
is not used: importing it takes a tenth of the time of a short command.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from hpcmod.core.errors import BadInputError
from hpcmod.core.text.quote import terminal

QUIET = "_HPCMOD_QUIET"
"""Variable that is set after `hpcmod -q`, also for the programs that it starts: no progress, and no messages."""

LEVEL_VARIABLE = "HPCMOD_LOG"
"""Variable that sets the log level on stderr: `info` or `debug`."""
FILE_VARIABLE = "HPCMOD_LOG_FILE"
"""Variable with the path of a file that receives the complete log."""

USER_MESSAGES = "hpcmod.core.cli.output"
"""Log of the messages that the user sees anyway: they go to the file, but not to stderr a second time."""

_LEVELS = ("info", "debug")
_HIDDEN = "***"

_NAME = r"[\w-]{0,40}(?:passw(?:or)?d|token|secret|credential|api[_-]?key|authorization)[\w-]{0,40}"
_VALUE = r"""(?:"[^"]*"|'[^']*'|[^\s&,'"]+)"""
_SECRETS = (  # names are limited: text from others must not slow down the search
    (r"(://)[^/\s]*@", rf"\1{_HIDDEN}@"),
    (r"\b(basic|bearer)\s+[\w.~+/=-]+", rf"\1 {_HIDDEN}"),
    (rf"(--{_NAME})(?:\s+|=){_VALUE}", rf"\1 {_HIDDEN}"),
    (rf"\b({_NAME}[\"']?\s*[=:]\s*){_VALUE}", rf"\1{_HIDDEN}"),
)


class LogSettings(NamedTuple):
    """Log level and file."""

    level: str = ""
    """Level on stderr: `info`, `debug`, or empty for none."""
    file: str = ""
    """Absolute path of the file that receives the complete log; empty for none."""

    def variables(self) -> dict[str, str]:
        """Return the variables that make another hpcmod program log the same way."""
        named = {LEVEL_VARIABLE: self.level, FILE_VARIABLE: self.file}
        return {name: value for name, value in named.items() if value}


def read_settings(environ: Mapping[str, str], *, verbosity: int = 0, file: str = "") -> LogSettings:
    """Return the settings from flags, or else from the environment.

    `verbosity`: How often -v was given.
    `file`: Value of --log-file; empty if not given.

    Raises BadInputError if the variable is not a valid level.
    """
    level = environ.get(LEVEL_VARIABLE, "")
    if level and level not in _LEVELS:
        raise BadInputError(f"{LEVEL_VARIABLE}={level}: not a valid level", f"Set it to one of {', '.join(_LEVELS)}.")
    if verbosity:
        level = "debug" if verbosity > 1 else "info"
    file = file or environ.get(FILE_VARIABLE, "")
    return LogSettings(level, os.path.abspath(file) if file else "")  # noqa: PTH100 - links are kept


def current_settings() -> LogSettings:
    """Return this process's log settings."""
    return _Target.settings


class _Target:
    """Where this process logs to."""

    settings = LogSettings()
    file = -1


@contextmanager
def logging_to(settings: LogSettings) -> Iterator[None]:
    """Log while the block runs.

    Raises OSError if the file cannot be written.
    """
    started = start_log(settings)
    try:
        yield
    finally:
        if started:
            file, _Target.file, _Target.settings = _Target.file, -1, LogSettings()
            if file >= 0:
                os.close(file)  # last: another thread may be logging


def start_log(settings: LogSettings) -> bool:
    """Start logging unless this process logs already; return whether it was started.

    Raises OSError if the file cannot be written.
    """
    if current_settings() != LogSettings():
        return False
    if settings.file:
        # only the user may read it
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        _Target.file = os.open(settings.file, flags, 0o600)
    _Target.settings = settings
    return settings != LogSettings()


class Logger:
    """The log of one module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def info(self, message: str, *values: object) -> None:
        """Log a step: a message with `%s` for each value."""
        self._write("info", message, values)

    def debug(self, message: str, *values: object) -> None:
        """Log a detail of a step, in the same form."""
        self._write("debug", message, values)

    def _write(self, level: str, message: str, values: Sequence[object]) -> None:
        target = _Target.settings
        told = target.level and _LEVELS.index(level) <= _LEVELS.index(target.level) and self._name != USER_MESSAGES
        if not told and not target.file:
            return
        text = scrub(message % values)
        if told:
            clear = "\r\x1b[K" if sys.stderr.isatty() else ""  # the line of progress
            with suppress(OSError):
                sys.stderr.write(f"{clear}hpcmod: {level.upper()}: {text}\n")
                sys.stderr.flush()
        if target.file:
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            line = f"{now} {os.getpid()} {level.upper()} {self._name}: {text}\n"
            with suppress(OSError):  # a full disk must not end the work that is logged
                # one call, so that lines of several processes do not mix
                os.write(_Target.file, line.encode(errors="backslashreplace"))


def scrub(text: str) -> str:
    """Return a string without control characters and without anything that looks like a password or a token."""
    for pattern, replacement in _SECRETS:
        text = re.sub(pattern, replacement, text, flags=re.IGNORECASE)
    return "\n".join(terminal(line) for line in text.splitlines())


class CommandLine:
    """A program and its arguments, formatted only if the line is logged."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = argv

    def __str__(self) -> str:
        return scrub(shlex.join(self._argv))


class Traceback:
    """The traceback of the exception that is being handled, formatted only if it is logged."""

    def __str__(self) -> str:
        import traceback

        return traceback.format_exc()
