"""Man pages of the commands, generated from their help texts like the reference pages."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator

import click

from hpcmod import errors
from hpcmod.cli.main import main
from tests.verbs import verbs_of

_ESCAPES = str.maketrans({"\\": "\\e", "-": "\\-", "`": "\\(ga", "'": "\\(aq", "^": "\\(ha", "~": "\\(ti"})
"""Characters that roff would print differently or interpret."""


def page_name(*words: str) -> str:
    """Return the name of a page: `hpcmod-catalogue-journal` for `hpcmod catalogue journal`."""
    return "-".join(("hpcmod", *words))


def every_page(*words: str, command: click.Command | None = None) -> dict[str, str]:
    """Return the pages of a command and of all commands below it, text by file name."""
    command = command or main
    lines = list(render_page(words, command))
    needed = [line for before, line in zip(["", *lines], lines) if line != ".PP" or not before.startswith(".SH ")]
    pages = {f"{page_name(*words)}.1": "\n".join(needed) + "\n"}
    if isinstance(command, click.Group):
        for name, below in verbs_of(command).items():
            pages.update(every_page(*words, name, command=below))
    return pages


def render_page(words: tuple[str, ...], command: click.Command) -> Iterator[str]:
    """Yield the lines of one page, in man macros."""
    summary, _, rest = inspect.cleandoc(command.help or "").partition("\n\n")
    yield f'.TH "{page_name(*words).upper()}" "1" "" "hpcmod" "hpcmod manual"'
    yield from (".SH NAME", f"{escape(page_name(*words))} \\- {escape(' '.join(summary.split()).rstrip('.'))}")
    yield from (".SH SYNOPSIS", rf"\fB{escape(' '.join(('hpcmod', *words)))}\fR {escape(synopsis(command))}")
    blocks = [block for block in rest.split("\n\n") if block and not block.startswith("Exit codes:")]
    described = [block for block in blocks if not is_example(block)]
    if described:
        yield ".SH DESCRIPTION"
        yield from (line for block in described for line in render_block(block))
    yield from render_options(command)
    if isinstance(command, click.Group):
        yield ".SH COMMANDS"
        for name, below in verbs_of(command).items():
            yield from (".TP", rf"\fB{escape(page_name(*words, name))}\fR(1)", escape(below.get_short_help_str(200)))
    examples = [line for block in filter(is_example, blocks) for line in render_block(block, with_label=False)]
    if examples:
        yield from (".SH EXAMPLES", *examples)
    yield ".SH EXIT STATUS"
    for code, meaning in exit_codes():
        yield from (".TP", rf"\fB{code}\fR", escape(meaning))
    if words:
        yield from (".SH SEE ALSO", rf"\fB{escape(page_name(*words[:-1]))}\fR(1)")


def synopsis(command: click.Command) -> str:
    """Return the usage of a command without its name: its options and arguments."""
    return " ".join(command.collect_usage_pieces(click.Context(command, **main.context_settings)))


def is_example(block: str) -> bool:
    """Return whether a block of a help text is an example."""
    return block.startswith("\b\nExample")


def render_block(block: str, *, with_label: bool = True) -> Iterator[str]:
    """Yield the lines of a paragraph of a help text; one that begins with click's \\b keeps its line breaks."""
    if not block.startswith("\b\n"):
        yield from (".PP", escape(" ".join(block.split())))
        return
    label, *lines = block.splitlines()[1:]
    if with_label:
        yield from (".PP", escape(label))
    yield from (".nf", ".RS 4")
    yield from map(escape, textwrap.dedent("\n".join(lines)).splitlines())
    yield from (".RE", ".fi")


def render_options(command: click.Command) -> Iterator[str]:
    """Yield the options of a command with their help; nothing if it has none."""
    options = [one for one in command.params if isinstance(one, click.Option)]
    if options:
        yield ".SH OPTIONS"
    for option in options:
        names = ", ".join(rf"\fB{escape(name)}\fR" for name in (*option.opts, *option.secondary_opts))
        value = (
            "" if option.is_flag or option.count else rf" \fI{escape(option.metavar or (option.name or '').upper())}\fR"
        )
        yield from (".TP", names + value, escape(" ".join((option.help or "").split())))


def exit_codes() -> list[tuple[str, str]]:
    """Return the exit codes and their meanings, from the docstring of `errors`, the only list of them."""
    return re.findall(r"^(\d+) +(.+)$", errors.__doc__ or "", re.MULTILINE)


def escape(text: str) -> str:
    """Return a line of text with all roff characters escaped."""
    text = (
        text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("'", "\\(aq").replace("^", "\\(ha")
    )
    return f"\\&{text}" if text.startswith(".") else text.replace("~", "\\(ti")
