"""The documentation as a web site: it builds without warnings, has a search, and needs no other server."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.stack import CHECKOUT, run

pytestmark = pytest.mark.slow

PAGES = [*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as dev/docs does; a warning, such as a dead link, is a failure."""
    place = tmp_path_factory.mktemp("site")
    settings = ["-W", "--keep-going", "-d", str(place / "trees"), "-c", str(CHECKOUT / "dev" / "site")]
    done = run([sys.executable, "-m", "sphinx", "-q", *settings, str(CHECKOUT), str(place / "html")], os.environ)
    assert (done.returncode, done.stderr) == (0, "")
    return place / "html"


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_every_page_is_in_the_site_and_its_navigation(site: Path) -> None:
    pages = {path.relative_to(CHECKOUT).with_suffix(".html").as_posix() for path in PAGES}
    assert [name for name in pages if not (site / name).is_file()] == []
    links = re.findall(r'class="reference internal" href="([^"#]+)"', read(site / "docs" / "index.html"))
    assert pages - {os.path.normpath(f"docs/{link}") for link in links} == {"docs/index.html"}
    assert "docs/index.html" in read(site / "index.html")


def test_the_search_finds_a_word_of_a_page(site: Path) -> None:
    index = json.loads(read(site / "searchindex.js").partition("(")[2].rpartition(")")[0])
    found = [index[kind]["quota"] for kind in ("terms", "titleterms")]
    numbers = {number for one in found for number in (one if isinstance(one, list) else [one])}
    assert "docs/how-to/quota" in {index["docnames"][number] for number in numbers}


def test_pages_load_nothing_from_another_server(site: Path) -> None:
    loading = re.compile(r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=\"(?:https?:)?//")
    assert [path.name for path in site.rglob("*.html") if loading.search(read(path))] == []
    styling = re.compile(r"url\([\"']?(?:https?:)?//|@import")
    assert [path.name for path in site.rglob("*.css") if styling.search(read(path))] == []
