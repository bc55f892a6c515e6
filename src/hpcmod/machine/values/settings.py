"""Explain the settings of a site profile: which ones apply to a run, which do not, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hpcmod.machine.values.condition import Condition
from hpcmod.machine.values.site import Tunable

SET, NOT_SET, DEPENDS = "set", "not set", "depends"


@dataclass(frozen=True)
class Setting:
    """One case of one variable of `[environment]`."""

    name: str
    value: str
    verdict: str
    """set; not set; depends: on the image or the number of nodes, which the caller did not specify."""
    because: str
    """The deciding condition: `on several nodes`, `rocm is 7.0, not rocm<7`, ...; empty if always set."""
    why: str
    """What the value is for and who recommends it; empty: the profile does not say."""


def explain_settings(
    tunables: Iterable[Tunable], *, versions: Mapping[str, str] | None = None, nodes: int = 0
) -> Iterator[Setting]:
    """Explain each setting, in the order of the profile; of several cases that hold, the first is set.

    `versions`: Versions in the image; None: no image was given.
    `nodes`: Number of nodes of the run; 0: not given.
    """
    decided: set[str] = set()
    for tunable in tunables:
        verdict, because = _judge(tunable.condition, versions, nodes)
        if tunable.name in decided and verdict != NOT_SET:
            verdict, because = NOT_SET, "an earlier case applies"
        if verdict == SET:
            decided.add(tunable.name)
        yield Setting(tunable.name, tunable.value, verdict, because, tunable.why)


def _judge(condition: Condition, versions: Mapping[str, str] | None, nodes: int) -> tuple[str, str]:
    one_node = "on one node" if condition.single_node else ""
    place = "on several nodes" if condition.multi_node else one_node
    if nodes and not condition.holds_on(nodes):
        return NOT_SET, f"only {place}"
    bounds = ", ".join(map(str, condition.bounds))
    if versions is None and bounds:
        return DEPENDS, f"{place} with {bounds} in the image".strip()
    failed = next((bound for bound in condition.bounds if not bound.holds_for(versions or {})), None)
    if failed:
        version = (versions or {}).get(failed.product)
        unknown = f"only for {failed}, but the image's version is not known"
        return NOT_SET, f"{failed.product} is {version}, not {failed}" if version else unknown
    return (DEPENDS, place) if place and not nodes else (SET, " with ".join(filter(None, [place, bounds])))
