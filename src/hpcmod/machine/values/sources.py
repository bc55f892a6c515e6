"""Where the values of a site profile come from: its `[sources]`, and the comments that name them as `[tag]`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

OURS = "ours"
"""The tag of a choice that hpcmod made, which is not a fact about the machine."""

_PLACE = re.compile(
    r"(?:(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<commit>[0-9a-f]{12})[0-9a-f]*:(?P<path>[^\s:]+)|#(?P<number>\d+))"
    r"|https://\S+)"
)

_KEY = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[\w.-])+)\s*=\s*(.*)""")

_NO_FACTS = re.compile(r"(name|extends|description|tried|nodes\.default|sources\..*|binds\.why.*)")
"""Keys that say nothing about a machine."""


class ProfileSource(NamedTuple):
    """A document with values of a profile: a file of a public repository at a commit, an issue there, or a page."""

    place: str
    """`OWNER/NAME@COMMIT:PATH`, `OWNER/NAME#NUMBER`, or an address."""
    date: str
    """The day of the commit, or when the issue or page was read: YYYY-MM-DD."""
    repository: str = ""
    commit: str = ""
    """Its first 12 digits."""
    path: str = ""
    number: str = ""

    @classmethod
    def parse(cls, text: str) -> ProfileSource:
        """Parse a place and a date.

        Raises ValueError if it has another form.
        """
        place, _, date = text.rpartition(" ")
        match = _PLACE.fullmatch(place)
        if not match or not re.fullmatch(r"\d{4}-[01]\d-[0-3]\d", date):
            raise ValueError(
                "must be OWNER/NAME@COMMIT:PATH, with 12 digits of the commit or more, OWNER/NAME#NUMBER, or an https "
                f"address, then the date as YYYY-MM-DD, found {text!r}"
            )
        return cls(place, date, **{name: part or "" for name, part in match.groupdict().items()})

    @property
    def address(self) -> str:
        """Return where a browser shows it."""
        forge = f"https://github.com/{self.repository}"
        if self.path:
            return f"{forge}/blob/{self.commit}/{self.path}"
        return f"{forge}/issues/{self.number}" if self.number else self.place

    def __str__(self) -> str:
        """Return the form that is parsed."""
        return f"{self.place} {self.date}"


class Entry(NamedTuple):
    """A line of a profile that sets a key, or begins a table."""

    key: str
    """Dotted, without quotes."""
    line: int
    """Counted from 1."""
    comment: str
    """The lines of comment above it, up to another comment or an empty line, and those behind its value."""
    says_something: bool
    """Whether it is a value about a machine."""

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the tags in its comment, without repetitions."""
        return tuple(dict.fromkeys(re.findall(r"\[([a-z][a-z0-9]*)\]", self.comment)))


def list_entries(text: str) -> Iterator[Entry]:
    """Yield the entries of a profile in the order of their lines, which the TOML parser does not report."""
    table = comment = before = ""
    entry = Entry("", 0, "", says_something=False)
    for number, line in enumerate(text.splitlines(), 1):
        header = re.fullmatch(r"\s*\[([^\[\]/]+)\]\s*(#.*)?", line)
        match = _KEY.match(line)
        if line.startswith("#") or not line.strip():
            comment = f"{comment} {line}" if before.startswith("#") else line
        elif begin := header or match:
            yield entry
            key = begin[1] if header else f"{table}.{begin[1]}".lstrip(".")
            key = re.sub(r"[\s\"']" if header else "[\"']", "", key)
            table = key if header else table
            says = match is not None and not _NO_FACTS.fullmatch(key) and not re.match(r"\[\]\s*(#|$)", match[2])
            entry = Entry(key, number, f"{comment} {line.partition(' # ')[2]}", says)
        else:
            entry = entry._replace(comment=f"{entry.comment} {line.partition('#')[2]}")
        before = line
    yield entry
