"""The documentation as a web site: it builds without warnings, and needs no other server."""

from __future__ import annotations

import html
import json
import os
import re
import runpy
import sys
from pathlib import Path

import pytest

from hpcmod.core.cli.reference.pages import command_pages
from hpcmod.core.cli.reference.schemas import command_schemas, file_schemas
from hpcmod.runs.known_endings import shipped_endings
from hpcmod.runs.values.endings.ending import parse_endings
from tests.stack import CHECKOUT, run

pytestmark = pytest.mark.slow

PAGES = [*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as dev/docs does; a warning, such as a dead link, is a failure."""
    directory = tmp_path_factory.mktemp("site")
    pages, made, settings = directory / "pages", directory / "html", CHECKOUT / "dev" / "site"
    runpy.run_path(str(settings / "source.py"))["make_source"](pages)
    sphinx = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", str(settings), str(pages), str(made)]
    done = run(sphinx, os.environ)
    assert (done.returncode, done.stderr) == (0, "")
    return made


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_every_page_is_in_the_site_and_its_navigation(site: Path) -> None:
    pages = {path.relative_to(CHECKOUT).with_suffix(".html").as_posix() for path in PAGES}
    pages |= {f"docs/reference/commands/{name.removesuffix('.md')}.html" for name in command_pages()}
    assert [name for name in pages if not (site / name).is_file()] == []
    links = re.findall(r'class="reference internal" href="([^"#]+)"', read(site / "docs" / "index.html"))
    assert pages - {os.path.normpath(f"docs/{link}") for link in links} == {"docs/index.html"}
    assert "docs/index.html" in read(site / "index.html")


def test_every_page_of_a_command_links_to_a_page_that_shows_it_in_use(site: Path) -> None:
    names = [name.removesuffix(".md") for name in command_pages() if name not in {"index.md", "json-schemas.md"}]
    written = {name: read(site.parent / "pages" / "docs" / "reference" / "commands" / f"{name}.md") for name in names}
    assert [name for name, text in written.items() if "](../../how-to/" not in text.partition("**In use:**")[2]] == []


def test_a_page_has_every_message_that_hpcmod_explains(site: Path) -> None:
    text = " ".join(html.unescape(re.sub("<[^>]+>", "", read(site / "docs/reference/messages.html"))).split())
    endings = [ending for name, toml in shipped_endings().items() for ending in parse_endings(toml, name)]
    assert [line for ending in endings for line in ending.lines if " ".join(line.split()) not in text] == []
    assert "neither its reference nor its labels give a version" in text  # from a table of a how-to


def test_a_search_does_not_find_the_change_log(site: Path) -> None:
    index = json.loads(read(site / "searchindex.js").removeprefix("Search.setIndex(").removesuffix(")"))
    log, jobs = (index["docnames"].index(page) for page in ("CHANGELOG", "docs/how-to/jobs"))
    found = {page for pages in index["terms"].values() for page in ([pages] if isinstance(pages, int) else pages)}
    assert jobs in found
    assert log not in found


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


def test_every_page_has_a_heading_for_readers_without_a_screen(site: Path) -> None:
    assert [path.name for path in site.rglob("*.html") if "<h1" not in read(path)] == ["index.html"]  # leads to docs/
