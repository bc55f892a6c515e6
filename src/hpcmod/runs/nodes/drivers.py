"""Compare the NVIDIA drivers of nodes with what an image needs, by the rules of `hpcmod compat`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from hpcmod.compat import find_stack, open_files
from hpcmod.compat.values.gpu import GPU_RULES
from hpcmod.compat.values.verdict import Case, HostFacts, judge
from hpcmod.core.errors import HpcmodError
from hpcmod.core.values.finding import FAIL, WARN, Finding
from hpcmod.images import Sif
from hpcmod.machine.values.facts import NodeFacts
from hpcmod.machine.values.site import Site

_RULES = tuple(rule for rule in GPU_RULES if rule.name == "cuda-driver")


def judge_drivers(image: Path, site: Site, nodes: Iterable[NodeFacts]) -> list[Finding]:
    """Return the nodes whose driver does not fit the CUDA of an image; none if it cannot be read here."""
    versions = {node.name: dict(node.drivers).get("nvidia", "") for node in nodes}
    if not any(versions.values()):
        return []
    try:
        with open_files(image) as files:
            stack = find_stack(files, Sif(image).facts())
    except (HpcmodError, OSError):  # each node reports whether it can read the image
        return []
    findings = []
    for name, version in versions.items():
        verdict = judge(Case(stack, HostFacts(cuda_driver=version), site), _RULES)
        findings += [replace(finding, subject=name) for finding in (*verdict.at(FAIL), *verdict.at(WARN))]
    return findings
