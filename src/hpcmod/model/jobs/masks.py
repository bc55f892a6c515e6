"""CPU masks: the hardware threads for each rank of a node, near the rank's GPU."""

from __future__ import annotations

from hpcmod.errors import BadInputError
from hpcmod.model.site import NodeType


def cpu_masks(node: NodeType, ranks: int, *, threads_per_core: int = 1, gpus_per_rank: int = 1) -> tuple[str, ...]:
    """Return the masks of a full node, one per rank, in the order of local ranks.

    Parameters
    ----------
    ranks
        Ranks per node.
    threads_per_core
        1: the first hardware thread of each core; 2: both.
    gpus_per_rank
        With 1, rank r works with GPU r and gets the cores near it. With 0, the ranks divide all GPUs of the node among
        themselves, in order, and each gets the cores near its GPUs.

    Returns
    -------
    Hexadecimal numbers such as `0xfe00` without leading zeros: bit n is CPU n in Linux's numbering.

    Raises
    ------
    BadInputError
        If the profile does not list the cores, or they cannot be divided that way.
    """
    if threads_per_core not in range(1, node.threads_per_core + 1):
        raise BadInputError(
            f"{threads_per_core} threads per core, but node type {node.name} has {node.threads_per_core}",
            f"Ask for 1 to {node.threads_per_core}.",
        )
    return tuple(
        _mask(cores, offset=node.all_cores, threads=threads_per_core)
        for cores in cores_by_rank(node, ranks, gpus_per_rank=gpus_per_rank)
    )


def cores_by_rank(node: NodeType, ranks: int, *, gpus_per_rank: int = 1) -> tuple[tuple[int, ...], ...]:
    """Divide a node's physical cores: for each local rank, the cores near its GPUs, else an equal part of all.

    Raises
    ------
    BadInputError
        If the profile does not list the cores, or they cannot be divided that way.
    """
    if not node.gpus:
        return _share(_usable_cores(node), ranks, f"cores of node type {node.name}")
    if not node.gpu_cores:
        raise BadInputError(
            f"it is not known which cores of node type {node.name} are near which GPU",
            f"Add gpu_cores to [nodes.{node.name}] of the site profile; see `lstopo` or `nvidia-smi topo -m`.",
        )
    if gpus_per_rank:
        return _cores_near(node, ranks, gpus_per_rank)
    shares = _share(tuple(range(node.gpus)), ranks, f"GPUs of node type {node.name}")
    return tuple(tuple(core for gpu in gpus for core in node.gpu_cores[gpu]) for gpus in shares)


def _cores_near(node: NodeType, ranks: int, each: int) -> tuple[tuple[int, ...], ...]:
    if ranks < 1 or ranks * each > node.gpus:
        raise BadInputError(
            f"{ranks} ranks with {each} GPUs each, but a node of type {node.name} has {node.gpus}",
            "Ask for fewer ranks per node.",
        )
    return tuple(
        tuple(core for cores in node.gpu_cores[rank * each : (rank + 1) * each] for core in cores)
        for rank in range(ranks)
    )


def _usable_cores(node: NodeType) -> tuple[int, ...]:
    return tuple(core for core in range(node.all_cores) if core not in node.reserved_cores)


def _share(things: tuple[int, ...], ranks: int, what: str) -> tuple[tuple[int, ...], ...]:
    """Divide items in order, the same number for each rank; leftovers stay unused."""
    if ranks < 1 or ranks > len(things):
        raise BadInputError(f"{ranks} ranks cannot share {len(things)} {what}", f"Ask for 1 to {len(things)} ranks.")
    each = len(things) // ranks
    return tuple(things[rank * each : (rank + 1) * each] for rank in range(ranks))


def _mask(cores: tuple[int, ...], *, offset: int, threads: int) -> str:
    return hex(sum(1 << (core + thread * offset) for core in cores for thread in range(threads)))
