"""Collect the pages of the documentation site for Sphinx: source.py DIRECTORY.

They are the checkout's own pages, and those that are generated from the commands. The directory is made anew.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from hpcmod.core.cli.reference.pages import command_pages
from hpcmod.core.cli.reference.schemas import command_schemas

CHECKOUT = Path(__file__).resolve().parents[2]
EXTRA = "extra"
"""Folder of files that Sphinx copies into the site as they are; conf.py names it."""


def make_source(directory: Path) -> None:
    """Make a directory with all pages."""
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(CHECKOUT / "docs", directory / "docs")
    for path in (*CHECKOUT.glob("*.md"), CHECKOUT / "LICENSE"):
        shutil.copy2(path, directory)
    commands = directory / "docs" / "reference" / "commands"
    commands.mkdir()
    for name, text in command_pages().items():
        (commands / name).write_text(text, encoding="utf-8")
    schemas = directory / EXTRA / "docs" / "reference" / "schemas"
    schemas.mkdir(parents=True)
    for name, schema in command_schemas().items():
        (schemas / name).write_text(json.dumps(schema, indent=1), encoding="utf-8")


if __name__ == "__main__":
    make_source(Path(sys.argv[1]))
