"""Results of a small all-reduce: what each rank reported, and findings about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.finding import FAIL, OK, WARN, Finding
from hpcmod.core.values.json_form import parse_json
from hpcmod.core.values.text import listed

MARK = "hpcmod-allreduce "
"""Beginning of a line in which a rank reports, as JSON."""

LIBRARIES = ("nccl", "gloo", "mpi")

_NEEDED = ("nccl", "gloo")
_SHOWN = 8  # ranks or names in a message
_LONGEST = 1 << 14  # bytes of a report


@dataclass(frozen=True)
class RankResult:
    """Result of one library on one rank."""

    rank: int
    host: str
    library: str
    size: int
    """Number of ranks that took part."""
    error: str
    """Empty if the sum was right."""
    seconds: float
    interface: str = ""
    """Interface that the library was told to use; empty: it chose one itself."""
    missing: tuple[str, ...] = ()
    """Interfaces that variables name, but the node does not have: VARIABLE=NAME."""


@dataclass
class Results:
    """Results of all ranks, as they arrive."""

    ranks: dict[tuple[str, int], RankResult] = field(default_factory=dict)
    """By library and rank."""

    def add(self, line: str) -> bool:
        """Read a line; return whether it was a report of a rank."""
        start = line.find(MARK)
        if start < 0:
            return False
        text = line[start + len(MARK) :].encode(errors="replace")
        try:
            result = parse_json(RankResult, text, "the report of a rank", limit=_LONGEST)
        except BadInputError:  # two ranks may have printed at once
            return True
        if len(self.ranks) < 1_000_000:
            self.ranks[result.library, result.rank] = result
        return True

    def of(self, library: str) -> list[RankResult]:
        """Return the results of a library, by rank."""
        return [result for (name, _), result in sorted(self.ranks.items()) if name == library]


def judge_results(results: Results, *, ranks: int, interfaces: Sequence[str], said: str = "") -> Iterator[Finding]:
    """Yield findings about the all-reduce of each library.

    `ranks`: Number of ranks that were started.
    `interfaces`: Network interfaces for traffic between GPUs; empty: not known.
    `said`: Message of the step, for a step without any result.
    """
    for library in (*LIBRARIES, "torch"):
        found = results.of(library)
        if found:
            yield _judge_library(library, found, ranks)
    if not any(results.of(library) for library in LIBRARIES):
        because = f": {said[:500]}" if said else ""
        yield Finding(FAIL, "ranks", f"no rank reported an all-reduce{because}", "Fix what the messages say.")
    yield from _judge_interface(results.of("gloo"), interfaces)
    named: Mapping[str, None] = dict.fromkeys(
        f"{name} on {result.host}" for result in results.ranks.values() for name in result.missing
    )
    if named:
        cure = "Set it to an interface that `ip address` lists on every node, or unset it."
        yield Finding(FAIL, "interface-missing", f"no such network interface: {listed(list(named), _SHOWN)}", cure)


def _judge_library(library: str, found: Sequence[RankResult], ranks: int) -> Finding:
    level = FAIL if library in _NEEDED else WARN
    subject = f"all-reduce over {library}"
    wrong = [result for result in found if result.error]
    if wrong:
        who = listed([f"{result.rank} ({result.host})" for result in wrong], _SHOWN)
        cure = "The findings below name the cause, if the logs do; the first message of the ranks is above."
        return Finding(level, library, f"failed on rank {who}: {wrong[0].error}", cure, subject)
    alone = [result for result in found if result.size != ranks]
    if alone:
        cure = "Choose how the ranks connect: --mpi pmix or --mpi pmi2." if library == "mpi" else ""
        return Finding(
            level, library, f"rank {alone[0].rank} is one of {alone[0].size} ranks, expected {ranks}", cure, subject
        )
    if len(found) < ranks:
        silent = sorted(set(range(ranks)) - {result.rank for result in found})
        return Finding(level, library, f"no result from rank {listed(list(map(str, silent)), _SHOWN)}", "", subject)
    hosts = len({result.host for result in found})
    slowest = max(result.seconds for result in found)
    said = f"{ranks} ranks on {hosts} node{'s' * (hosts != 1)}, {slowest:.2f} s"
    return Finding(OK, library, said, "", subject)


def _judge_interface(found: Sequence[RankResult], interfaces: Sequence[str]) -> Iterator[Finding]:
    used = dict.fromkeys(result.interface for result in found)
    slow = [name or "the interface of the host name" for name in used if name not in interfaces]
    if interfaces and slow:
        cure = f"export GLOO_SOCKET_IFNAME={interfaces[0]}"
        yield Finding(WARN, "gloo-slow", f"gloo uses {listed(slow, _SHOWN)}, expected {' or '.join(interfaces)}", cure)
