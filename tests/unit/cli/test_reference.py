"""The page of the verbs for images is made from the verbs: HPCMOD_UPDATE_GOLDEN=1 writes it anew."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from pathlib import Path

import click

from hpcmod.cli.main import main

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "image-commands.md"
VERBS = ("fetch", "convert", "verify", "cache", "bundle")
HEAD = """# The commands for images

What each is for is told in [Get images from everywhere](../how-to/images.md). `--json` prints one object, whose
`version` changes when its form does; without it stdout is lines, and whatever is said besides goes to stderr.
"""


def render(name: str, command: click.Command) -> Iterator[str]:
    """Make the section of a verb, and of those below it."""
    if isinstance(command, click.Group):
        for below, inner in sorted(command.commands.items()):
            yield from render(f"{name} {below}", inner)
        return
    arguments = " ".join(one.human_readable_name for one in command.params if isinstance(one, click.Argument))
    text, _, examples = inspect.cleandoc(command.help or "").partition("\b\n")
    yield f"\n## hpcmod {name}\n\n`hpcmod {name} [OPTIONS] {arguments}`\n".replace(" `", "`")
    yield f"\n{' '.join(text.split())}\n\n```console\n"
    yield "".join(f"{line.strip()}\n" for line in examples.splitlines()[1:]) + "```\n"
    options = [one for one in command.params if isinstance(one, click.Option)]
    if options:
        yield "\n| option | |\n|---|---|\n"
    for option in options:
        value = "" if option.is_flag else f" {option.metavar or option.name.upper()}"  # type: ignore[union-attr]
        yield f"| `{', '.join(option.opts)}{value}` | {option.help} |\n"


def test_the_page_is_that_of_the_verbs() -> None:
    made = HEAD + "".join(part for name in VERBS for part in render(name, main.commands[name]))
    if os.environ.get("HPCMOD_UPDATE_GOLDEN"):
        PAGE.write_text(made, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == made
