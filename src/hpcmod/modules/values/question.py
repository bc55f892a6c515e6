"""What a node is asked: what to look at, and what the site profile expects of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hpcmod.machine.values.bind import Bind
from hpcmod.machine.values.facts import format_cpus
from hpcmod.machine.values.site import NodeType, Site
from hpcmod.machine.values.tables import Binds

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a name that Linux defines, not a place for our files
TEMPORARY = "/tmp"  # noqa: S108 - likewise

_GIB = 1 << 30


def make_question(site: Site, nodes: Iterable[NodeType], binds: Binds) -> dict[str, Any]:
    """Return the question for the nodes of a machine, as the node program reads it.

    `nodes`: Node types; a node is compared with the one of its job's partition, or with the only one.
    `binds`: Bind candidates of the module.
    """
    caches = site.module.caches.node_local
    plain = [caches] if caches.startswith("/") and "$" not in caches else []
    return {
        "nodes": [_describe(node) for node in nodes],
        "exclusive": list(site.job.exclusive),
        "interfaces": list(site.network.interfaces),
        "binds": [_describe_group(group) for group in binds],
        "places": list(dict.fromkeys([SHARED_MEMORY, TEMPORARY, *plain])),
    }


def _describe(node: NodeType) -> dict[str, Any]:
    usable = [core for core in range(node.all_cores) if core not in node.reserved_cores]
    return {
        "name": node.name,
        "partitions": list(node.partitions),
        "cores": node.all_cores if node.cores else 0,
        "cpus": format_cpus(usable) if node.cores else "",
        "memory": node.memory_gib * _GIB,
        "gpus": node.gpus,
    }


def _describe_group(group: Sequence[Bind]) -> dict[str, Any]:
    return {
        "names": [bind.source for bind in group],
        "sources": [_escape(bind.source, "[" if bind.pattern else "*?[") for bind in group],
        "required": any(bind.required for bind in group),
    }


def _escape(path: str, signs: str) -> str:
    """Return a path as a glob of Python in which these signs match only themselves."""
    return "".join(f"[{sign}]" if sign in signs else sign for sign in path)
