"""Counts of module loads by container, group, user and month, and their totals."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from hpcmod.core.values.json_form import json_form, parse_form
from hpcmod.core.values.strict_json import JsonObject, load_json

_MOST = 1_000_000  # rows; each is about 100 bytes
_LIMIT = 256 << 20  # bytes


@dataclass(frozen=True)
class Count:
    """Loads of a module by one user or group in one month."""

    module: str
    """Short module name."""
    month: str
    """YYYY-MM; empty: of all months."""
    group: str
    """Primary group id of the loads; empty: not known."""
    user: str
    """User id; empty: not recorded."""
    loads: int
    last: int
    """Time of the last load, in seconds since 1970."""


@dataclass(frozen=True)
class Totals:
    """Counts that load files were added to, and the names of the files about to be removed."""

    counts: tuple[Count, ...] = ()
    folded: frozenset[str] = frozenset()
    """Names of files that are already included in the counts but not yet removed by an interrupted run."""


def add_up(counts: Iterable[Count], key: Callable[[Count], Count]) -> tuple[Count, ...]:
    """Sum counts that are equal under a key; the result is sorted.

    `key`: Returns a count with the irrelevant fields emptied; its numbers are ignored.
    """
    loads: dict[Count, int] = defaultdict(int)
    last: dict[Count, int] = {}
    for count in counts:
        kind = replace(key(count), loads=0, last=0)
        loads[kind] += count.loads
        last[kind] = max(last.get(kind, 0), count.last)
    kinds = sorted(loads, key=lambda count: (count.module, count.month, count.group, count.user))
    return tuple(replace(kind, loads=loads[kind], last=last[kind]) for kind in kinds)


def render_totals(totals: Totals) -> str:
    """Render the totals file."""
    rows = [json_form(count) for count in totals.counts]
    return json.dumps({"format": 1, "counts": rows, "folded": sorted(totals.folded)}, indent=0) + "\n"


def parse_totals(text: bytes, where: str) -> Totals:
    """Parse the totals file; raise BadInputError if it is damaged."""
    data = JsonObject(load_json(text, where, limit=_LIMIT), where)
    counts = tuple(parse_form(Count, count) for count in data.objects("counts", _MOST))
    folded = data.values.get("folded")
    names = folded if isinstance(folded, list) else []
    return Totals(counts, frozenset(name for name in names if isinstance(name, str)))
