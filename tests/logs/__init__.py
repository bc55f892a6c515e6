"""Excerpts of real logs from public threads, and what a person reads from each of them.

`source` is the page, `product` the library and, if the page names it, its version, `text` lines of the page, `expect`
the fields that the log reader must find (hpcmod.runs.values.logs): `reason` has names of reasons, `problem` of known
endings, and `unknown` is the number of warnings that match no rule.

The excerpts in held_out.toml were collected after the rules had been written, and the unchanged rules were first run on
them: they read 41 of 47 as expected, including 13 of the 18 from pages never seen before, and found nothing that is not
there. The rules were then extended for the other 6. These excerpts are from pages whose address has a SHA-256 that is
divisible by 3; the other files have no such page.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from hpcmod.core.values.documents import load_toml
from hpcmod.runs.known_endings import read_known_endings
from hpcmod.runs.values.logs.reading import Reading, read_log

HERE = Path(__file__).parent
ENDINGS, _ = read_known_endings(())


@dataclass(frozen=True)
class Excerpt:
    """A few lines of a real log, and what the reader must find in them."""

    file: str
    source: str
    product: str
    text: str
    glimpsed: bool
    """Whether it appeared in a search while the rules were written."""
    expect: dict[str, tuple[str, ...]]

    @property
    def name(self) -> str:
        return f"{self.source.removeprefix('https://').removeprefix('github.com/')} {self.product}"

    @property
    def is_held_out(self) -> bool:
        return int(hashlib.sha256(self.source.encode()).hexdigest(), 16) % 3 == 0

    def read(self) -> Reading:
        return read_log(self.text.strip("\n"), Reading(ENDINGS))


def found(reading: Reading) -> dict[str, tuple[str, ...]]:
    """Return the results of a reading in the format of `expect`."""
    unknown = {"unknown": (str(reading.warnings),)} if reading.warnings else {}
    return {**facts_of(reading), **unknown}


def facts_of(reading: Reading) -> dict[str, tuple[str, ...]]:
    """Return the fields of a reading with their values, sorted."""
    return {field: tuple(sorted(values)) for field, values in reading.facts.items()}


def excerpts() -> list[Excerpt]:
    """Return all excerpts."""
    listed = []
    for path in sorted(HERE.glob("*.toml")):
        for log in load_toml(path.read_text(), path.name)["log"]:
            expect = {field: tuple(sorted(values)) for field, values in log["expect"].items()}
            listed.append(
                Excerpt(path.stem, log["source"], log["product"], log["text"], bool(log.get("glimpsed")), expect)
            )
    return listed
