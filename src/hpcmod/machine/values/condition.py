"""Conditions for settings of a site profile: a small grammar, `multi-node, rocm>=6.2, rocm<7`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

PRODUCTS = ("rocm", "cuda", "torch", "plugin")
"""Parts of an image whose version a condition may test; plugin: aws-ofi-nccl, for NCCL and RCCL."""

_COMPARE: Mapping[str, Callable[[list[int], list[int]], bool]] = {
    ">=": lambda found, limit: found >= limit,
    "<=": lambda found, limit: found <= limit,
    "==": lambda found, limit: found == limit,
    ">": lambda found, limit: found > limit,
    "<": lambda found, limit: found < limit,
}

_BOUND = re.compile(r"([a-z]+) *(>=|<=|==|>|<) *(\d+(?:\.\d+)*)")


@dataclass(frozen=True)
class Bound:
    """A bound on the version of one of PRODUCTS in the image."""

    product: str
    operator: str
    version: str

    def holds_for(self, versions: Mapping[str, str]) -> bool:
        """Compare with the image's version, number by number; an unknown version satisfies no bound."""
        match = re.match(r"\d+(?:\.\d+)*", versions.get(self.product, ""))
        if not match:
            return False
        pairs = list(zip_longest(match[0].split("."), self.version.split("."), fillvalue="0"))
        return _COMPARE[self.operator]([int(part) for part, _ in pairs], [int(other) for _, other in pairs])

    def __str__(self) -> str:
        """Return the bound as written in a condition."""
        return f"{self.product}{self.operator}{self.version}"


class Condition(NamedTuple):
    """A conjunction of parts; without any it always holds."""

    multi_node: bool = False
    """Only in job steps on several nodes, which is known only at run time."""
    bounds: tuple[Bound, ...] = ()
    single_node: bool = False
    """Only in job steps on one node."""

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Parse `always`, or parts separated by commas: `multi-node`, `single-node`, or a product with a version.

        Raises ValueError if a part is invalid, or the parts contradict each other.
        """
        words = [word.strip() for word in text.split(",")]
        if words == ["always"]:
            return cls()
        if {"multi-node", "single-node"} <= set(words):
            raise ValueError("multi-node and single-node exclude each other")
        bounds = tuple(_parse_bound(word) for word in words if word not in ("multi-node", "single-node"))
        return cls(multi_node="multi-node" in words, bounds=bounds, single_node="single-node" in words)

    def holds_for(self, versions: Mapping[str, str]) -> bool:
        """Return whether the condition can hold for an image with these versions of PRODUCTS on any number of nodes."""
        return all(bound.holds_for(versions) for bound in self.bounds)

    def holds_on(self, nodes: int) -> bool:
        """Return whether the condition can hold in a job step on this number of nodes, ignoring the image."""
        return not (self.multi_node and nodes < 2) and not (self.single_node and nodes > 1)

    def __str__(self) -> str:
        """Return a string that parses to this condition."""
        words = ["multi-node"] * self.multi_node + ["single-node"] * self.single_node
        return ", ".join([*words, *(str(bound) for bound in self.bounds)]) or "always"


def _parse_bound(word: str) -> Bound:
    match = _BOUND.fullmatch(word)
    if not match or match[1] not in PRODUCTS:
        raise ValueError(
            f"{word!r} is not a condition: write multi-node, single-node, or one of {', '.join(PRODUCTS)} with a "
            "version, such as rocm>=6.2"
        )
    return Bound(*match.groups())


ALWAYS = Condition()
