from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from hpcmod.catalogue.text.page import ASSETS, Documentation, render_html, render_packages
from hpcmod.catalogue.values.advisory import Advisory
from hpcmod.catalogue.values.container_page import ContainerPage, Example, PageRow, Problem
from hpcmod.catalogue.values.record import Check
from hpcmod.catalogue.visible.documentation import page_files
from hpcmod.core.values.facts import Package
from tests.catalogues import make_record
from tests.plans import HOSTILE

TEMPLATES = page_files()
TAGS = {
    **HOSTILE,
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "attribute": "\" onmouseover=alert(1) x='y",
    "markdown": "[x](javascript:alert(1)) ![y](z) **b** `c` | d <https://example.org> ~~i~~",
    "turned": "a\u202eb\u2028c\u2066d\u200fe",
    "lines of markdown": "a\n# b\n- c\n1. d\n> e\n---\n",
}


def page_of(text: str) -> ContainerPage:
    """Return a page in which every value that may come from outside is this text."""
    record = make_record(
        "Evil/1",
        **dict.fromkeys(("site", "description", "homepage", "reference", "signature", "reason", "successor"), text),
        **dict.fromkeys(("compat", "sbom", "publisher", "published", "python", "architecture"), text),
        **dict.fromkeys(("labels", "environment", "stack"), ((text, text),)),
        state="deprecated",
        aliases=("stable",),
        packages=(Package(text, text),),
        checks=(Check(text, passed=True, when=text, sha256="", under=text),),
    )
    return ContainerPage(
        record,
        examples=(Example(text, text),),
        help=text,
        advisories=(Problem(Advisory("x", text, text, "https://example.org/1", text, text), (text,), (text,)),),
        previous=text,
        changes=(PageRow(text, text, text),),
        successor="containers/Other/1.html",
    )


def documentation(*pages: ContainerPage, title: str = "Title") -> Documentation:
    return Documentation(title, pages, "2026-11-21")


class Skeleton(HTMLParser):
    """Tags with the names of their attributes, and targets of links: no text may change them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, ...]] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, *(name for name, _ in attrs)))
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]


@pytest.mark.parametrize("text", TAGS.values(), ids=TAGS)
def test_hostile_text_changes_nothing_about_the_page_but_its_text(text: str) -> None:
    tame = dict(render_html(documentation(page_of("tame"), title="tame"), TEMPLATES))
    for path, html in render_html(documentation(page_of(text), title=text), TEMPLATES):
        if path.endswith(".html"):
            assert Skeleton(html).tags == Skeleton(tame[path]).tags
            assert Skeleton(html).links == Skeleton(tame[path]).links
            turning = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
            assert not re.search(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{turning}\ufffe]", html)


@pytest.mark.parametrize(
    ("address", "links"),
    [
        ("https://pytorch.org/", True),
        ("http://example.org/a?b=c", True),
        ("javascript:alert(1)", False),
        ("data:text/html,x", False),
        ("//example.org", False),
        ("https://a b", False),
    ],
)
def test_only_addresses_of_the_web_are_links(address: str, links: bool) -> None:
    page = ContainerPage(make_record("A/1", homepage=address))
    html = dict(render_html(documentation(page), TEMPLATES))["containers/A/1.html"]
    assert (address in Skeleton(html).links) is links
    assert address in html


def test_nothing_is_loaded_from_elsewhere_and_nothing_runs_within_a_page() -> None:
    for path, html in render_html(documentation(page_of("tame")), TEMPLATES):
        if path.endswith(".html"):
            sources = re.findall(r'(?:src|<link rel="stylesheet" href)="([^"]*)"', html)
            assert all(re.fullmatch(r"(\.\./)*assets/[a-z.]+", source) for source in sources)
            assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=", html)
            assert "default-src 'none'" in html


def test_every_link_between_pages_points_to_a_page() -> None:
    pages = [ContainerPage(make_record(f"A/{version}", aliases=("x",))) for version in ("1+cu12", "2~rc1", "3")]
    files = dict(render_html(documentation(*pages), TEMPLATES))
    found = {link.replace("%2B", "+").replace("%7E", "~") for link in Skeleton(files["index.html"]).links}
    assert found - {"#main"} == set(files) - {"index.html"}
    assert {f"assets/{name}" for name in ASSETS} <= set(files)


def test_the_search_knows_every_package_of_every_container_by_its_place_in_the_list() -> None:
    pages = [
        ContainerPage(make_record("A/1", packages=(Package("x", "1"), Package("</script>", "\u2028")))),
        ContainerPage(make_record("A/2", packages=())),
        ContainerPage(make_record("A/3", packages=(Package("y", "2"), Package("x", "1")))),
    ]
    text = render_packages(pages)
    assert text.isascii()
    found = json.loads(text.removeprefix("window.hpcmodPackages = ").rstrip(";\n"))
    assert found == {"names": ["x 1", "</script> \u2028", "y 2"], "of": [[0, 1], [], [2, 0]]}


def test_a_container_without_examples_has_no_heading_for_them() -> None:
    page = ContainerPage(make_record("A/1", state="retired"))
    assert "Use it" not in dict(render_html(documentation(page), TEMPLATES))["containers/A/1.html"]


def test_one_package_is_one() -> None:
    facts = ContainerPage(make_record("A/1", packages=(Package("x", "1"),))).facts
    assert "1 package" in facts


@pytest.mark.parametrize(
    ("modules", "count", "none"), [([], "0 containers", "No containers yet."), (["A/1"], "1 container", "No matches.")]
)
def test_a_list_of_none_and_of_one_says_so(modules: list[str], count: str, none: str) -> None:
    pages = [ContainerPage(make_record(module)) for module in modules]
    html = dict(render_html(documentation(*pages), TEMPLATES))["index.html"]
    assert f">{count}</p>" in html
    assert none in html
