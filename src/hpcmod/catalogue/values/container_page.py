"""Content of a container's documentation page, derived from its record."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from hpcmod.catalogue.values.advisory import VERSION, Advisory
from hpcmod.catalogue.values.record import CatalogueRecord, refusal
from hpcmod.core.values.text import format_size

STATES = (("published", "ready"), ("deprecated", "deprecated"), ("retired", "retired"))
"""Record state, and the word for it on a page."""

_PRODUCTS = {"rocm": "ROCm", "cuda": "CUDA", "mpi": "MPI", "nccl": "NCCL", "rccl": "RCCL"}


class Example(NamedTuple):
    """A command to copy and run."""

    title: str
    text: str


class PageRow(NamedTuple):
    """One difference from the previous version."""

    what: str
    before: str
    """Empty if the previous version did not have it."""
    after: str


class Problem(NamedTuple):
    """An advisory as shown on a page."""

    advisory: Advisory
    where: tuple[str, ...]
    """Affected hosts and environments; empty means all."""
    cure: tuple[str, ...]
    """Shell commands."""


@dataclass(frozen=True)
class ContainerPage:
    """The page of one container. Its strings may be hostile: treat them as data until quoted."""

    record: CatalogueRecord
    examples: tuple[Example, ...] = ()
    help: str = ""
    """The text of `module help`."""
    advisories: tuple[Problem, ...] = ()
    previous: str = ""
    """The previous version; empty if there is none."""
    changes: tuple[PageRow, ...] = ()
    """Differences from the previous version."""
    successor: str = ""
    """URL path of the successor's page, relative to the site root; empty if there is no successor."""

    @property
    def path(self) -> str:
        """Return the page's path below the directory of its kind, without suffix."""
        return f"{self.record.name}/{self.record.version}"

    @property
    def address(self) -> str:
        """Return the URL path of the HTML page, relative to the site root."""
        return page_address(self.record.module)

    @property
    def state(self) -> str:
        """Return the word for the record's state; for a published container that only a group may read, another."""
        if self.record.readers and self.record.state == "published":
            return "restricted"
        return dict(STATES).get(self.record.state, self.record.state)

    @property
    def summary(self) -> str:
        """Return the description on one line."""
        text = " ".join(self.record.publication.description.split())
        return text if len(text) <= 240 else f"{text[:239]}…"

    @property
    def facts(self) -> tuple[str, ...]:
        """Return short facts for lists of containers."""
        content, count = self.record.content, len(self.record.content.packages)
        facts = (
            *(f"{_PRODUCTS.get(name, name)} {version}" for name, version in content.stack),
            f"Python {content.python}" if content.python else "",
            f"{count} package{'s' * (count > 1)}" if count else "",
            format_size(self.record.size),
            self.record.publication.site,
        )
        return tuple(filter(None, facts))

    @property
    def words(self) -> str:
        """Return the text to search, besides the package names."""
        record = self.record
        texts = (record.module, self.summary, *record.aliases, *record.content.targets, *self.facts, self.state)
        return " ".join(" ".join(texts).split())

    @property
    def table(self) -> tuple[tuple[str, str], ...]:
        """Return the known facts as pairs of label and value."""
        record, content, publication = self.record, self.record.content, self.record.publication
        published = (publication.published, publication.publisher)
        rows = (
            ("Machine", publication.site),
            ("Module", record.module),
            *((_PRODUCTS.get(name, name), version) for name, version in content.stack),
            ("Python", content.python),
            ("Architecture", content.architecture),
            ("Built for", " ".join(content.targets)),
            ("Size", format_size(record.size)),
            ("Host and image", publication.compat),
            ("Image", record.sif),
            ("SHA-256", record.sha256),
            ("From", publication.origin),
            ("Signature", publication.signature),
            ("List of software inside", content.sbom),
            ("Easyconfig", publication.easyconfig),
            ("Published", " by ".join(filter(None, published)) if published[0] else ""),
        )
        return tuple((name, value) for name, value in rows if value)

    @property
    def pairs(self) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
        """Return the longer tables of names and values, each with its heading."""
        content = self.record.content
        sections = (("Variables of the image", content.environment), ("Image labels", content.labels))
        return tuple((heading, pairs) for heading, pairs in sections if pairs)

    @property
    def told(self) -> tuple[str, ...]:
        """Return what users must know about the container's state."""
        notice = self.record.notice
        restricted = (refusal(self.record),) if self.record.readers else ()
        if self.record.state == "published":
            return restricted
        if self.record.state == "retired":
            state = f"The module does not load{f' from {notice.until}' if notice.until else ''}."
        else:
            state = f"It may be retired on or after {notice.until}." if notice.until else "It will be retired."
        successor = f"Use {notice.successor} instead." if notice.successor else ""
        reason = f"Reason: {notice.reason}" if notice.reason else ""
        return tuple(filter(None, (*restricted, state, successor, reason)))


def page_address(module: str) -> str:
    """Return the URL path of a module's HTML page, relative to the site root."""
    return f"containers/{urllib.parse.quote(module)}.html"


def make_problem(advisory: Advisory, cure: Iterable[str]) -> Problem:
    """Return an advisory in the form shown on a page."""
    host = (
        f"{fact.path.replace(VERSION, '…')} {', '.join(f'{bound.operator} {bound.version}' for bound in fact.bounds)}"
        for fact in advisory.host
    )
    variables = (_tell_variable(name, pattern) for name, pattern in advisory.environment)
    where = (*(f"{text.strip()} is present" for text in host), *variables)
    return Problem(advisory, where, tuple(cure))


def _tell_variable(name: str, pattern: str | None) -> str:
    return {None: f"{name} is not set", "*": f"{name} is set"}.get(pattern, f"{name} is {pattern}")
