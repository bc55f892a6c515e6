"""Settings of Sphinx, which builds the documentation as a web site: run dev/docs.

source.py collects the pages, and makes the navigation. The site loads nothing from other servers.
"""

from __future__ import annotations

from sphinx.application import Sphinx

import hpcmod

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


def setup(app: Sphinx) -> None:
    """Add the files that are no pages."""
    app.config.html_extra_path = [str(app.srcdir / "extra")]
