"""The documentation as a web site: it builds without warnings, and needs no other server."""

from __future__ import annotations

import json
import os
import re
import runpy
import sys
from pathlib import Path

import pytest

from hpcmod.core.cli.reference.pages import command_pages
from hpcmod.core.cli.reference.schemas import command_schemas, file_schemas
from tests.stack import CHECKOUT, run

pytestmark = pytest.mark.slow

PAGES = [*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as dev/docs does; a warning, such as a dead link, is a failure."""
    directory = tmp_path_factory.mktemp("site")
    pages, html, settings = directory / "pages", directory / "html", CHECKOUT / "dev" / "site"
    runpy.run_path(str(settings / "source.py"))["make_source"](pages)
    sphinx = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", str(settings), str(pages), str(html)]
    done = run(sphinx, os.environ)
    assert (done.returncode, done.stderr) == (0, "")
    return html


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_every_page_is_in_the_site_and_its_navigation(site: Path) -> None:
    pages = {path.relative_to(CHECKOUT).with_suffix(".html").as_posix() for path in PAGES}
    pages |= {f"docs/reference/commands/{name.removesuffix('.md')}.html" for name in command_pages()}
    assert [name for name in pages if not (site / name).is_file()] == []
    links = re.findall(r'class="reference internal" href="([^"#]+)"', read(site / "docs" / "index.html"))
    assert pages - {os.path.normpath(f"docs/{link}") for link in links} == {"docs/index.html"}
    assert "docs/index.html" in read(site / "index.html")


def test_every_schema_is_a_file_of_the_site_that_a_page_links_to(site: Path) -> None:
    page = site / "docs" / "reference" / "commands" / "json-schemas.html"
    linked = re.findall(r'href="(\.\./schemas/[^"]+)"', read(page))
    assert {Path(link).name for link in linked} == {*command_schemas(), *file_schemas()}
    assert all("$schema" in json.loads(read(page.parent / link)) for link in linked)


def test_pages_load_nothing_from_another_server(site: Path) -> None:
    loading = re.compile(r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=\"(?:https?:)?//")
    assert [path.name for path in site.rglob("*.html") if loading.search(read(path))] == []
    styling = re.compile(r"url\([\"']?(?:https?:)?//|@import")
    assert [path.name for path in site.rglob("*.css") if styling.search(read(path))] == []
