"""One rule of the log reader: the lines it matches, the facts in them, and what to do about a problem."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

FACT, REASON, PROBLEM = "fact", "reason", "problem"
"""reason: harmless, but explains why a faster network is not used; problem: communication failed or may fail."""

NETWORKS = (("OFI", r"AWS Libfabric|OFI|Libfabric"), ("IB", r"IB(?:ext)?(?:_v\d+)?|IB-CAST|IBP"), ("Socket", r"Socket"))
"""Networks of NCCL and RCCL, and a pattern of the names that their releases and plugins print."""

_NETWORK_FIELDS = ("network", "via")


@dataclass(frozen=True)
class Rule:
    """Lines that mean the same thing."""

    name: str
    library: str
    mark: str
    """Text that every such line contains; tested first, because it is much faster than the pattern."""
    pattern: str
    """Regular expression for a part of the line."""
    facts: tuple[tuple[str, str], ...] = ()
    """Field and value; {group} is replaced by a group of the pattern."""
    many: tuple[tuple[str, str], ...] = ()
    """Field and a pattern with one group: each match in the line is a value."""
    counted: tuple[tuple[str, str], ...] = ()
    """Field and a pattern: the number of matches in the line is the value."""
    kind: str = FACT
    hinders: str = ""
    """For a reason: the only network that it concerns, as in NETWORKS; empty: any."""
    meaning: str = ""
    cure: str = ""
    source: str = ""
    """Where such a line was seen or is documented."""

    def match(self, line: str) -> list[tuple[str, str]] | None:
        """Return the facts of a line as pairs of field and value; None if the rule is not about it."""
        if self.mark not in line:
            return None
        found = _compiled(self.pattern).search(line)
        return None if found is None else list(self._read(line, found))

    def _read(self, line: str, found: re.Match[str]) -> Iterator[tuple[str, str]]:
        groups = {name: (value or "").strip() for name, value in found.groupdict().items()}
        for field, template in self.facts:
            yield (
                field,
                name_network(template.format(**groups)) if field in _NETWORK_FIELDS else template.format(**groups),
            )
        for field, pattern in self.many:
            yield from ((field, value) for value in _compiled(pattern).findall(line))
        for field, pattern in self.counted:
            yield field, str(len(_compiled(pattern).findall(line)))
        if self.kind != FACT:
            yield self.kind, self.name


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def name_network(printed: str) -> str:
    """Return OFI, IB or Socket for a name that NCCL prints; other names are returned as they are."""
    return next((name for name, pattern in NETWORKS if _compiled(pattern).fullmatch(printed)), printed)
