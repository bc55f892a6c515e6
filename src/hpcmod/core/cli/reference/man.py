"""Man pages of the commands, which pip installs into share/man/man1."""

from __future__ import annotations

from collections.abc import Iterator

import click

from hpcmod.core.cli.reference.commands import (
    Block,
    every_command,
    exit_codes,
    help_blocks,
    help_of,
    names_of,
    options_of,
    synopsis,
    value_of,
    verbs_of,
)

_ESCAPES = str.maketrans({"\\": "\\e", "-": "\\-", "`": "\\(ga", "'": "\\(aq", "^": "\\(ha", "~": "\\(ti"})
"""Characters that roff would print differently or interpret."""


def man_pages() -> dict[str, str]:
    """Return a page for each command, text by file name."""
    return {
        f"{_page_name(*words)}.1": "".join(f"{line}\n" for line in _render_page(words, command))
        for words, command in every_command()
    }


def _page_name(*words: str) -> str:
    """Return the name of a page: `hpcmod-catalogue-journal` for `hpcmod catalogue journal`."""
    return "-".join(("hpcmod", *words))


def _render_page(words: tuple[str, ...], command: click.Command) -> Iterator[str]:
    """Yield the lines of one page, in man macros."""
    summary, *blocks = help_blocks(command)
    described = [block for block in blocks if not block.is_example and not block.text.startswith("Exit codes:")]
    examples = [block for block in blocks if block.is_example]
    yield f'.TH "{_page_name(*words).upper()}" "1" "" "hpcmod" "hpcmod manual"'
    yield from (".SH NAME", f"{escape(_page_name(*words))} \\- {escape(summary.text.rstrip('.'))}")
    yield from (".SH SYNOPSIS", rf"\fB{escape(' '.join(('hpcmod', *words)))}\fR {escape(synopsis(command))}")
    if described:
        yield ".SH DESCRIPTION"
        for number, block in enumerate(described):
            if number:
                yield ".PP"
            yield escape(block.text or block.label)
            yield from _render_lines(block)
    if options := options_of(command):
        yield ".SH OPTIONS"
        yield from (line for option in options for line in _render_option(option))
    if isinstance(command, click.Group):
        yield ".SH COMMANDS"
        for name, below in verbs_of(command).items():
            yield from (".TP", rf"\fB{escape(_page_name(*words, name))}\fR(1)", escape(below.get_short_help_str(200)))
    if examples:
        yield ".SH EXAMPLES"
        yield from (line for block in examples for line in _render_lines(block))
    yield ".SH EXIT STATUS"
    for code, meaning in exit_codes():
        yield from (".TP", rf"\fB{code}\fR", escape(meaning))
    if words:
        yield from (".SH SEE ALSO", rf"\fB{escape(_page_name(*words[:-1]))}\fR(1)")


def _render_lines(block: Block) -> Iterator[str]:
    """Yield the lines of a block that keep their breaks."""
    if block.lines:
        yield from (".nf", ".RS 4", *map(escape, block.lines), ".RE", ".fi")


def _render_option(option: click.Option) -> Iterator[str]:
    names = ", ".join(rf"\fB{escape(name)}\fR" for name in names_of(option))
    value = rf" \fI{escape(value_of(option))}\fR" if value_of(option) else ""
    yield from (".TP", names + value, escape(help_of(option)))


def escape(text: str) -> str:
    """Return a line of text with all roff characters escaped."""
    return ("\\&" if text.startswith(".") else "") + text.translate(_ESCAPES)
