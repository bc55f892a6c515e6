"""Render the documentation of a catalogue: web pages and the search index."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2

from hpcmod.catalogue.values.container_page import STATES, ContainerPage

Templates = Mapping[str, str]
"""Contents of pages/, by file name; see hpcmod.core.resources."""

ASSETS = ("style.css", "catalogue.js")
"""Files of pages/ that are copied unchanged."""

_ADDRESS = re.compile(r"https?://[A-Za-z0-9][!-~]*")


@dataclass(frozen=True)
class Documentation:
    """The content of a catalogue's pages."""

    title: str
    pages: tuple[ContainerPage, ...]
    """In the order of the list of containers."""
    made: str
    """Date of rendering, for people."""


def render_html(documentation: Documentation, templates: Templates) -> Iterator[tuple[str, str]]:
    """Yield the web pages: path relative to the site root, and text."""
    environment = _html_environment(tuple(templates.items()))
    values = {"title": documentation.title, "made": documentation.made}
    index = environment.get_template("index.html.j2")
    machines = sorted({page.record.publication.site for page in documentation.pages} - {""})
    yield "index.html", index.render(values, root="", pages=documentation.pages, machines=machines, states=STATES)
    for name in ASSETS:
        yield f"assets/{name}", templates[name]
    yield "assets/packages.js", render_packages(documentation.pages)
    container = environment.get_template("container.html.j2")
    for page in documentation.pages:
        yield f"containers/{page.path}.html", container.render(values, root="../../", page=page)


def render_packages(pages: Sequence[ContainerPage]) -> str:
    """Render the search index: each package's name and version once, and the indexes of each container's packages.

    A script rather than JSON, because a page opened from a file may load adjacent scripts but nothing else.
    """
    numbers: dict[str, int] = {}
    of = [
        [numbers.setdefault(f"{package.name} {package.version}", len(numbers)) for package in packages]
        for packages in (page.record.content.packages for page in pages)
    ]
    return f"window.hpcmodPackages = {json.dumps({'names': list(numbers), 'of': of}, separators=(',', ':'))};\n"


@functools.lru_cache(maxsize=1)
def _html_environment(templates: tuple[tuple[str, str], ...]) -> jinja2.Environment:
    """Return an environment for pages in HTML, which quotes all text and cleans it for display."""
    environment = jinja2.Environment(
        loader=jinja2.DictLoader(dict(templates)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=presentable,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.tests["address"] = lambda text: bool(_ADDRESS.fullmatch(text))
    return environment


def presentable(value: Any) -> Any:
    """Replace characters that are invalid in HTML or change the text direction."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    lines = value.replace("\r\n", "\n").replace("\r", "\n")
    return re.sub(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]",
        "\ufffd",
        lines,
    )
