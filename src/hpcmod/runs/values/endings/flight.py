"""Dumps of PyTorch's flight recorder: the first collective in which the ranks of a group differ.

The format is that of https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html: per rank a pickle, or
JSON, with the collectives in the order in which the rank called them.
"""

from __future__ import annotations

import re
import reprlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpcmod.core.errors import BadInputError
from hpcmod.runs.values.endings.traceback import name_place

LARGEST_DUMP = 64 << 20
"""Bytes of one file; 2000 collectives with their stacks are about 2 MB."""

_MOST_ENTRIES = 200_000
_BRIEF = reprlib.Repr()  # a dump may refer to one list many times, and would be huge in full
_BRIEF.maxlist = _BRIEF.maxtuple = 20
_BRIEF.maxlevel = 3
_LIBRARIES = ("site-packages/", "dist-packages/", "/lib/python3", "<frozen ", "torch/distributed/")


@dataclass(frozen=True)
class Collective:
    """One call of one rank."""

    number: int
    """Counted within its group, from 1."""
    operation: str
    """E.g. all_reduce."""
    sizes: str
    """Sizes and types of the tensors, e.g. "[[3, 4]] Float"."""
    state: str
    """scheduled, started or completed."""
    place: str
    """File and line of the user's code; empty if the dump has no stacks."""

    @property
    def shown(self) -> str:
        """Return the call in words."""
        return " ".join(part for part in (self.operation, self.sizes, f"at {self.place}" if self.place else "") if part)


@dataclass(frozen=True)
class Dump:
    """What one rank recorded."""

    rank: int
    groups: Mapping[str, Mapping[int, Collective]]
    """By process group, the collectives by their number."""


@dataclass(frozen=True)
class DifferentCall:
    """A call in words, and the ranks that made it."""

    call: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class MissingRank:
    """A rank that did not call it, and its last call in words."""

    rank: int
    last: str


@dataclass(frozen=True)
class Mismatch:
    """The first collective of a group in which its ranks differ."""

    group: str
    number: int
    calls: tuple[DifferentCall, ...]
    missing: tuple[MissingRank, ...]


def rank_of_file(name: str) -> int:
    """Return the rank in the name of a dump, its last number; -1 if it has none."""
    match = re.search(r"(\d{1,7})(?:\.\w{1,8})?$", name)
    return int(match[1]) if match else -1


def is_dump(data: bytes) -> bool:
    """Return whether a file begins as a dump does: a pickle of protocol 2 or later, or JSON with entries."""
    return data[:1] == b"\x80" or (data[:1] == b"{" and b'"entries"' in data[:LARGEST_DUMP])


def parse_dump(values: Any, rank: int, where: str) -> Dump:
    """Parse the dump of one rank, which was a pickle or JSON.

    Raises BadInputError if it is not a dump of the flight recorder.
    """
    entries = values.get("entries") if isinstance(values, dict) else None
    if not isinstance(entries, list) or len(entries) > _MOST_ENTRIES:
        raise BadInputError(f"{where}: not a dump of PyTorch's flight recorder: no list of entries")
    groups: dict[str, dict[int, Collective]] = defaultdict(dict)
    for entry in entries:
        if isinstance(entry, dict) and not entry.get("is_p2p") and isinstance(entry.get("collective_seq_id"), int):
            call = _parse_call(entry)
            groups[_name_group(entry)][call.number] = call
    return Dump(rank, dict(groups))


def _name_group(entry: Mapping[Any, Any]) -> str:
    group = entry.get("process_group")
    parts = group if isinstance(group, (list, tuple)) else [entry.get("pg_id", "?")]
    return " ".join(_text(part) for part in parts[:4] if part != "").strip() or "?"


def _parse_call(entry: Mapping[Any, Any]) -> Collective:
    sizes, types = entry.get("input_sizes"), entry.get("input_dtypes")
    shown = [
        _text(sizes) if isinstance(sizes, list) and sizes else "",
        ",".join(sorted(set(map(_text, types))))[:80] if isinstance(types, list) else "",
    ]
    return Collective(
        number=int(entry["collective_seq_id"]),
        operation=_text(entry.get("profiling_name", "?")).rpartition(":")[2],
        sizes=" ".join(filter(None, shown)),
        state=_text(entry.get("state", "")),
        place=_find_place(entry.get("frames")),
    )


def _text(value: Any) -> str:
    """Return a value as one short text, however large it is, and whatever characters it has."""
    text = value if isinstance(value, str) else _BRIEF.repr(value)
    return text[:80].encode(errors="replace").decode()


def _find_place(frames: Any) -> str:
    """Return the innermost frame of the user's code; the recorder lists the innermost one first."""
    for frame in frames if isinstance(frames, list) else ():
        file = str(frame.get("filename", ""))[:500] if isinstance(frame, dict) else ""
        if file and not any(part in file for part in _LIBRARIES):
            return name_place(
                _text(file.rpartition("/")[2]), _text(frame.get("line", "?")), _text(frame.get("name", ""))
            )
    return ""


def find_mismatch(dumps: Sequence[Dump]) -> Mismatch | None:
    """Return the first collective in which the ranks of a group differ; None if they agree in all they recorded.

    A rank has not called a collective if its record ends before it; what it has forgotten does not count.
    """
    names = sorted({name for dump in dumps for name in dump.groups})
    mismatches = (mismatch for name in names if (mismatch := _of_group(name, dumps)))
    return min(mismatches, key=lambda mismatch: (mismatch.group.split()[0] != "0", mismatch.number), default=None)


def _of_group(group: str, dumps: Sequence[Dump]) -> Mismatch | None:
    calls = {dump.rank: dump.groups[group] for dump in dumps if dump.groups.get(group)}
    if len(calls) < 2:
        return None
    first = max(min(numbers) for numbers in calls.values())
    for number in range(first, max(max(numbers) for numbers in calls.values()) + 1):
        kinds: dict[tuple[str, str], list[int]] = defaultdict(list)
        for rank, numbers in sorted(calls.items()):
            if number in numbers:
                kinds[numbers[number].operation, numbers[number].sizes].append(rank)
        missing = tuple(rank for rank, numbers in sorted(calls.items()) if max(numbers) < number)
        if len(kinds) > 1 or (kinds and missing):
            different = tuple(DifferentCall(calls[ranks[0]][number].shown, tuple(ranks)) for ranks in kinds.values())
            return Mismatch(group, number, different, tuple(MissingRank(rank, _last(calls[rank])) for rank in missing))
    return None


def _last(numbers: Mapping[int, Collective]) -> str:
    last = numbers[max(numbers)]
    return f"{last.number}, {last.shown}"
