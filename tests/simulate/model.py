"""How long the ranks of a job take to start: a model of what they wait for, from one node to ten thousand.

All ranks are identical, and file system and network are undisturbed: there are no slow nodes, and no other jobs. Nodes
with the same role do everything at the same time, so only one of them is simulated, with the load of all of them on
shared resources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.simulate.events import Clock, Event, Process, Server

SLICES = 4
"""Number of parts in which an import reads the image: the ranks of a node wait for the same parts."""

CHILDREN = 2
"""Number of nodes that each node of the tree copy sends to."""
BLOCK = 4 * 1024 * 1024
"""Bytes that a node of the tree copy forwards at a time."""
WIDTH = 50
"""Number of nodes that each node forwards Slurm's messages to, also in sbcast (slurm.conf, TreeWidth of Slurm
22.05).
"""

WAYS = ("plain", "sbcast", "tree", "fork", "one-per-node")


@dataclass(frozen=True)
class Staging:
    """Cost of copying an image to the nodes, in CPU seconds, except the first."""

    seconds: float
    """Wall time to stage an empty file to one node, without its CPU time."""
    once: float
    once_per_byte: float
    node: float
    node_per_byte: float
    beside_per_byte: float
    """What a node does on another core at the same time."""


@dataclass(frozen=True)
class Costs:
    """Costs of starts on one node: CPU seconds, except the first."""

    step: float
    """Seconds until the scheduler has started the first task, without its CPU time."""
    task: float
    container: float
    script: float
    """Run script and interpreter, without imports."""
    imports: float
    fork: float
    """Of a forked rank, in addition to its container and script."""
    fork_once: float
    """Of the process that imports, for all ranks of a node."""
    shared: float
    """Of a forked rank in the only container of its node."""
    shared_once: float
    staging: Mapping[str, Staging]
    image_bytes: float
    start_bytes: float
    """Bytes of the image that a start reads."""
    calls: float
    """Number of operations on files in shared directories when a container starts."""
    waking: float = 0.0
    """Relative extra cost of an import while another core is idle; probably because each file that the import reads
    is a request to the process that serves the image, which wakes up a core instead of switching on a busy one.
    """


@dataclass(frozen=True)
class Machine:
    """Resources that the ranks share. Rates are per second."""

    cores: float
    """Number of cores of a node, or with `one_host` of all nodes together."""
    one_host: bool = False
    """Whether all nodes are virtual ones that share the cores and the page cache of one machine."""
    metadata: float = float("inf")
    """Metadata operations of the file system per second."""
    delay: float = 0.0
    """Seconds that one metadata operation takes on an idle file system."""
    read: float = float("inf")
    """Bytes per second that the file system delivers from one file, over all its stripes."""
    node_read: float = float("inf")
    """Bytes per second that a node can read from one file."""
    link: float = float("inf")
    """Bytes per second that a node can send."""
    hop: float = 0.0
    """Seconds per level of the scheduler's message tree."""


class _Start:
    """One start of a job's ranks."""

    def __init__(self, costs: Costs, machine: Machine, nodes: int, ranks: int, *, staged: bool) -> None:
        self.clock = Clock()
        self.costs, self.machine, self.nodes, self.ranks, self.staged = costs, machine, nodes, ranks, staged
        self.alike = dict.fromkeys(range(nodes), 1) if machine.one_host or nodes == 1 else {0: 1, 1: nodes - 1}
        """Simulated nodes, and how many nodes each represents; node 0 sends the copies."""
        count = 1 if machine.one_host else len(self.alike)
        self.cores = [Server(self.clock, machine.cores, 1.0) for _ in range(count)]
        self.metadata = Server(self.clock, machine.metadata)
        self.file = Server(self.clock, machine.read, limit=machine.node_read)
        self.fetched: dict[tuple[int, int], Event] = {}
        self.importing = [0] * count

    def cores_of(self, node: int) -> Server:
        return self.cores[0 if self.machine.one_host else node]

    def fetch(self, node: int, part: int) -> Event:
        """Return the event of a part of the image being in a node's page cache."""
        found = self.fetched.get((node, part))
        if found is None:
            found = self.file.use(0.0 if self.staged else self.costs.start_bytes / SLICES, self.alike[node])
            self.fetched[node, part] = found
        return found

    def begin(self, node: int, *, container: bool) -> Process:
        """Start a task and, if it has one, its container."""
        costs, machine = self.costs, self.machine
        yield self.clock.after(costs.step + machine.hop * _levels(self.nodes, WIDTH))
        yield self.cores_of(node).use(costs.task)
        if container:
            yield self.clock.after(costs.calls * machine.delay)
            yield self.metadata.use(costs.calls, self.alike[node])
            yield self.cores_of(node).use(costs.container + costs.script)

    def work(self, node: int, seconds: float) -> Process:
        """Import: read the image part by part, and compute after each."""
        place = 0 if self.machine.one_host else node
        self.importing[place] += 1
        for part in range(SLICES):
            yield self.fetch(node, part)
            yield self.clock.after(0)  # until all who arrive at the same time are counted
            waking = self.costs.waking if self.importing[place] < self.machine.cores else 0.0
            yield self.cores[place].use(seconds * (1 + waking) / SLICES)
        self.importing[place] -= 1

    def plain(self, node: int) -> Process:
        """Start a rank with its own container and imports."""
        yield from self.begin(node, container=True)
        yield from self.work(node, self.costs.imports)

    def forking(self, node: int, *, one_container: bool) -> Process:
        """Start all ranks of a node by forking them from one that has imported."""
        costs, clock = self.costs, self.clock
        tasks = [clock.start(self.begin(node, container=not one_container)) for _ in range(self.ranks)]
        yield tasks[0]
        if one_container:
            yield clock.after(costs.calls * self.machine.delay)
            yield self.metadata.use(costs.calls, self.alike[node])
        yield from self.work(node, costs.shared_once if one_container else costs.fork_once)
        yield from tasks
        each = costs.shared if one_container else costs.fork
        ends = [self.cores_of(node).use(each) for _ in tasks]
        yield from ends

    def stage(self, way: str) -> Process:
        """Copy the image to all nodes, verify it there, and then start the ranks as usual."""
        costs, size = self.costs.staging[way], self.costs.image_bytes
        yield self.clock.after(costs.seconds + self.machine.hop * _levels(self.nodes, WIDTH))
        parts = [self.file.use(size), self.cores_of(0).use(costs.once + costs.once_per_byte * size)]
        for node in self.alike:
            parts.append(self.cores_of(node).use(costs.node + costs.node_per_byte * size))
            parts.append(self.cores_of(node).use(costs.beside_per_byte * size))
        parts.append(self.clock.after(self.transfer(way, size)))
        yield from parts
        yield from [self.clock.start(self.plain(node)) for node in self.alike for _ in range(self.ranks)]

    def transfer(self, way: str, size: float) -> float:
        """Return the seconds that the network takes to bring a file to the last node.

        sbcast sends a block when all nodes have the previous one, so each level of its tree adds the whole file; nodes
        of the tree copy forward each block as soon as they have it, so each level adds one block.
        """
        link, nodes = self.machine.link, self.nodes
        if way == "sbcast":
            return sum(size * children / link for children in _children(nodes, WIDTH))
        return (size + BLOCK * _levels(nodes, CHILDREN)) * min(CHILDREN, nodes - 1) / link

    def run(self, way: str) -> float:
        """Return the seconds until the last rank has imported."""
        if way in self.costs.staging:
            self.clock.start(self.stage(way))
        else:
            for node in self.alike:
                if way == "plain":
                    for _ in range(self.ranks):
                        self.clock.start(self.plain(node))
                else:
                    self.clock.start(self.forking(node, one_container=way == "one-per-node"))
        return self.clock.run()


def _children(nodes: int, width: int) -> Iterator[int]:
    """Yield, for each level of a tree below its root, the maximum number of nodes that a node above it sends to."""
    above, left = 1, nodes
    while left > 0:
        here = min(above * width, left)
        yield -(-here // above)
        above, left = here, left - here


def _levels(nodes: int, width: int) -> int:
    return len(list(_children(nodes, width)))


def start_seconds(way: str, nodes: int, ranks: int, costs: Costs, machine: Machine) -> float:
    """Return the seconds until all ranks of a job have imported what they need.

    Parameters
    ----------
    way
        One of WAYS.
    ranks
        Ranks per node.
    """
    if ranks == 1 and way in ("fork", "one-per-node"):
        way = "plain"  # as the run script does
    return _Start(costs, machine, nodes, ranks, staged=way in costs.staging).run(way)
