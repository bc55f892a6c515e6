"""Log what hpcmod does, on stderr or in a file, for a person who looks for the cause of a problem.

Every module logs to `logging.getLogger(__name__)`; nothing is written unless somebody asks for it. What may hold a
password or a token is not logged, and `scrub` takes out of each line what looks like one.
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
from dataclasses import dataclass

from hpcmod.errors import BadInputError
from hpcmod.render.quote import terminal

LEVEL_VARIABLE = "HPCMOD_LOG"
"""Variable with the level of what is logged on stderr: `info` or `debug`."""
FILE_VARIABLE = "HPCMOD_LOG_FILE"
"""Variable with the path of a file to which everything is logged."""

USER_MESSAGES = "hpcmod.cli.output"
"""Logger of the messages that the user sees anyway: they go to the file, and not to stderr a second time."""

_ROOT = logging.getLogger("hpcmod")
_LEVELS = {"info": logging.INFO, "debug": logging.DEBUG}
_HIDDEN = "***"

_NAME = r"[\w-]{0,40}(?:passw(?:or)?d|token|secret|credential|api[_-]?key|authorization)[\w-]{0,40}"
_VALUE = r"""(?:"[^"]*"|'[^']*'|[^\s&,'"]+)"""
_SECRETS = (  # names are limited: text that others wrote must not make the search slow
    (re.compile(r"(://)[^/\s]*@"), rf"\1{_HIDDEN}@"),
    (re.compile(r"\b(basic|bearer)\s+[\w.~+/=-]+", re.IGNORECASE), rf"\1 {_HIDDEN}"),
    (re.compile(rf"(--{_NAME})(?:\s+|=){_VALUE}", re.IGNORECASE), rf"\1 {_HIDDEN}"),
    (re.compile(rf"\b({_NAME}[\"']?\s*[=:]\s*){_VALUE}", re.IGNORECASE), rf"\1{_HIDDEN}"),
)


@dataclass(frozen=True)
class LogSettings:
    """Where the log goes."""

    level: str = ""
    """Of what is logged on stderr: `info`, `debug`, or empty for nothing."""
    file: str = ""
    """Absolute path of the file that gets everything; empty for none."""

    def variables(self) -> dict[str, str]:
        """Return the variables with which another program of ours logs likewise."""
        named = {LEVEL_VARIABLE: self.level, FILE_VARIABLE: self.file}
        return {name: value for name, value in named.items() if value}


def read_settings(environ: Mapping[str, str], *, verbosity: int = 0, file: str = "") -> LogSettings:
    """Return the settings that flags ask for, else those of the environment.

    Parameters
    ----------
    verbosity
        How often -v was given.
    file
        What --log-file names; empty for nothing.

    Raises
    ------
    BadInputError
        If the variable names no level.
    """
    level = environ.get(LEVEL_VARIABLE, "")
    if level and level not in _LEVELS:
        raise BadInputError(f"{LEVEL_VARIABLE}={level}: not a level", f"Set it to one of {', '.join(_LEVELS)}.")
    if verbosity:
        level = "debug" if verbosity > 1 else "info"
    file = file or environ.get(FILE_VARIABLE, "")
    return LogSettings(level, os.path.abspath(file) if file else "")  # noqa: PTH100 - links are kept


def current_settings() -> LogSettings:
    """Return where the log of this process goes."""
    levels = [one.level for one in _ROOT.handlers if isinstance(one, _StderrHandler)]
    files = [one.path for one in _ROOT.handlers if isinstance(one, _FileHandler)]
    names = {number: name for name, number in _LEVELS.items()}
    return LogSettings(names[levels[0]] if levels else "", files[0] if files else "")


@contextmanager
def logging_to(settings: LogSettings) -> Iterator[None]:
    """Log while the block runs.

    Raises
    ------
    OSError
        If the file cannot be written.
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
    """Log from now on, unless this process does so already; return the handlers that do it.

    Raises
    ------
    OSError
        If the file cannot be written.
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
    """Return a text without what looks like a password or a token, and without control characters."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return "\n".join(terminal(line) for line in text.splitlines())


class CommandLine:
    """A program and its arguments, written out only if the line is logged."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = argv

    def __str__(self) -> str:
        return scrub(shlex.join(self._argv))


class _Formatter(logging.Formatter):
    """Writes a record as one line, or more with a traceback, of which none holds a secret."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        return scrub(super().format(record))


class _StderrHandler(logging.Handler):
    """Writes to what is stderr at the time."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.setFormatter(_Formatter("hpcmod: %(levelname)s: %(message)s"))
        self.addFilter(lambda record: record.name != USER_MESSAGES)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, on a terminal in place of a line of progress."""
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
        """Write a record at once, so that lines of several processes do not mix."""
        with suppress(OSError):  # a full disk must not end the work that is logged
            os.write(self._file, f"{self.format(record)}\n".encode(errors="backslashreplace"))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
        super().close()
