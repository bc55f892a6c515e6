"""Render measured bandwidths as horizontal bars of text, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpcmod.model.bandwidth.comparison import BandwidthVerdict, describe_group
from hpcmod.model.bandwidth.sizes import format_binary_size

_BAR, _MARK = "#", "|"


def render_bars(verdicts: Sequence[BandwidthVerdict], *, width: int) -> Iterator[str]:
    """Yield lines: for each collective and number of nodes a title, and a bar for each size.

    Parameters
    ----------
    width
        Columns of the terminal; `|` in a bar marks the reference.
    """
    most = max([_longest(one) for one in verdicts], default=0.0)
    title = ""
    for one in verdicts:
        named = f"{describe_group(one.point.collective, one.point.nodes)}: bus bandwidth in GB/s"
        if named != title:
            if title:
                yield ""
            yield named
            title = named
        size, rate = (
            f"{format_binary_size(one.point.size) if one.point.size else 'best':>9} ",
            f" {one.point.busbw:.4g}",
        )
        yield (size + _make_bar(one, most, width - len(size) - len(rate)) + rate).rstrip()


def _longest(verdict: BandwidthVerdict) -> float:
    return max(verdict.point.busbw, verdict.reference.busbw if verdict.reference else 0.0)


def _make_bar(verdict: BandwidthVerdict, most: float, width: int) -> str:
    room = max(width, 10)
    bar = (_BAR * round(room * verdict.point.busbw / most) if most else "").ljust(room)
    if not verdict.reference:
        return bar
    place = min(round(room * verdict.reference.busbw / most), room) - 1
    return bar[:place] + _MARK + bar[place + 1 :]
