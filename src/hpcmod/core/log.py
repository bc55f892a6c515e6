"""Log what hpcmod does to stderr or a file, for people who diagnose a problem.

Every module logs to `logging.getLogger(__name__)`; nothing is written unless logging is turned on. Values that may
hold a password or a token are not logged, and `scrub` removes from each line anything that looks like one.
"""

from __future__ import annotations

import logging
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
"""Logger of the messages that the user sees anyway: they go to the file, but not to stderr a second time."""

_ROOT = logging.getLogger("hpcmod")
_LEVELS = {"info": logging.INFO, "debug": logging.DEBUG}
_HIDDEN = "***"

_NAME = r"[\w-]{0,40}(?:passw(?:or)?d|token|secret|credential|api[_-]?key|authorization)[\w-]{0,40}"
_VALUE = r"""(?:"[^"]*"|'[^']*'|[^\s&,'"]+)"""
_SECRETS = (  # names are limited: text from others must not slow down the search
    (re.compile(r"(://)[^/\s]*@"), rf"\1{_HIDDEN}@"),
    (re.compile(r"\b(basic|bearer)\s+[\w.~+/=-]+", re.IGNORECASE), rf"\1 {_HIDDEN}"),
    (re.compile(rf"(--{_NAME})(?:\s+|=){_VALUE}", re.IGNORECASE), rf"\1 {_HIDDEN}"),
    (re.compile(rf"\b({_NAME}[\"']?\s*[=:]\s*){_VALUE}", re.IGNORECASE), rf"\1{_HIDDEN}"),
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
    levels = [handler.level for handler in _ROOT.handlers if isinstance(handler, _StderrHandler)]
    files = [handler.path for handler in _ROOT.handlers if isinstance(handler, _FileHandler)]
    names = {number: name for name, number in _LEVELS.items()}
    return LogSettings(names[levels[0]] if levels else "", files[0] if files else "")


@contextmanager
def logging_to(settings: LogSettings) -> Iterator[None]:
    """Log while the block runs.

    Raises OSError if the file cannot be written.
    """
    level, handlers = _ROOT.level, start_log(settings)
    try:
        yield
    finally:
        for handler in handlers:
            _ROOT.removeHandler(handler)
            handler.close()
        _ROOT.setLevel(level)


def start_log(settings: LogSettings) -> list[logging.Handler]:
    """Start logging unless this process logs already; return the new handlers.

    Raises OSError if the file cannot be written.
    """
    if current_settings() != LogSettings():
        return []
    handlers: list[logging.Handler] = []
    if settings.level:
        handlers.append(_StderrHandler(_LEVELS[settings.level]))
    if settings.file:
        handlers.append(_FileHandler(settings.file))
    for handler in handlers:
        _ROOT.addHandler(handler)
    if handlers:
        _ROOT.setLevel(min(handler.level for handler in handlers))
    return handlers


def scrub(text: str) -> str:
    """Return a string without control characters and without anything that looks like a password or a token."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return "\n".join(terminal(line) for line in text.splitlines())


class CommandLine:
    """A program and its arguments, formatted only if the line is logged."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = argv

    def __str__(self) -> str:
        return scrub(shlex.join(self._argv))


class _Formatter(logging.Formatter):
    """Formats a record as one line, or more with a traceback, with secrets removed."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        """Return the formatted record."""
        return scrub(super().format(record))


class _StderrHandler(logging.Handler):
    """Writes to the current `sys.stderr`."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.setFormatter(_Formatter("hpcmod: %(levelname)s: %(message)s"))
        self.addFilter(lambda record: record.name != USER_MESSAGES)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; on a terminal, replace the progress line."""
        clear = "\r\x1b[K" if sys.stderr.isatty() else ""
        with suppress(OSError):
            sys.stderr.write(f"{clear}{self.format(record)}\n")
            sys.stderr.flush()


class _FileHandler(logging.Handler):
    """Appends everything to a file that only the user may read; several processes may write to it."""

    def __init__(self, path: str) -> None:
        super().__init__(logging.DEBUG)
        self.path = path
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        self.setFormatter(
            _Formatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        )

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record in one call, so that lines of several processes do not mix."""
        with suppress(OSError):  # a full disk must not end the work that is logged
            os.write(self._file, f"{self.format(record)}\n".encode(errors="backslashreplace"))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
        super().close()
