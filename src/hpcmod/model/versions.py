"""Versions in an image of what the settings of a machine depend on: ROCm, CUDA, torch."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hpcmod.model.facts import ImageFacts
from hpcmod.model.site import Tunable
from hpcmod.model.spec import InstallSpec

Pairs = tuple[tuple[str, str], ...]


def find_versions(facts: ImageFacts | None, spec: InstallSpec) -> dict[str, str]:
    """Find versions by product: what the image itself says comes before what its name promises."""
    named = _in_names(spec)
    return named if facts is None else {**named, **said_versions(facts)}


def said_versions(facts: ImageFacts) -> dict[str, str]:
    """Find versions by product as the image itself says them."""
    environment = dict(facts.environment)
    said = {product: environment.get(f"{product.upper()}_VERSION", "") for product in ("rocm", "cuda")}
    torch = next((package.version for package in facts.packages if package.name.lower() == "torch"), "")
    return {**_in_torch(torch), **{product: version for product, version in said.items() if version}}


def _in_names(spec: InstallSpec) -> dict[str, str]:
    """Read versions from `-rocm-6.2.4-` in the name of the image, and before it in that of the module."""
    found: dict[str, str] = {}
    for name in (spec.image, spec.module):
        found.update(
            (product.lower(), version) for product, version in re.findall(r"(?i)(rocm|cuda)-?(\d[\d.]*\d)", name)
        )
    return found


def _in_torch(version: str) -> dict[str, str]:
    """Read versions from that of a torch package, e.g. 2.7.1+rocm6.2.4 or 2.6.0+cu124."""
    public, _, local = version.partition("+")
    rocm = re.fullmatch(r"rocm(\d[\d.]*)(?:\D.*)?", local)
    cuda = re.fullmatch(r"cu(\d{2,})(\d)", local)
    found = {"torch": public, "rocm": rocm[1] if rocm else "", "cuda": f"{cuda[1]}.{cuda[2]}" if cuda else ""}
    return {product: number for product, number in found.items() if number}


def choose_tunables(tunables: Iterable[Tunable], versions: dict[str, str]) -> tuple[Pairs, Pairs]:
    """Choose those that may apply to an image: the ones for every run, and the ones for runs on several nodes only."""
    fitting = [one for one in tunables if one.condition.holds_for(versions)]
    always = tuple((one.name, one.value) for one in fitting if not one.condition.multi_node)
    return always, tuple((one.name, one.value) for one in fitting if one.condition.multi_node)
