"""When a setting of a site profile applies: a small grammar, `multi-node, rocm>=6.2, rocm<7`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import zip_longest

PRODUCTS = ("rocm", "cuda", "torch")
"""What an image may hold and a condition may ask for the version of."""

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
    """A limit to the version of one of PRODUCTS in the image."""

    product: str
    operator: str
    version: str

    def holds_for(self, versions: Mapping[str, str]) -> bool:
        """Compare with the image's version, number by number; one that is not known holds to nothing."""
        found = re.match(r"\d+(?:\.\d+)*", versions.get(self.product, ""))
        if not found:
            return False
        pairs = list(zip_longest(found[0].split("."), self.version.split("."), fillvalue="0"))
        return _COMPARE[self.operator]([int(one) for one, _ in pairs], [int(other) for _, other in pairs])

    def __str__(self) -> str:
        """Give the form of the grammar."""
        return f"{self.product}{self.operator}{self.version}"


@dataclass(frozen=True)
class Condition:
    """All of its parts must hold; with none it always does."""

    multi_node: bool = False
    """Only on jobs of several nodes, which nobody knows before they run."""
    bounds: tuple[Bound, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Parse `always`, or parts with commas between them: `multi-node`, or a product, an operator and a version.

        Raises
        ------
        ValueError
            If a part is neither.
        """
        words = [word.strip() for word in text.split(",")]
        if words == ["always"]:
            return cls()
        bounds = tuple(_parse_bound(word) for word in words if word != "multi-node")
        return cls(multi_node="multi-node" in words, bounds=bounds)

    def holds_for(self, versions: Mapping[str, str]) -> bool:
        """Say whether it may hold for an image, by its versions of PRODUCTS; the run alone knows about `multi_node`."""
        return all(bound.holds_for(versions) for bound in self.bounds)

    def __str__(self) -> str:
        """Give the form of the grammar."""
        return ", ".join(["multi-node"] * self.multi_node + [str(bound) for bound in self.bounds]) or "always"


def _parse_bound(word: str) -> Bound:
    found = _BOUND.fullmatch(word)
    if not found or found[1] not in PRODUCTS:
        raise ValueError(
            f"{word!r} is no condition: write multi-node, or one of {', '.join(PRODUCTS)} with a version, as rocm>=6.2"
        )
    return Bound(*found.groups())


ALWAYS = Condition()
