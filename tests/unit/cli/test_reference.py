"""The pages of the verbs are made from the verbs: HPCMOD_UPDATE_GOLDEN=1 writes them anew."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from hpcmod.cli.main import main
from tests.verbs import verbs_of

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference"
HEAD = """# {title}

What each is for is told in [{guide}](../how-to/{page}). `--json` prints one object, whose
`version` changes when its form does; without it stdout is lines, and whatever is said besides goes to stderr.
"""
IMAGES = ("fetch", "convert", "build", "verify", "compat", "cache", "bundle")
CONTAINERS = ("ls", "search", "info", "diff", "exec", "shell", "run", "install", "outdated", "update", "remove")
PAGES = {
    "image-commands.md": (
        HEAD.format(title="The commands for images", guide="Get images from everywhere", page="images.md"),
        IMAGES,
    ),
    "container-commands.md": (
        HEAD.format(title="Commands for containers", guide="Find a container, and run it", page="find-and-run.md"),
        CONTAINERS,
    ),
}


def render(name: str, command: click.Command) -> Iterator[str]:
    """Make the section of a verb, and of those below it."""
    if isinstance(command, click.Group):
        for below, inner in sorted(verbs_of(command).items()):
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


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_that_of_the_verbs(page: str) -> None:
    head, names = PAGES[page]
    made = head + "".join(part for name in names for part in render(name, verbs_of(main)[name]))
    if os.environ.get("HPCMOD_UPDATE_GOLDEN"):
        (REFERENCE / page).write_text(made, encoding="utf-8")
    assert (REFERENCE / page).read_text(encoding="utf-8") == made
