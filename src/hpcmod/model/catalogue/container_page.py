"""What a page of the documentation says about one container, decided from its record."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hpcmod.model.catalogue.advisory import VERSION, Advisory
from hpcmod.model.catalogue.record import CatalogueRecord

STATES = (("published", "ready"), ("deprecated", "deprecated"), ("retired", "retired"))
"""State of a record, and the word for it on a page."""

_PRODUCTS = {"rocm": "ROCm", "cuda": "CUDA", "mpi": "MPI", "nccl": "NCCL", "rccl": "RCCL"}


@dataclass(frozen=True)
class Example:
    """Something to copy and run."""

    title: str
    text: str


@dataclass(frozen=True)
class PageRow:
    """One thing that is different from the version before."""

    what: str
    before: str
    """Empty: it was not there."""
    after: str


@dataclass(frozen=True)
class Changes:
    """What is different from the version before."""

    version: str
    rows: tuple[PageRow, ...]


@dataclass(frozen=True)
class Problem:
    """An advisory as a page tells it."""

    title: str
    text: str
    source: str
    expires: str
    where: tuple[str, ...]
    """On which hosts and in which environments; empty: everywhere."""
    cure: tuple[str, ...]
    """Commands of a shell."""


@dataclass(frozen=True)
class ContainerPage:
    """The page of one container. Its texts may be hostile: data until quoted."""

    record: CatalogueRecord
    examples: tuple[Example, ...] = ()
    help: str = ""
    """What `module help` says."""
    advisories: tuple[Problem, ...] = ()
    changes: Changes | None = None
    """Since the version before; None: there is none."""
    successor: str = ""
    """Address of the successor's page, from the top; empty: it has none."""

    @property
    def path(self) -> str:
        """Path of the page below the directory of its kind, without suffix."""
        return f"{self.record.name}/{self.record.version}"

    @property
    def address(self) -> str:
        """Address of the HTML page from the top."""
        return page_address(self.record.module)

    @property
    def markdown_address(self) -> str:
        """Address of the Markdown page from the index of these."""
        return f"{urllib.parse.quote(self.path)}.md"

    @property
    def state(self) -> str:
        """Word for the state."""
        return dict(STATES).get(self.record.state, self.record.state)

    @property
    def summary(self) -> str:
        """The description on one line."""
        text = " ".join(self.record.description.split())
        return text if len(text) <= 240 else f"{text[:239]}…"

    @property
    def facts(self) -> tuple[str, ...]:
        """What a list says of it in a few words each."""
        record = self.record
        built_on = [f"{_PRODUCTS.get(name, name)} {version}" for name, version in record.stack]
        python = [f"Python {record.python}"] if record.python else []
        count = len(record.packages)
        packages = [f"{count} package{'s' if count > 1 else ''}"] if count else []
        site = [record.site] if record.site else []
        return (*built_on, *python, *packages, write_size(record.size), *site)

    @property
    def words(self) -> str:
        """What a search looks at besides the packages."""
        record = self.record
        texts = (record.module, self.summary, *record.aliases, *self.facts, self.state)
        return " ".join(" ".join(texts).split())

    @property
    def table(self) -> tuple[tuple[str, str], ...]:
        """Facts by name, those that are known."""
        record = self.record
        rows = (
            ("Machine", record.site),
            ("Module", record.module),
            *((_PRODUCTS.get(name, name), version) for name, version in record.stack),
            ("Python", record.python),
            ("Architecture", record.architecture),
            ("Size", write_size(record.size)),
            ("Host and image", record.compat),
            ("Image", record.sif),
            ("SHA-256", record.sha256),
            ("From", record.reference),
            ("Signature", record.signature),
            ("List of software inside", record.sbom),
            ("Easyconfig", record.easyconfig),
            ("Published", " by ".join(filter(None, (record.published, record.publisher)))),
        )
        return tuple((name, value) for name, value in rows if value)

    @property
    def pairs(self) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
        """Longer lists of names and values, each with its heading."""
        record = self.record
        found = (("Variables of the image", record.environment), ("Labels of the image", record.labels))
        return tuple((heading, pairs) for heading, pairs in found if pairs)

    @property
    def told(self) -> tuple[str, ...]:
        """What a user must know of its state."""
        record = self.record
        if record.state == "published":
            return ()
        deprecated = f"It may be retired from {record.until} on." if record.until else "It will be retired."
        retired = f"From {record.until} on the module does not load." if record.until else "The module does not load."
        successor = f"Use {record.successor} instead." if record.successor else ""
        reason = f"Reason: {record.reason}" if record.reason else ""
        state = retired if record.state == "retired" else deprecated
        return tuple(filter(None, (state, successor, reason)))


def page_address(module: str) -> str:
    """Address of the HTML page of a module, from the top."""
    return f"containers/{urllib.parse.quote(module)}.html"


def write_size(size: int) -> str:
    """Write a number of bytes for people: 12.3 GB is 12.3 * 10^9 bytes."""
    for unit, bytes_of in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= bytes_of:
            return f"{size / bytes_of:.1f} {unit}"
    return f"{size} B"


def make_problem(advisory: Advisory, cure: Iterable[str]) -> Problem:
    """Make of an advisory what a page tells of it."""
    host = (
        f"{fact.path.replace(VERSION, '…')} {', '.join(f'{bound.operator} {bound.version}' for bound in fact.bounds)}"
        for fact in advisory.host
    )
    variables = (_tell_variable(name, wanted) for name, wanted in advisory.environment)
    where = (*(f"{text.strip()} is there" for text in host), *variables)
    return Problem(advisory.title, advisory.text, advisory.source, advisory.expires, where, tuple(cure))


def _tell_variable(name: str, wanted: str | None) -> str:
    return {None: f"{name} is not set", "*": f"{name} is set"}.get(wanted, f"{name} is {wanted}")


def find_previous(records: Iterable[CatalogueRecord]) -> Mapping[str, CatalogueRecord]:
    """By module, the record of the version before it; records of a name must come with rising versions."""
    found: dict[str, CatalogueRecord] = {}
    last: dict[str, CatalogueRecord] = {}
    for record in records:
        if record.name in last:
            found[record.module] = last[record.name]
        last[record.name] = record
    return found
