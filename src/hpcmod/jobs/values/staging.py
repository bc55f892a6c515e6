"""Decide whether the nodes of a job read the image in place, or get copies that Slurm sends them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hpcmod.core.errors import BadInputError
from hpcmod.machine.values.site import Site, StagePlace

LOCAL = frozenset(
    ("btrfs", "erofs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "squashfs", "tmpfs", "xfs", "zfs")
)
"""File systems, as /proc/mounts names them, that only one node has."""

RATES = {"lustre": 4e9, "gpfs": 4e9, "beegfs": 4e9, "nfs": 1e9, "nfs4": 1e9}
"""Assumed bytes per second that one file gives to all nodes together. Not measured: they differ between machines."""

OTHER_RATE = 1e9
STREAM = 1e9
"""Assumed bytes per second of one node that reads a file."""

PART = 0.25
"""Assumed part of the image that a program reads while it starts."""

SEND = 500e6
"""Assumed bytes per second at which sbcast sends a file to all nodes together."""

SETUP = 3.0
"""Assumed seconds until the nodes are ready to copy."""

LEAST_GAIN = 10.0
"""Seconds that staging must save."""

SMALL = 256_000_000
"""Bytes up to which an image starts as fast without staging."""


class PlaceFacts(NamedTuple):
    """Node-local storage that may hold the copy."""

    name: str
    free: int | None = None
    """Bytes on each node that the copy may take; None: not known."""


class StagingFacts(NamedTuple):
    """What the decision depends on."""

    size: int | None
    """Bytes of the image; None: not known."""
    file_system: str
    """Type of the file system with the image, as /proc/mounts names it; empty: not known."""
    nodes: int
    places: tuple[PlaceFacts, ...]
    """In order of preference."""


class StagingDecision(NamedTuple):
    """Where the copies of the image belong, and why."""

    place: str
    """Name of the place; empty: the image is read where it is."""
    why: str
    arithmetic: tuple[str, ...] = ()
    """The estimated seconds without and with copies."""

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the decision, the reason and the arithmetic, for people."""
        return (f"--stage auto: {self.place or 'off'}, because {self.why}", *self.arithmetic)


def find_places(site: Site, name: str) -> list[StagePlace]:
    """Return the staging places of a machine that have a name; all of them if it is empty.

    Raises BadInputError if there is none.
    """
    places = [place for place in site.job.stage_places if name in ("", place.name)]
    if not places:
        known = ", ".join(place.name for place in site.job.stage_places) or "none"
        raise BadInputError(f"{site.name} has no staging place {name or 'in its profile'}", f"Available: {known}.")
    return places


def decide_staging(facts: StagingFacts) -> StagingDecision:
    """Return where to stage, by estimates from assumed rates; nowhere if it saves less than LEAST_GAIN seconds."""
    reason = "".join(list(_find_reasons(facts))[:1])
    fitting = [place for place in facts.places if place.free is None or place.free >= (facts.size or 0)]
    if reason or facts.size is None:
        return StagingDecision("", reason)
    plain, plain_text = _estimate_plain(facts, facts.size)
    rate = min(RATES.get(facts.file_system, OTHER_RATE), SEND)
    staged = SETUP + facts.size / rate  # until all nodes have a copy
    staged_text = f"{SETUP:.0f} s + {_write_size(facts.size)} / {_write_size(rate)}/s"
    arithmetic = (f"off: {plain_text} = {plain:.0f} s", f"copies: {staged_text} = {staged:.0f} s")
    if not fitting:
        short = ", ".join(f"{place.name} {_write_size(place.free or 0)}" for place in facts.places) or "there is none"
        return StagingDecision(
            "", f"no node-local storage has room for {_write_size(facts.size)} ({short})", arithmetic
        )
    gain = plain - staged
    if gain < LEAST_GAIN:
        why = f"the estimated gain of {max(gain, 0):.0f} s is less than {LEAST_GAIN:.0f} s"
        return StagingDecision("", why, arithmetic)
    return StagingDecision(fitting[0].name, f"it saves an estimated {gain:.0f} s", arithmetic)


def _find_reasons(facts: StagingFacts) -> Iterator[str]:
    """Yield the reasons that make any estimate unnecessary."""
    if facts.size is None:
        yield "the size of the image is not known here"
    elif facts.size <= SMALL:
        yield f"an image of {_write_size(facts.size)} starts as fast without staging"
    if facts.nodes == 1:
        yield "on one node, a copy reads the complete image, and a start only parts"
    if facts.file_system in LOCAL:
        yield f"the image is on {facts.file_system}, which the nodes do not share"


def _estimate_plain(facts: StagingFacts, size: int) -> tuple[float, str]:
    """Return the estimated seconds until all nodes have read what they need of the image, and the arithmetic."""
    shared = min(RATES.get(facts.file_system, OTHER_RATE), facts.nodes * STREAM)
    text = f"{facts.nodes} nodes x {PART:.0%} of {_write_size(size)} / {_write_size(shared)}/s"
    return facts.nodes * PART * size / shared, text


def _write_size(size: float) -> str:
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"
