"""The reference pages of the verbs are generated from the verbs: `./dev/test --golden` writes them."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from hpcmod.cli.main import main
from hpcmod.cli.verbs import VERBS
from tests.verbs import verbs_of

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference"
HEAD = """# {title}

Every option of these commands, as `--help` prints it. How to use them: {guides}.

With `--json` a command prints one object, whose `version` changes when its format does. Without it, stdout is lines of
data. Messages go to stderr.
"""
PAGES = {
    "container-commands.md": (
        "Commands for containers",
        "[Find a container, and run it](../how-to/find-and-run.md)",
        ("Find and run", "Notebooks and editors", "Install"),
    ),
    "package-commands.md": (
        "Commands for your own packages",
        "[Add your own Python packages](../how-to/user-packages.md)",
        ("Your own packages",),
    ),
    "image-commands.md": (
        "Commands for images",
        "[Get images from everywhere, and know what you got](../how-to/images.md)",
        ("Images",),
    ),
    "easyconfig-commands.md": (
        "Commands for easyconfigs and foreign recipes",
        "[Take over what you have: import and lint](../how-to/import.md)",
        ("Recipes",),
    ),
    "publish-commands.md": (
        "Commands for a catalogue",
        "[Publish containers for all users of a machine](../how-to/publish.md)",
        ("Publish",),
    ),
    "job-commands.md": (
        "Commands for jobs",
        "[Find the mistakes in a batch script](../how-to/batch-scripts.md)",
        ("Jobs",),
    ),
    "check-commands.md": (
        "Commands that check nodes and runs",
        "[Check the nodes before a job uses them](../how-to/check-nodes.md), "
        "[Prove that a container uses the fast network](../how-to/verify-network.md), "
        "[Measure the bandwidth between nodes or GPUs](../how-to/bench.md), "
        "[Find out why a job hangs or failed](../how-to/hanging-job.md) and "
        "[See where the time of a job goes](../how-to/profile.md)",
        ("Check and explain",),
    ),
    "machine-commands.md": (
        "Commands for a machine",
        "[Describe a machine: site profiles](../how-to/site-profile.md) and "
        "[Set up a site: one module for all users](../how-to/site-setup.md)",
        ("This machine",),
    ),
}
"""By page: its title, the guides that it links to, and the headings of `hpcmod --help` whose verbs it describes."""


def usage(name: str, command: click.Command) -> str:
    """Return the usage line of a verb."""
    # pass the settings of main, because click caches the help option when it is first requested
    return " ".join([f"hpcmod {name}", *command.collect_usage_pieces(click.Context(command, **main.context_settings))])


def paragraph(text: str) -> str:
    """Return a paragraph of a help text; one that starts with click's \\b is a block of examples or code."""
    if not text.startswith("\b\n"):
        return f"\n{' '.join(text.split())}\n"
    label, *lines = text.splitlines()[1:]
    block = textwrap.dedent("\n".join(lines))
    if label.startswith("Example"):
        return f"\n```console\n{block}\n```\n"
    return f"\n{label}\n\n```text\n{block}\n```\n"


def option_row(option: click.Option) -> str:
    """Return the row of an option in the table of its verb."""
    value = "" if option.is_flag or option.count else f" {option.metavar or (option.name or '').upper()}"
    names = ", ".join([*option.opts, *option.secondary_opts])
    return f"| `{names}{value}` | {(option.help or '').replace('|', chr(92) + '|')} |\n"


def render(name: str, command: click.Command) -> Iterator[str]:
    """Yield the section of a verb, or those of its subcommands."""
    if isinstance(command, click.Group):
        for below, inner in sorted(verbs_of(command).items()):
            yield from render(f"{name} {below}", inner)
        return
    yield f"\n## hpcmod {name}\n\n`{usage(name, command)}`\n"
    yield from map(paragraph, inspect.cleandoc(command.help or "").split("\n\n"))
    options = [one for one in command.params if isinstance(one, click.Option)]
    if options:
        yield "\n| option | |\n|---|---|\n"
        yield from map(option_row, options)


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_that_of_the_verbs(page: str, golden: Callable[[Path, str], None]) -> None:
    title, guides, headings = PAGES[page]
    sections = (part for heading in headings for name in VERBS[heading] for part in render(name, verbs_of(main)[name]))
    golden(REFERENCE / page, HEAD.format(title=title, guides=guides) + "".join(sections))


def test_every_verb_has_its_place_on_one_page() -> None:
    assert sorted(heading for _, _, headings in PAGES.values() for heading in headings) == sorted(VERBS)
