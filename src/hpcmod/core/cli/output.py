"""Print to stdout and stderr: text, data, messages and tables.

Control characters are removed from all text for a terminal; other files of cli/ do not call click.echo. On a terminal a
table has a header and fits the width; words are never cut. In a pipe or a file it has no header, each row is one line
of any length, and columns are separated by at least two spaces: programs can rely on that, or on `--json`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from hpcmod.core.log import QUIET, Logger
from hpcmod.core.text.quote import terminal
from hpcmod.core.values.text import format_size as format_size

_LOG = Logger(__name__)

JSON_VERSION = 1
"""Version of the JSON that commands print; it changes when a field is removed or changes its meaning."""

_Command = TypeVar("_Command", bound=Callable[..., Any])
_GAP = "  "
_INDENT = "    "
_NARROWEST = 24  # columns; a last column narrower than this is hard to read


def print_text(text: object, *, nl: bool = True) -> None:
    """Print text for people to stdout; control and bidirectional characters become `?`."""
    click.echo(terminal(str(text)), nl=nl)


def print_data(text: object, *, nl: bool = True) -> None:
    """Print data for programs to stdout: JSON, paths, scripts. Unchanged in a pipe or file, cleaned on a terminal."""
    click.echo(terminal(str(text)) if sys.stdout.isatty() else str(text), nl=nl)


class JsonOption(click.Option):
    """The option --json; it knows the classes of values of which its command prints one."""

    def __init__(self, *args: Any, outputs: tuple[type | str, ...] = (), **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.outputs = outputs


def json_option(*outputs: type | str, when: str = "") -> Callable[[_Command], _Command]:
    """Add the option --json to a command that prints a value of one of these classes.

    `outputs`: Dataclasses or named tuples; one whose module takes time to import by its name, as `module:Class`.
    `when`: What --json needs, e.g. "with --diff"; empty: nothing.
    """
    text = f"Print one JSON object{', ' if when else ''}{when}."
    return click.option("--json", "as_json", is_flag=True, help=text, cls=JsonOption, outputs=outputs)


class Failure(NamedTuple):
    """Why a command failed."""

    code: int
    """Exit code."""
    message: str
    """What failed and where, what was found and expected."""
    cure: str
    """Command or edit that helps; empty if nothing is known."""


class CommandFailure(NamedTuple):
    """An error of any command with --json."""

    error: Failure


def print_json(value: object) -> None:
    """Print a dataclass or named tuple as one JSON object to stdout, after the version of its format."""
    from hpcmod.core.values.json_form import json_form  # slow, with `dataclasses`, and seldom needed

    print_data(json.dumps({"version": JSON_VERSION, **json_form(value)}, indent=1))


def print_message(text: object, *, is_error: bool = False) -> None:
    """Print text for people to stderr, with -q only errors; control and bidirectional characters become `?`."""
    _LOG.info("%s", text)
    if is_error or QUIET not in os.environ:
        click.echo(terminal(str(text)), err=True)


def tell(line: str) -> None:
    """Print one line for people to stderr as `hpcmod: LINE`; control and bidirectional characters become `?`."""
    print_message(f"hpcmod: {line}")


def terminal_width() -> int | None:
    """Return the width of the terminal in columns; None if stdout is not a terminal."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size  # slow: imports all compression modules

    return get_terminal_size().columns


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, cut: bool = False) -> None:
    """Print rows of text under their headers, fitted to the terminal; `cut`: the last column, to one line."""
    listed = [[terminal(" ".join(cell.split())) for cell in row] for row in rows]
    for line in render_table(headers, listed, width=terminal_width(), cut=cut):
        click.echo(line)


def render_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None, cut: bool = False
) -> Iterator[str]:
    """Yield the lines of a table; without a width only its rows, one line each."""
    if not rows:
        return
    whole = [*([headers] if width and headers else []), *rows]
    widths = [max(map(len, column)) for column in zip(*rows, *([headers] if width and headers else []))]
    before = sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)
    if width is None or before + widths[-1] <= width:
        for row in whole:
            yield _aligned(row, widths)
    elif cut and width > before:
        lines = (_aligned(row, widths) for row in whole)
        yield from (line if len(line) <= width else f"{line[: width - 2]}.." for line in lines)
    elif width - before >= _NARROWEST:
        for row in whole:
            first, *more = _wrap(row[-1], width - before) or [""]
            yield _aligned([*row[:-1], first], widths)
            yield from (f"{' ' * before}{line}" for line in more)
    else:
        for row in whole:
            yield row[0]
            rest = _GAP.join(cell for cell in row[1:] if cell)
            yield from _wrap(rest, width, first=_INDENT, later=_INDENT)


def _wrap(text: str, width: int, *, first: str = "", later: str = "") -> list[str]:
    """Break text into lines at spaces, never inside a word."""
    from textwrap import wrap

    return wrap(
        text, width, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(f"{cell:{width}}" for cell, width in zip(row, widths)).rstrip()


def print_wrapped(text: str, *, indent: int = len(_INDENT)) -> None:
    """Print one line; on a terminal, wrap it with an indent if it is too long, and colour the level of a finding."""
    width = terminal_width()
    line = terminal(text)
    if width is not None and len(line) > width:
        line = "\n".join(_wrap(line, width, later=" " * indent))
    level, space, rest = line.partition(" ")
    colour = _COLOURS.get(level.rstrip(":"), "") if width else ""
    plain = not colour or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    click.echo(line if plain else f"{click.style(level, fg=colour)}{space}{rest}")


_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}  # levels of `core.values.finding`, which is not needed here
