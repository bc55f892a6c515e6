"""Compare the GPU drivers of nodes with what an image needs, by the rules of `hpcmod compat`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from hpcmod.compat import find_stack, open_files
from hpcmod.compat.values.gpu import GPU_RULES
from hpcmod.compat.values.verdict import Case, HostFacts, judge
from hpcmod.core.errors import HpcmodError
from hpcmod.core.values.finding import FAIL, WARN, Finding
from hpcmod.images import read_facts
from hpcmod.machine.values.facts import NodeFacts
from hpcmod.machine.values.site import Site

_RULES = tuple(rule for rule in GPU_RULES if rule.name in ("cuda-driver", "rocm-driver"))


def judge_drivers(image: Path, site: Site, nodes: Iterable[NodeFacts]) -> list[Finding]:
    """Return the nodes whose driver does not fit the CUDA or ROCm of an image; none if it cannot be read here."""
    known = [(node.name, dict(node.drivers)) for node in nodes]
    with_gpus = [(name, drivers) for name, drivers in known if drivers.get("nvidia") or drivers.get("amdgpu")]
    if not with_gpus:
        return []
    try:
        with open_files(image) as files:
            stack = find_stack(files, read_facts(image))
    except (HpcmodError, OSError):  # each node reports whether it can read the image
        return []
    found = []
    for name, drivers in with_gpus:
        host = HostFacts(cuda_driver=drivers.get("nvidia", ""), amd_driver=drivers.get("amdgpu", ""))
        verdict = judge(Case(stack, host, site), _RULES)
        found += [replace(one, subject=name) for one in verdict.findings if one.level in (FAIL, WARN)]
    return found
