"""Markdown pages of the documentation site about the commands: one for each heading of the help, one for JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click

from hpcmod.core.cli.main import main
from hpcmod.core.cli.reference.commands import (
    Block,
    help_blocks,
    help_of,
    names_of,
    options_of,
    synopsis,
    value_of,
    verbs_of,
)
from hpcmod.core.cli.reference.schemas import command_schemas, file_schemas

_HEAD = """# Commands: {heading}

Every option of these commands, as `--help` prints it.
"""

_SCHEMAS_HEAD = """# JSON Schemas

What each command prints with `--json`, see [JSON output](../json.md), and the keys of files that people write, see
[editors](../site-profile.md#in-an-editor).

| command or file | content | schema |
|---|---|---|
"""


def command_pages() -> dict[str, str]:
    """Return the pages, text by file name, in the order of the headings; the last lists the schemas of JSON output."""
    verbs = verbs_of(main)
    pages = {
        f"{re.sub('[^a-z]+', '-', heading.lower())}.md": _HEAD.format(heading=heading)
        + "".join(part for name in names for part in _render_command(name, verbs[name]))
        for heading, names in main.tables.items()
    }
    return {
        **pages,
        "json-schemas.md": _SCHEMAS_HEAD
        + "".join(map(_render_schema, sorted({**command_schemas(), **file_schemas()}.items()))),
    }


def _render_schema(named: tuple[str, dict[str, Any]]) -> str:
    """Return the row of a schema. Its link is HTML, because the file is not in the checkout."""
    name, schema = named
    shapes = " ".join(shape.get("description", "the keys of this file") for shape in schema.get("anyOf", [schema]))
    return f'| {schema["title"]} | {shapes} | <a href="../schemas/{name}">{name}</a> |\n'


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
