"""Collect the pages of the documentation site for Sphinx: source.py DIRECTORY.

They are the checkout's own pages, which forges show as well, and those that are generated: the pages of the commands,
and one of all messages that hpcmod explains. The navigation is made from the table of docs/pages.md, so that there is
only one list of pages. The directory is made anew.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from hpcmod.core.cli.reference.pages import command_pages
from hpcmod.core.cli.reference.schemas import command_schemas, file_schemas
from hpcmod.runs.known_endings import shipped_endings
from hpcmod.runs.values.endings.ending import parse_endings

CHECKOUT = Path(__file__).resolve().parents[2]
MESSAGES = """# From a message to its cause

Look for a part of your message here; `*` is any text. `hpcmod why FILE` does that with the whole output of a job, and
tells what came first.
"""
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
    pages["If something fails"].append("reference/messages")
    pages["Commands"] = ["/docs/reference/commands/index"]
    pages["About"] = [f"/{name}" for name in ("docs/pages", "README", "CHANGELOG", "CONTRIBUTING", "SECURITY")]
    return "".join(make_toctree(kind, listed) for kind, listed in pages.items())


def make_toctree(kind: str, pages: Iterable[str]) -> str:
    """Return a toctree that only the navigation shows."""
    return f"\n```{{toctree}}\n:hidden:\n:caption: {kind}\n\n{chr(10).join(pages)}\n```\n"


def show_uses(name: str, docs: Path) -> str:
    """Return links to the how-to pages about a command: those that show it most, in the order of the list of pages."""
    listed = re.findall(r"\[([^\]]+)\]\((how-to/[^)]+)\)", (docs / "pages.md").read_text(encoding="utf-8"))
    uses = {
        (title, page): len(re.findall(rf"\bhpcmod {name}\b(?!-)", (docs / page).read_text(encoding="utf-8")))
        for title, page in listed
    }
    shown = [page for page, count in uses.items() if count and count * 3 >= max(uses.values())]
    return "".join(["\n**In use:**\n\n", *(f"- [{title}](../../{page})\n" for title, page in shown[:4])])


def make_messages(docs: Path) -> str:
    """Return the page of all messages: those of the known endings, and those of the tables below "If it fails"."""
    text = MESSAGES
    for topic, toml in shipped_endings().items():
        text += f"\n## {topic.title().replace('Gpu', 'GPU')}\n\n| message | cause, and what to do |\n|---|---|\n"
        for ending in parse_endings(toml, topic):
            lines = "<br>".join(f"`` {line.replace('|', chr(92) + '|')} ``" for line in (*ending.lines, *ending.states))
            source = f" [Source]({ending.source})" if ending.source else ""
            cause = f"**{ending.title[0].upper()}{ending.title[1:]}.** {ending.text}"
            text += f"| {lines} | {cause}<br>{ending.help}{source} |\n"
    text += "\n## hpcmod, and each task\n\n| message | what to do |\n|---|---|\n"
    for path in sorted((docs / "how-to").glob("*.md")):
        page = path.read_text(encoding="utf-8")
        link = f"[{page.partition(chr(10))[0].removeprefix('# ')}](../how-to/{path.name})"
        for rows in re.findall(r"^\| (?:message|you see) \|.*\n\|---.*\n((?:\|.*\n)+)", page, re.MULTILINE):
            rows = re.sub(r"\]\((?=[\w-]+\.md)", "](../how-to/", rows)
            rows = re.sub(r"\]\((?=#)", f"](../how-to/{path.name}", rows)
            text += "".join(f"{row.rstrip(' |')} ({link}) |\n" for row in rows.splitlines())
    return text


def make_source(directory: Path) -> None:
    """Make a directory with all pages."""
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(CHECKOUT / "docs", directory / "docs")
    for path in (*CHECKOUT.glob("*.md"), CHECKOUT / "LICENSE"):
        shutil.copy2(path, directory)
    commands = directory / "docs" / "reference" / "commands"
    commands.mkdir()
    generated = command_pages()
    for name, text in generated.items():
        command = name.removesuffix(".md")
        uses = "" if command in {"index", "json-schemas"} else show_uses(command, directory / "docs")
        (commands / name).write_text(text + uses, encoding="utf-8")
    with (commands / "index.md").open("a", encoding="utf-8") as index:
        index.write(make_toctree("Commands", (name for name in generated if name != "index.md")))
    (directory / "docs" / "reference" / "messages.md").write_text(make_messages(directory / "docs"), encoding="utf-8")
    log = directory / "CHANGELOG.md"  # it has every word, so a search would find it first
    log.write_text(f"---\nnosearch: true\n---\n\n{log.read_text(encoding='utf-8')}", encoding="utf-8")
    with (directory / "docs" / "index.md").open("a", encoding="utf-8") as front:
        front.write(make_navigation((directory / "docs" / "pages.md").read_text(encoding="utf-8")))
    schemas = directory / EXTRA / "docs" / "reference" / "schemas"
    schemas.mkdir(parents=True)
    for name, schema in {**command_schemas(), **file_schemas()}.items():
        (schemas / name).write_text(json.dumps(schema, indent=1), encoding="utf-8")


if __name__ == "__main__":
    make_source(Path(sys.argv[1]))
