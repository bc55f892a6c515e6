"""Settings of Sphinx, which builds the documentation as a web site: run dev/docs.

source.py collects the pages, and makes the navigation. The site loads nothing from other servers.
"""

from __future__ import annotations

import os
from typing import Any

from sphinx.application import Sphinx

import hpcmod

project = "hpcmod"
copyright = "the hpcmod authors"  # noqa: A001 - Sphinx's name
version = release = hpcmod.__version__

extensions = ["myst_parser"]
root_doc = "docs/index"
myst_heading_anchors = 4
nitpicky = True
smartquotes = False  # it makes a dash of the two of an option

html_theme = "furo"
html_title = f"hpcmod {version}"
html_copy_source = False
html_show_sphinx = False
html_additional_pages = {"index": "redirect.html"}
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = [("copy.js", {"defer": "defer"})]
html_theme_options = {"source_edit_link": os.environ.get("HPCMOD_DOCS_EDIT", "")}
templates_path = ["."]


ACCESSIBLE = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<aside class="toc-drawer': '<aside aria-label="Sections" class="toc-drawer',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    '<div id="search-results">': '<h1>Search</h1><div id="search-results">',
}
"""What the theme writes, and what a reader without a mouse or a screen needs instead."""


def setup(app: Sphinx) -> None:
    """Add the files that are no pages, and change the pages that are written."""
    app.config.html_extra_path = [str(app.srcdir / "extra")]
    app.connect("html-page-context", hide_edit_link)
    app.connect("build-finished", make_accessible)


def hide_edit_link(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Remove the link to edit a page where the page is generated."""
    if page.startswith("docs/reference/commands/") or page == "docs/reference/messages":
        context["page_source_suffix"] = ""


def make_accessible(app: Sphinx, fault: Exception | None) -> None:
    """Name the parts of each page, and let the keyboard scroll what is wide."""
    for page in app.outdir.rglob("*.html"):
        text = page.read_text()
        for written, wanted in ACCESSIBLE.items():
            text = text.replace(written, wanted)
        page.write_text(text)
