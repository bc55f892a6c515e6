"""Find out which GPUs this machine has, from its site profile or the files of the drivers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hpcmod.core.fs.reading import read_text
from hpcmod.machine.values.site import Site
from hpcmod.machine.values.targets import parse_kfd_node, parse_nvidia_model

_LARGEST = 1 << 16  # bytes of a file that describes a GPU


def find_gpu_targets(site: Site) -> tuple[str, ...]:
    """Return the micro-architectures of a machine's GPUs: those of its profile, else of this node; empty if unknown."""
    return site.gpu.targets or read_gpu_targets()


def read_gpu_targets(root: Path = Path("/")) -> tuple[str, ...]:
    """Return the micro-architectures of this node's GPUs, sorted; empty if there is none, or one that is not known.

    They are read from files of the drivers. A GPU whose file may not be read is not this job's, and does not count.

    `root`: Directory that contains /proc and /sys.
    """
    amd = map(parse_kfd_node, _read_each(root, "sys/class/kfd/kfd/topology/nodes/*/properties"))
    nvidia = map(parse_nvidia_model, _read_each(root, "proc/driver/nvidia/gpus/*/information"))
    found = [target for target in (*amd, *nvidia) if target is not None]
    return tuple(sorted(set(found))) if all(found) else ()


def _read_each(root: Path, pattern: str) -> Iterator[str]:
    for path in root.glob(pattern):
        try:
            text = read_text(path, _LARGEST, errors="replace")
        except OSError:
            continue
        yield text
