"""Settings of Sphinx, which builds the documentation as a web site: run dev/docs.

source.py collects the pages: the Markdown files of the checkout, which forges show as well, and the reference of the
commands. The navigation is generated from the table of docs/pages.md, so that there is only one list of pages. The
site loads nothing from other servers.
"""

from __future__ import annotations

import re

from sphinx.application import Sphinx

import hpcmod
from hpcmod.core.cli.reference.pages import command_pages

project = "hpcmod"
copyright = "the hpcmod authors"  # noqa: A001 - Sphinx's name
version = release = hpcmod.__version__

extensions = ["myst_parser"]
root_doc = "docs/index"
myst_heading_anchors = 4
nitpicky = True

html_theme = "furo"
html_title = f"hpcmod {version}"
html_copy_source = False
html_show_sphinx = False
html_additional_pages = {"index": "redirect.html"}
templates_path = ["."]


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


def add_navigation(app: Sphinx, name: str, source: list[str]) -> None:
    """Append the navigation to the front page."""
    if name == root_doc:
        source[0] += make_navigation((app.srcdir / "docs/pages.md").read_text(encoding="utf-8"))


def setup(app: Sphinx) -> None:
    """Register what this file adds to Sphinx."""
    app.config.html_extra_path = [str(app.srcdir / "extra")]
    app.connect("source-read", add_navigation)
