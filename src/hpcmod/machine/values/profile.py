"""Site profiles: parse and validate TOML files, and merge several into one site."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hpcmod.core.errors import BadInputError, HpcmodError
from hpcmod.core.values.documents import load_toml
from hpcmod.machine.values.schema import NOT_INHERITED, SCHEMA, TABLES_THAT_ADD
from hpcmod.machine.values.site import STAGE_PLACES, TABLES, Limits, NodeType, Site, StagePlace
from hpcmod.machine.values.sources import list_entries
from hpcmod.machine.values.tables import Bandwidth, Binds

BUILT_IN = "built-in"
"""Origin of a value that is not set in any profile."""


@dataclass(frozen=True)
class Profile:
    """One validated TOML file: a name and the values it sets, by dotted key."""

    name: str
    source: str
    """The file with the values, for messages."""
    extends: str
    """Name of the profile it extends; empty if none."""
    values: Mapping[str, Any]
    """None removes the value of the extended profile."""
    origins: Mapping[str, str]
    """For each dotted key, where it is set: file and line, e.g. lumi.toml:27."""
    written: Mapping[str, Any] = field(default_factory=dict)
    """For each dotted key, the TOML value."""


@functools.lru_cache(maxsize=32)  # one command chooses among all shipped profiles several times; each takes about 1 ms
def parse_profile(text: str, source: str) -> Profile:
    """Parse and validate one profile. The result is shared between calls: do not change its values.

    Raises BadInputError, which lists every error in the file with its key and, for an unknown key, the nearest valid
    one.
    """
    tree = load_toml(text, f"site profile {source}")
    values: dict[str, Any] = {}
    faults = [fault for key, value in _flatten(tree) for fault in _check_key(key, value, values)]
    faults += _check_whole(tree, values)
    if faults:
        listed = "\n".join(f"  {fault}" for fault in faults)
        raise BadInputError(
            f"site profile {source}:\n{listed}", "Fix these keys; `hpcmod site show generic` prints a valid profile."
        )
    lines = _Lines(text, source)
    reasons = {"netstack.directory": "the host's network libraries", **dict(values.get("binds.why") or ())}
    for key in ("binds.required", "binds.optional"):
        if values.get(key):
            values[key] = _explain(values[key], key, lines, reasons)
    if values.get(key := "binds.when"):
        values[key] = tuple((when, _explain(groups, key, lines, reasons)) for when, groups in values[key])
    if values.get(key := "netstack.directory"):
        (values[key],) = _explain((values[key],), key, lines, reasons)
    origins = {key: lines.origin(key) for key in values}
    for table in TABLES_THAT_ADD:
        for name, _ in values.get(table) or ():
            origins[f"{table}.{name}"] = lines.origin(f"{table}.{name}") or origins[table]
    origins = {key: origin or source for key, origin in origins.items()}
    return Profile(values["name"], source, values.get("extends", ""), values, origins, dict(_flatten(tree)))


def pattern_of(key: str) -> str:
    """Return the schema key that a dotted key matches, e.g. nodes.*.cores; empty if there is none."""
    if key in SCHEMA:
        return key
    table, *names = key.split(".")
    pattern = ".".join([table, "*", *names[1:]])
    return pattern if names and pattern in SCHEMA else ""


def _is_table(key: str) -> bool:
    table, dot, name = key.partition(".")
    return "." not in name and any(known.startswith(f"{table}.*." if dot else f"{table}.") for known in SCHEMA)


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and not pattern_of(key):
            yield from _flatten(value, f"{key}.")
        else:
            yield key, value


def _check_key(key: str, value: Any, values: dict[str, Any]) -> list[str]:
    """Store the checked value in `values`; return the errors."""
    pattern = pattern_of(key)
    if not pattern and value is False and _is_table(key):
        values[key] = None
        return []
    if not pattern:
        name = key.split(".")[1] if "." in key else "NAME"
        from difflib import get_close_matches

        near = get_close_matches(key, [known.replace("*", name) for known in SCHEMA], n=1)
        return [f"{key}: unknown key" + (f", did you mean {near[0]}?" if near else "")]
    if pattern != key and not re.fullmatch(r"[A-Za-z0-9_-]+", key.split(".")[1]):
        return [f"{key}: the name may contain only letters, digits, - and _"]
    try:
        values[key] = None if value is False else SCHEMA[pattern].check(value)
    except (ValueError, HpcmodError) as err:
        return [f"{key}: {err}"]
    return []


def _check_whole(tree: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[str]:
    """Yield errors that involve more than one value."""
    if "name" not in tree:
        yield "name: missing"
    for name, node in _named({key: value for key, value in values.items() if value is not None}, "nodes").items():
        near = node.get("gpu_cores", ())
        if near and len(near) != node.get("gpus", len(near)):
            yield f"nodes.{name}.gpu_cores: must list the cores of {node['gpus']} GPUs, found {len(near)}"
        kept = node.get("reserved_cores", ())
        absent = range(node.get("cores", sys.maxsize) + len(kept), sys.maxsize)
        wrong = [core for cores in near for core in cores if core in kept or core in absent]
        if wrong:
            yield f"nodes.{name}.gpu_cores: no job can use core {', '.join(map(str, wrong))}"
    for name in _named(values, "stage"):
        if name not in STAGE_PLACES:
            yield f"stage.{name}: the name must be one of {', '.join(STAGE_PLACES)}"


class _Lines:
    """The lines of a profile that set each key, which the TOML parser does not report."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self._lines = text.splitlines()
        self._numbers: dict[str, int] = {}
        for entry in list_entries(text):
            self._numbers.setdefault(entry.key, entry.line)

    def origin(self, key: str, words: Sequence[str] = ()) -> str:
        """Return where a key, or one of these strings in its value, is set: source and line; empty if not found."""
        first = self._numbers.get(key)
        if not first or not words:
            return f"{self.source}:{first}" if first else ""
        quoted = [f"{sign}{word}{sign}" for word in words for sign in "\"'"]
        rest = enumerate(self._lines[first - 1 :], first)
        return f"{self.source}:{next((number for number, line in rest if any(word in line for word in quoted)), first)}"


def _explain(groups: Binds, key: str, lines: _Lines, reasons: Mapping[str, str]) -> Binds:
    """Add to each bind path where it is set, and the reason by its source, or by its key."""
    return tuple(
        tuple(
            replace(
                bind,
                origin=lines.origin(key, (str(bind), bind.source)) or lines.source,
                why=reasons.get(bind.source, reasons.get(key, "")),
            )
            for bind in group
        )
        for group in groups
    )


def make_site(profiles: Sequence[Profile]) -> Site:
    """Merge profiles into a site, the most general first; later values replace earlier ones, tables are merged.

    Raises BadInputError if the default node type is not defined; it may be defined in the extended profile.
    """
    merged = merge_profiles(profiles)
    usual, known = merged.get("nodes.default", ""), list(_named(merged, "nodes"))
    if usual and usual not in known:
        raise BadInputError(
            f"site profile {profiles[-1].source}:\n  nodes.default: unknown node type {usual!r}",
            f"Choose from {', '.join(known)}." if known else f"Add [nodes.{usual}], or leave it out.",
        )
    merged["gpu.vendor"] = merged.get("gpu.vendor", "none").replace("none", "")
    site = Site(
        merged["name"],
        tunables=tuple(tunable for _, cases in merged.get("environment", ()) for tunable in cases),
        **{key: merged[key] for key in ("description", "catalogues", "proxies") if key in merged},
        **{name: _fill(TABLES[name], merged, name) for name in Site._fields if name in TABLES},
    )
    bandwidths = (
        Bandwidth(collective, nodes, rate, size)
        for collective, rates in _below(merged, "bandwidth").items()
        for nodes, (rate, size) in rates
    )
    types = (NodeType(name, **values) for name, values in _named(merged, "nodes").items())
    places = (StagePlace(name, **values) for name, values in _named(merged, "stage").items())
    limits = (Limits(name, **values) for name, values in _named(merged, "limits").items())
    return site._replace(
        network=site.network._replace(bandwidths=tuple(bandwidths)),
        nodes=site.nodes._replace(types=tuple(types)),
        job=site.job._replace(limits=tuple(limits), stage_places=tuple(places)),
    )


def _fill(table: Any, merged: Mapping[str, Any], name: str) -> Any:
    """Return a table with the values of its fields; tables in it have names of their own in the profile."""
    values = _below(merged, name)
    inner = {field: _fill(TABLES[field], merged, field) for field in table._fields if field in TABLES}
    return table._replace(**{**{field: values[field] for field in table._fields if field in values}, **inner})


def merge_profiles(profiles: Sequence[Profile]) -> dict[str, Any]:
    """Merge the values of profiles by dotted key, the most general first; NOT_INHERITED keys only of the last."""
    merged = _merge(profiles, lambda profile: profile.values)
    return {key: tuple(value.items()) if isinstance(value, dict) else value for key, value in merged.items()}


def merge_written(profiles: Sequence[Profile]) -> dict[str, Any]:
    """Merge profiles like `merge_profiles`, into the nested values of a single TOML file without `extends`."""
    merged = _merge(profiles, lambda profile: profile.written)
    merged.pop("extends", None)
    tree: dict[str, Any] = {}
    for key, value in merged.items():
        *tables, last = key.split(".")
        branch = tree
        for name in tables:
            branch = branch.setdefault(name, {})
        branch[last] = value
    return tree


def _merge(profiles: Sequence[Profile], values_of: Callable[[Profile], Mapping[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for profile in profiles:
        for key, value in values_of(profile).items():
            if key.startswith(NOT_INHERITED) and profile is not profiles[-1]:
                continue
            if value is None or value is False:  # KEY = false
                merged = {old: kept for old, kept in merged.items() if not f"{old}.".startswith(f"{key}.")}
            elif key in TABLES_THAT_ADD or pattern_of(key) == "bandwidth.*":
                merged[key] = {**merged.get(key, {}), **dict(value)}
            else:
                merged[key] = value
    return merged


def _below(merged: Mapping[str, Any], table: str) -> dict[str, Any]:
    return {key.partition(".")[2]: value for key, value in merged.items() if key.startswith(f"{table}.")}


def _named(merged: Mapping[str, Any], table: str) -> dict[str, dict[str, Any]]:
    """Return the values of a table's sub-tables, by name."""
    named: dict[str, dict[str, Any]] = {}
    for key, value in _below(merged, table).items():
        name, dot, field = key.partition(".")
        if dot:
            named.setdefault(name, {})[field] = value
    return named
