"""The planted faults: ten of each kind, and healthy runs of each command."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

CHECK, VERIFY_NET, BENCH, WHY = "check", "verify-net", "bench", "why"
HEALTHY = "healthy"

KINDS = {
    "bind": "bind path missing on a node",
    "tmp": "`/tmp` full on a node",
    "shm": "`/dev/shm` full on a node",
    "mask": "wrong CPU mask on a node",
    "killed": "a rank is killed, by a signal or for its memory",
    "asleep": "a rank sleeps, and the others wait",
    "other": "a rank calls another collective",
    "address": "wrong `MASTER_ADDR`",
    "port": "port already in use",
    "interface": "network interface missing",
    "slow": "slow node",
    "digest": "other image on a node",
}


@dataclass(frozen=True)
class Plant:
    """One fault, or a healthy run, and what must be reported about it."""

    kind: str
    command: str
    number: int
    nodes: int = 2
    each: int = 1
    """Ranks per node."""
    words: tuple[str, ...] = ()
    """More options of the command."""
    faults: tuple[str, ...] = ()
    """For `check`: NODE=FAULT, where FAULT is an argument of fault.sh."""
    rank: int | None = None
    """The affected rank; None: all of them."""
    settings: str = ""
    """Line of shell that the rank evaluates before it starts."""
    fault: str = ""
    """Argument of fault.sh for the rank."""
    program: dict[str, object] = field(default_factory=dict)
    """Settings for rank.py."""
    rules: tuple[str, ...] = ()
    """Rules of which at least one must be reported."""
    told: str = ""
    """Text that the report must contain."""
    live: bool = False
    """Whether `why` examines the running job."""
    alone: bool = True
    """Whether it needs its own job; otherwise rank.py runs several in one job."""
    besides: tuple[str, ...] = ()
    """Rules that may also be reported, because they follow from the fault."""

    @property
    def name(self) -> str:
        """Return the unique name of the plant."""
        return f"{self.kind}-{self.command}-{self.number}"


def node(number: int) -> str:
    """Return the name of a virtual node."""
    return f"nid{number:03}"


def _checked() -> Iterator[Plant]:
    def one(kind: str, number: int, fault: str, *, on: int = 0, rules: tuple[str, ...] = (), **more: object) -> Plant:
        nodes = 2 + number % 3
        bad = on or 1 + number % nodes
        planted = (f"{node(bad)}={fault}",)
        return Plant(kind, CHECK, number, nodes, faults=planted, rules=rules or (kind,), **more)  # type: ignore[arg-type]

    for number in range(3):
        yield one("bind", number, "hidden:{top}/bound")
    bound = "{top}/local/mine"
    for number, name in enumerate(("SINGULARITY_BIND", "APPTAINER_BIND", "SINGULARITY_BINDPATH"), 3):
        yield one("bind", number, "hidden:{top}/local", settings=f"{name}={bound}:/mine")
    spaces = ("full:{}:1m", "filled:{}:100m:40m", "full:{}:2g:2", "filled:{}:20m:0m", "full:{}:60m", "full:{}:1m:500")
    for kind, directory in (("tmp", "/tmp"), ("shm", "/dev/shm")):
        for number, space in enumerate(spaces):
            yield one(kind, number, space.format(directory), rules=("space",), told=directory)
    for number in range(10):
        yield one("mask", number, f"mask:{number % 2}", words=("-p", "standard"))
    networks = ("none", "down", "cable", "none", "down")
    for number, network in enumerate(networks):
        yield one("interface", number, f"net:{network}", told="hsn0")
    for number, how in enumerate(("nice", "stop", "idle", "stop", "nice", "idle", "stop", "nice", "idle", "stop")):
        yield one("slow", number, f"slow:{how}", rules=("speed", "answer"))
    images = ("first", "middle", "last", "shorter", "longer", "empty", "text", "gone", "swapped", "middle")
    for number, image in enumerate(images):
        fault = "hidden:{folder}" if image == "gone" else f"other:{{top}}/images/{image}:{{image}}"
        yield one("digest", number, fault, rules=("image",))


def _networks() -> Iterator[Plant]:
    addresses = (
        (None, "export MASTER_ADDR=192.0.2.1", ("master-unreachable",), "", 1, 2),
        (None, "export MASTER_ADDR=no-such-host.invalid", ("master-unknown",), "", 1, 2),
        (1, "export MASTER_ADDR=192.0.2.9", ("master-unreachable",), "nid002", 1, 2),
        (None, "export MASTER_ADDR=nid002", ("master-unreachable", "master-elsewhere", "ranks-missing"), "", 2, 2),
        (3, "export MASTER_ADDR=localhost", ("master-unreachable", "ranks-missing"), "", 1, 4),
    )
    for number, (rank, settings, rules, told, each, nodes) in enumerate(addresses):
        yield Plant(
            "address", VERIFY_NET, number, nodes, each, rank=rank, settings=settings, rules=rules, told=told,
            besides=("gloo", "gloo-mesh", "gloo-connect", "master-unreachable", "master-unknown", "ranks-missing"),
        )  # fmt: skip
    for number, (nodes, each) in enumerate(((2, 1), (2, 2), (3, 1), (4, 1))):
        yield Plant("port", VERIFY_NET, number, nodes, each, fault="port", rules=("port-taken",), besides=_PORT)
    names = (
        (None, "nosuch0", ("interface-missing",), "nosuch0", 2),
        (1, "hsn7", ("interface-missing",), "nid002", 2),
        (2, "ib0", ("interface-missing",), "nid003", 4),
    )
    for number, (rank, name, rules, told, nodes) in enumerate(names):
        yield Plant(
            "interface", VERIFY_NET, number, nodes, rank=rank, settings=f"export GLOO_SOCKET_IFNAME={name}",
            rules=rules, told=told, besides=("gloo", "gloo-interface", "gloo-mesh", "gloo-slow"),
        )  # fmt: skip


_PORT = ("gloo", "master-unreachable", "gloo-mesh", "gloo-connect", "ranks-missing")


def _explained() -> Iterator[Plant]:
    for number in range(4):
        nodes, each = ((2, 1), (2, 2), (4, 1), (3, 1))[number]
        bad = 1 + number % nodes
        yield Plant(
            "bind", WHY, number, nodes, each, rules=("bind-left-out",), told=f"bound-{bad}", rank=(bad - 1) * each,
            settings=f"SINGULARITY_BIND={{local}}/bound-{bad}:/bound", program={"fault": "reads", "how": "/bound/data"},
        )  # fmt: skip
    for kind, directory, ways in (
        ("tmp", "/tmp", ("file", "save", "temporary", "copy")),
        ("shm", "/dev/shm", ("loader", "shared", "mapped", "tensor")),
    ):
        for number, how in enumerate(ways):
            program = {"fault": "full", "how": how, "directory": directory}
            plant = _batched(kind, number, rules=("no-space", "save-failed", "shared-memory-full"), program=program)
            if how in ("shared", "mapped"):  # the process prints nothing, so only srun reports how it died
                plant = replace(plant, alone=True, rules=("task-exit",), told="/dev/shm")
            yield plant
    ways = ("SIGKILL", "SIGSEGV", "SIGBUS", "SIGABRT", "SIGTERM", "exit", "memory", "tensor", "oom", "oom")
    for number, how in enumerate(ways):
        nodes, each = _shape(number)
        rank = 1 + number % (nodes * each - 1)
        program = {"fault": "killed", "how": how, "call": _CALLS[number % len(_CALLS)], "timeout": 60, "rank": rank}
        rules = {"memory": ("python-memory",), "tensor": ("python-memory",), "oom": ("oom-kill",)}
        yield Plant(
            "killed", WHY, number, nodes, each, rank=rank, program=program, rules=rules.get(how, ("task-exit",))
        )
    ways = ("sleep", "pipe", "lock", "stopped", "computes", "loops", "loader", "program", "socket", "sleep")
    for number, how in enumerate(ways):
        nodes, each = _shape(number)
        rank = 1 + (number + 1) % (nodes * each - 1)
        program = {"fault": "asleep", "how": how, "call": _CALLS[number % len(_CALLS)], "timeout": 600, "rank": rank}
        yield Plant(
            "asleep", WHY, number, nodes, each, rank=rank, program=program, live=True,
            told="stopped by a signal" if how == "stopped" else "load_data",
        )  # fmt: skip
    others = ("broadcast", "barrier", "all_gather", "reduce_scatter", "barrier")
    for number, how in enumerate(others):
        call = "all_gather" if number == 4 else _CALLS[number]
        nodes, each = _shape(number)
        rank = 1 + number % (nodes * each - 1)
        program = {"fault": "other", "how": how, "call": call, "timeout": 600, "rank": rank}
        yield Plant("other", WHY, number, nodes, each, rank=rank, program=program, told=how, live=True)
        yield _batched("other", number + 5, rules=("mismatch",), told=how, program={**program, "timeout": 10})
    addresses = ("192.0.2.1", "no-such-host.invalid", "192.0.2.77", "localhost", "198.51.100.3")
    for number, how in enumerate(addresses):
        program = {"fault": "address", "how": how, "rank": "all" if number == 0 else None, "timeout": 8}
        yield _batched("address", number, rules=("master-not-reached", "master-unknown"), program=program)
    for number in range(6):
        program = {"fault": "port", "how": "46"[number % 2], "timeout": 8}
        yield _batched("port", number, rules=("port-in-use",), program=program, rank=0)
    for number, how in enumerate(("nosuch0", "ib0")):
        yield _batched("interface", number, rules=("no-interface",), program={"fault": "interface", "how": how})


_CALLS = ("all_reduce", "all_gather", "broadcast", "barrier", "reduce_scatter", "reduce")


def _shape(number: int) -> tuple[int, int]:
    """Return nodes and ranks per node."""
    return ((2, 1), (2, 2), (4, 1), (3, 1), (2, 1))[number % 5]


def _batched(
    kind: str, number: int, *, rules: tuple[str, ...], program: dict[str, object], told: str = "", rank: int = -1
) -> Plant:
    """Return a plant that shares its job with others: two nodes with two ranks each, or four with one each."""
    chosen = 1 + number % 3 if rank < 0 else rank
    nodes, each = ((2, 2), (4, 1))[number % 2]
    named = {**program, "rank": chosen if program.get("rank") is None else program["rank"]}
    if program["fault"] == "other":
        named["rank"] = chosen
    return Plant(kind, WHY, number, nodes, each, rank=chosen, rules=rules, told=told, program=named, alone=False)


def _healthy() -> Iterator[Plant]:
    for number in range(10):
        nodes, each = 1 + number % 4, 1 + number // 5
        words = (("-p", "standard"), ("-p", "small"), ("--digest",), ("--affinity", "--ranks-per-node", "2"))[
            number % 4
        ]
        yield Plant(HEALTHY, CHECK, number, nodes, words=words)
        yield Plant(HEALTHY, VERIFY_NET, number, max(nodes, 2), each)
        ops = ("all_reduce", "all_gather", "broadcast", "reduce_scatter", "all_to_all")[number % 5]
        yield Plant(
            HEALTHY,
            BENCH,
            number,
            nodes,
            max(each, 3 - nodes),
            words=("--ops", ops, "--sizes", "1K-4K", "--repeat", "2"),
        )
        live = number % 2 == 1
        program = {"fault": "none", "call": _CALLS[number % 6], "steps": 3000 if live else 3, "pause": 0.05 * live}
        yield Plant(HEALTHY, WHY, number, max(nodes, 2), each, program=program, live=live)


def all_plants() -> list[Plant]:
    """Return all plants, in the best order to run them."""
    found = [*_checked(), *_networks(), *_explained(), *_healthy()]
    return sorted(found, key=lambda plant: ([CHECK, WHY, VERIFY_NET, BENCH].index(plant.command), plant.alone))
