"""Collect the pages of the documentation site for Sphinx: source.py DIRECTORY.

They are the checkout's own pages, which forges show as well, and those that are generated from the commands. The
navigation is made from the table of docs/pages.md, so that there is only one list of pages. The directory is made anew.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from hpcmod.core.cli.reference.pages import command_pages
from hpcmod.core.cli.reference.schemas import command_schemas, file_schemas

CHECKOUT = Path(__file__).resolve().parents[2]
EXTRA = "extra"
"""Folder of files that Sphinx copies into the site as they are; conf.py names it."""


def make_navigation(index: str) -> str:
    """Return the toctrees of the site: one for each kind of page in the table of docs/pages.md, in its order."""
    pages: dict[str, list[str]] = {}
    kind = ""
    for line in index.splitlines():
        row = re.match(r"\| (?:\*\*(.+?)\*\*)? *\|(.*)\|$", line)
        linked = re.findall(r"\]\(([^)#]+)\.md\)", row[2]) if row else []
        if row and linked:
            kind = row[1] or kind
            pages.setdefault(kind, []).extend(linked)
    pages["Commands"] = [f"/docs/reference/commands/{name.removesuffix('.md')}" for name in command_pages()]
    pages["About"] = [f"/{name}" for name in ("docs/pages", "README", "CHANGELOG", "CONTRIBUTING", "SECURITY")]
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {kind}\n\n{chr(10).join(listed)}\n```\n"
        for kind, listed in pages.items()
    )


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
    with (directory / "docs" / "index.md").open("a", encoding="utf-8") as front:
        front.write(make_navigation((directory / "docs" / "pages.md").read_text(encoding="utf-8")))
    schemas = directory / EXTRA / "docs" / "reference" / "schemas"
    schemas.mkdir(parents=True)
    for name, schema in {**command_schemas(), **file_schemas()}.items():
        (schemas / name).write_text(json.dumps(schema, indent=1), encoding="utf-8")


if __name__ == "__main__":
    make_source(Path(sys.argv[1]))
