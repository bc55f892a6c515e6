"""Compare measured bandwidths with references: the site profile's, and those of earlier runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hpcmod.core.values.finding import FAIL, OK, UNKNOWN, Finding
from hpcmod.core.values.json_form import SPLICED
from hpcmod.machine.values.site import Site
from hpcmod.runs.values.bandwidth.measurement import WRONG, BandwidthPoint
from hpcmod.runs.values.bandwidth.sizes import format_binary_size, format_rate

_NEAR = 1.5
"""Largest ratio of two sizes that are compared: profiles may have 4 GB where nccl-tests measures 4 GiB."""

_FEWEST = 3
"""Earlier runs that are needed for a comparison."""


@dataclass(frozen=True)
class BandwidthReference:
    """A bus bandwidth that a measured one is compared with."""

    collective: str
    nodes: int
    size: int
    """Bytes; 0: the best of all sizes."""
    busbw: float
    """GB/s."""
    source: str
    """For people."""


@dataclass(frozen=True)
class BandwidthVerdict:
    """A measured point, its reference, and whether it is fast enough."""

    point: BandwidthPoint = field(metadata=SPLICED)
    reference: BandwidthReference | None
    """Null: there is none."""
    level: str
    """ok or fail; unknown without a reference."""

    @property
    def share(self) -> float:
        """Return the measured bandwidth as a fraction of the reference; 0 without one."""
        return self.point.busbw / self.reference.busbw if self.reference and self.reference.busbw else 0.0


def profile_references(site: Site) -> tuple[BandwidthReference, ...]:
    """Return the references of a site profile: its `[bandwidth]`."""
    return tuple(
        BandwidthReference(known.collective, known.nodes, known.size, known.busbw, f"profile of {site.name}")
        for known in site.network.bandwidths
    )


def history_references(earlier: Iterable[BandwidthPoint]) -> Iterator[BandwidthReference]:
    """Yield the slowest of at least three earlier runs for each collective, node count and size.

    The slowest, because runs differ with the load of the network: slower than all of them is a reason to look.
    """
    groups: dict[tuple[str, int, int], list[float]] = {}
    for point in earlier:
        groups.setdefault((point.collective, point.nodes, point.size), []).append(point.busbw)
    for (collective, nodes, size), rates in groups.items():
        if len(rates) >= _FEWEST:
            source = f"slowest of {len(rates)} earlier runs"
            yield BandwidthReference(collective, nodes, size, min(rates), source)


def compare_bandwidths(
    points: Sequence[BandwidthPoint], references: Sequence[BandwidthReference], *, tolerance: float
) -> tuple[BandwidthVerdict, ...]:
    """Return the verdict of each point, in the same order.

    `references`: The first that fits a point counts. One without a size fits the best point of its collective and
        nodes.
    `tolerance`: Fraction by which a point may be below its reference.
    """
    best = {(point.collective, point.nodes): point for point in sorted(points, key=lambda point: point.busbw)}
    verdicts = []
    for point in points:
        is_best = best[point.collective, point.nodes] is point
        usable = (reference for reference in references if reference.busbw > 0)
        fitting = (reference for reference in usable if _fits(reference, point, points, is_best=is_best))
        reference = next(fitting, None)
        level = UNKNOWN
        if reference:
            level = FAIL if point.busbw < reference.busbw * (1 - tolerance) else OK
        verdicts.append(BandwidthVerdict(point, reference, level))
    return tuple(verdicts)


def _fits(
    reference: BandwidthReference, point: BandwidthPoint, points: Sequence[BandwidthPoint], *, is_best: bool
) -> bool:
    """Return whether a reference is for a point, and no other point is nearer to its size."""
    if (reference.collective, reference.nodes) != (point.collective, point.nodes):
        return False
    if not reference.size or not point.size:
        return is_best
    sizes = [each.size for each in points if (each.collective, each.nodes) == (point.collective, point.nodes)]
    nearest = min((size for size in sizes if size), key=lambda size: _distance(size, reference.size))
    return point.size == nearest and _distance(nearest, reference.size) <= _NEAR


def _distance(size: int, other: int) -> float:
    return max(size, other) / min(size, other)


def judge_bandwidths(verdicts: Sequence[BandwidthVerdict], *, tolerance: float) -> Iterator[Finding]:
    """Yield a finding for each point with a reference, and for each collective and node count without one."""
    for verdict in verdicts:
        point = verdict.point
        if point.wrong > 0:
            yield Finding(FAIL, "wrong-values", f"{point.wrong} wrong values", WRONG, _describe(point))
        if verdict.reference:
            yield _judge(verdict, verdict.reference, tolerance)
    groups = dict.fromkeys((verdict.point.collective, verdict.point.nodes) for verdict in verdicts)
    judged = {(verdict.point.collective, verdict.point.nodes) for verdict in verdicts if verdict.reference}
    for collective, nodes in (group for group in groups if group not in judged):
        subject = _describe_group(collective, nodes)
        yield Finding(UNKNOWN, "bandwidth", "no reference to compare with", _NO_REFERENCE, subject)


_NO_REFERENCE = "Add one to [bandwidth] of the site profile, or repeat: from the fourth run on, earlier ones count."


def _judge(verdict: BandwidthVerdict, reference: BandwidthReference, tolerance: float) -> Finding:
    compared = f"{verdict.share:.0%} of {reference.busbw:g} GB/s ({reference.source})"
    found = f"{format_rate(verdict.point.busbw)} GB/s, {compared}; expected at least {1 - tolerance:.0%}"
    cure = _SLOW if verdict.level == FAIL else ""
    return Finding(verdict.level, "bandwidth", found, cure, _describe(verdict.point))


_SLOW = "Check that the fast network is used: hpcmod check NAME --network; then repeat on other nodes."


def _describe_group(collective: str, nodes: int) -> str:
    """Return a collective and its number of nodes, for people."""
    where = f" on {nodes} node{'s' * (nodes > 1)}" if nodes else ""
    return f"{collective or 'unknown collective'}{where}"


def _describe(point: BandwidthPoint) -> str:
    """Return collective, nodes and size of a point, for people."""
    size = f", {format_binary_size(point.size)}" if point.size else ""
    return f"{_describe_group(point.collective, point.nodes)}{size}"
