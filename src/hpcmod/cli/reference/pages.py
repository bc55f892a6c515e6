"""Markdown pages about the commands, for the documentation site: one for each heading of `hpcmod --help`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from hpcmod.cli.main import main
from hpcmod.cli.reference.commands import (
    Block,
    help_blocks,
    help_of,
    names_of,
    options_of,
    synopsis,
    value_of,
    verbs_of,
)
from hpcmod.cli.verbs import VERBS

_HEAD = """# Commands: {heading}

Every option of these commands, as `--help` prints it.
"""


def command_pages() -> dict[str, str]:
    """Return the pages, text by file name, in the order of the headings."""
    verbs = verbs_of(main)
    return {
        f"{re.sub('[^a-z]+', '-', heading.lower())}.md": _HEAD.format(heading=heading)
        + "".join(part for name in names for part in _render_command(name, verbs[name]))
        for heading, names in VERBS.items()
    }


def _render_command(name: str, command: click.Command) -> Iterator[str]:
    """Yield the section of a command, or those of its subcommands."""
    if isinstance(command, click.Group):
        for below, inner in sorted(verbs_of(command).items()):
            yield from _render_command(f"{name} {below}", inner)
        return
    yield f"\n## hpcmod {name}\n\n`hpcmod {name} {synopsis(command)}`\n"
    yield from map(_render_block, help_blocks(command))
    if options := options_of(command):
        yield "\n| option | |\n|---|---|\n"
        yield from map(_render_option, options)


def _render_block(block: Block) -> str:
    lines = "\n".join(block.lines)
    if block.is_example:
        return f"\n```console\n{lines}\n```\n"
    return f"\n{block.label}\n\n```text\n{lines}\n```\n" if block.lines else f"\n{block.text}\n"


def _render_option(option: click.Option) -> str:
    """Return the row of an option in the table of its command."""
    names = " ".join([", ".join(names_of(option)), *filter(None, [value_of(option)])])
    return f"| `{names}` | {help_of(option).replace('|', chr(92) + '|')} |\n"
