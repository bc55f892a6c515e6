"""Markdown pages of the documentation site about the commands: a list, one for each command, one for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
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

_HEAD = """# Commands

A page for each command has all of its options, as `--help` prints them.
"""

_SCHEMAS_HEAD = """# JSON Schemas

What each command prints with `--json`, see [JSON output](../json.md), and the keys of files that people write, see
[editors](../site-profile.md#in-an-editor).

| command or file | content | schema |
|---|---|---|
"""


def command_pages() -> dict[str, str]:
    """Return text by file name: a list of the commands, a page for each in that order, and the schemas."""
    verbs, schemas = verbs_of(main), {**command_schemas(), **file_schemas()}
    tables = (
        f"\n## {heading}\n\n| command | task |\n|---|---|\n" + "".join(_render_row(name, verbs[name]) for name in names)
        for heading, names in main.tables.items()
    )
    return {
        "index.md": _HEAD + "".join(tables),
        **{f"{name}.md": "".join(_render_command("#", name, verbs[name])) for name in chain(*main.tables.values())},
        "json-schemas.md": _SCHEMAS_HEAD + "".join(map(_render_schema, sorted(schemas.items()))),
    }


def _render_row(name: str, command: click.Command) -> str:
    return f"| [`hpcmod {name}`]({name}.md) | {help_blocks(command)[0].text} |\n"


def _render_schema(named: tuple[str, dict[str, Any]]) -> str:
    """Return the row of a schema. Its link is HTML, because the file is not in the checkout."""
    name, schema = named
    shapes = " ".join(shape.get("description", "the keys of this file") for shape in schema.get("anyOf", [schema]))
    return f'| {schema["title"]} | {shapes} | <a href="../schemas/{name}">{name}</a> |\n'


def _render_command(marks: str, name: str, command: click.Command) -> Iterator[str]:
    """Yield the section of a command, with those of its subcommands."""
    yield f"{marks} hpcmod {name}\n\n`hpcmod {name} {synopsis(command)}`\n"
    yield from map(_render_block, help_blocks(command))
    if options := options_of(command):
        yield "\n| option | meaning |\n|---|---|\n"
        yield from map(_render_option, options)
    for below, inner in sorted(verbs_of(command).items()) if isinstance(command, click.Group) else ():
        yield "\n"
        yield from _render_command(f"{marks}#", f"{name} {below}", inner)


def _render_block(block: Block) -> str:
    lines = "\n".join(block.lines)
    if block.is_example:
        return f"\n```console\n{lines}\n```\n"
    return f"\n{block.label}\n\n```text\n{lines}\n```\n" if block.lines else f"\n{block.text}\n"


def _render_option(option: click.Option) -> str:
    """Return the row of an option in the table of its command. A bar would end a cell, even in code."""
    cells = (f"`{' '.join([', '.join(names_of(option)), *filter(None, [value_of(option)])])}`", help_of(option))
    return "".join(f"| {cell.replace('|', chr(92) + '|')} " for cell in cells) + "|\n"
