"""Find versions of components in an image that machine settings depend on: ROCm, CUDA, torch, the network plugin."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hpcmod.core.values.facts import ImageFacts
from hpcmod.machine.values.site import Tunable

if TYPE_CHECKING:
    from hpcmod.modules.values.spec import InstallSpec

Pairs = tuple[tuple[str, str], ...]


def find_versions(facts: ImageFacts | None, spec: InstallSpec) -> dict[str, str]:
    """Find versions by product: facts from the image take precedence over its name."""
    named = _in_names(spec)
    return named if facts is None else {**named, **said_versions(facts)}


def said_versions(facts: ImageFacts) -> dict[str, str]:
    """Find versions by product in the image's own data."""
    environment = dict(facts.environment)
    versions = {product: environment.get(f"{product.upper()}_VERSION", "") for product in ("rocm", "cuda")}
    versions["plugin"] = _plugin_version(facts, environment)
    torch = next((package.version for package in facts.packages if package.name.lower() == "torch"), "")
    return {**_in_torch(torch), **{product: version for product, version in versions.items() if version}}


def _in_names(spec: InstallSpec) -> dict[str, str]:
    """Read versions from names such as `-rocm-6.2.4-`: the module's name takes precedence over the image's."""
    versions: dict[str, str] = {}
    for name in (spec.image, spec.module):
        versions.update(
            (product.lower(), version) for product, version in re.findall(r"(?i)(rocm|cuda)-?(\d[\d.]*\d)", name)
        )
    return versions


def _in_torch(version: str) -> dict[str, str]:
    """Read versions from a torch version, e.g. 2.7.1+rocm6.2.4 or 2.6.0+cu124."""
    public, _, local = version.partition("+")
    rocm = re.fullmatch(r"rocm(\d[\d.]*)(?:\D.*)?", local)
    cuda = re.fullmatch(r"cu(\d{2,})(\d)", local)
    versions = {"torch": public, "rocm": rocm[1] if rocm else "", "cuda": f"{cuda[1]}.{cuda[2]}" if cuda else ""}
    return {product: number for product, number in versions.items() if number}


def _plugin_version(facts: ImageFacts, environment: Mapping[str, str]) -> str:
    """Return the version of aws-ofi-nccl: NVIDIA's images set it in a variable, images from our recipes in a label."""
    options = dict(facts.labels).get("org.hpcmod.options", "")
    built = re.search(r"(?:^| )aws-ofi-nccl=(\d[\d.]*)", options)
    named = re.match(r"v?(\d[\d.]*)", environment.get("AWS_OFI_NCCL_VERSION", ""))
    version = built or named
    return version[1] if version else ""


class ChosenTunables(NamedTuple):
    """Settings of a machine that fit an image, grouped by the kind of run."""

    always: Pairs = ()
    multi_node: Pairs = ()
    """Only for runs on several nodes."""
    single_node: Pairs = ()
    """Only for runs on one node."""
    reasons: tuple[tuple[str, str, str], ...] = ()
    """Name, value and reason, for settings whose profile gives a reason."""

    def explain(self, name: str, value: str) -> str:
        """Return why the profile sets a variable to a value, as the comment behind it; empty if it does not say."""
        return next((f" # {why}" for *pair, why in self.reasons if pair == [name, value]), "")


def choose_tunables(tunables: Iterable[Tunable], versions: Mapping[str, str]) -> ChosenTunables:
    """Choose the settings that fit an image; if several cases of a variable hold, the first is used."""
    fitting = [tunable for tunable in tunables if tunable.condition.holds_for(versions)]
    multi = [tunable for tunable in fitting if tunable.condition.multi_node]
    single = [tunable for tunable in fitting if tunable.condition.single_node]
    always = [tunable for tunable in fitting if tunable not in (*multi, *single)]
    return ChosenTunables(
        always=_first_of_each(always),
        multi_node=_first_of_each(multi),
        single_node=_first_of_each(single),
        reasons=tuple((tunable.name, tunable.value, tunable.why) for tunable in fitting if tunable.why),
    )


def _first_of_each(tunables: Sequence[Tunable]) -> Pairs:
    first: dict[str, str] = {}
    for tunable in tunables:
        first.setdefault(tunable.name, tunable.value)
    return tuple(first.items())
