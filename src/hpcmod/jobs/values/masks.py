"""CPU masks: the cores for each rank of a node, near the rank's GPU."""

from __future__ import annotations

from hpcmod.core.errors import BadInputError
from hpcmod.machine.values.site import NodeType


def cpu_masks(node: NodeType, ranks: int) -> tuple[str, ...]:
    """Return the masks of a full node, one per rank, in the order of local ranks.

    Rank r works with GPU r, and gets the cores near it; without GPUs, the ranks divide all cores equally, and leftovers
    stay unused.

    Returns
    -------
    Hexadecimal numbers such as `0xfe00` without leading zeros: bit n is CPU n in Linux's numbering, which is the first
    hardware thread of core n.

    Raises BadInputError if the profile does not list the cores, or they cannot be divided that way.
    """
    cores = tuple(core for core in range(node.all_cores) if core not in node.reserved_cores)
    most = node.gpus or len(cores)
    if not 0 < ranks <= most:
        items = "GPUs" if node.gpus else "cores"
        raise BadInputError(
            f"{ranks} ranks cannot share {most} {items} of node type {node.name}", f"Ask for 1 to {most} ranks."
        )
    if not node.gpus:
        each = len(cores) // ranks
        shares = [cores[rank * each : (rank + 1) * each] for rank in range(ranks)]
    elif node.gpu_cores:
        shares = list(node.gpu_cores[:ranks])
    else:
        raise BadInputError(
            f"it is not known which cores of node type {node.name} are near which GPU",
            f"Add gpu_cores to [nodes.{node.name}] of the site profile; see `lstopo` or `nvidia-smi topo -m`.",
        )
    return tuple(hex(sum(1 << core for core in share)) for share in shares)
