"""Rules for the messages of PyTorch's process groups (torch.distributed) and of gloo."""

from __future__ import annotations

from hpcmod.runs.values.logs.rule import PROBLEM, Rule

_ISSUE = "https://github.com/pytorch/pytorch/issues/"
_DOCS = "https://docs.pytorch.org/docs/stable/distributed.html"

RULES = (
    Rule(
        "port-taken",
        "PyTorch",
        "server socket has failed",
        r"(?i)server socket has failed .{0,300}(?:EADDRINUSE|address already in use)",
        kind=PROBLEM,
        meaning="another program on the first node uses the port MASTER_PORT",
        cure="unset MASTER_PORT: the run script chooses a port of the job's own.",
        source=_ISSUE + "85604",
    ),
    Rule(
        "port-privileged",
        "PyTorch",
        "server socket has failed",
        r"(?i)server socket has failed .{0,300}(?:EACCES|permission denied)",
        kind=PROBLEM,
        meaning="MASTER_PORT is below 1024, which only root may use",
        cure="unset MASTER_PORT: the run script chooses a port of the job's own.",
        source="https://github.com/KimMeen/Time-LLM/issues/158",
    ),
    Rule(
        "master-unreachable",
        "PyTorch",
        "client socket has",
        r"client socket has (?:failed to connect|timed out)",
        kind=PROBLEM,
        meaning="a rank cannot reach rank 0 at MASTER_ADDR and MASTER_PORT",
        cure="unset MASTER_ADDR MASTER_PORT: the run script sets them. Otherwise look for the first message of rank 0.",
        source=_DOCS,
    ),
    Rule(
        "master-unknown",
        "PyTorch",
        "",
        r"network addresses of \(.*\) cannot be retrieved|getaddrinfo failed",
        kind=PROBLEM,
        meaning="MASTER_ADDR is not the name of a host that this node knows",
        cure="unset MASTER_ADDR: the run script sets it.",
        source=_DOCS,
    ),
    Rule(
        "ranks-missing",
        "PyTorch",
        "clients joined",
        r"[Tt]imed out after \d+ seconds waiting for clients\. (?P<n>\d+/\d+) clients joined",
        (("joined", "{n}"),),
        kind=PROBLEM,
        meaning="some ranks did not start, or used another MASTER_ADDR or MASTER_PORT",
        cure="Look for ranks without a message; start all ranks with `hpcmod job`.",
        source=_DOCS,
    ),
    Rule(
        "gloo-interface",
        "gloo",
        "nable to find ",
        r"[Uu]nable to find (?:address for|interface)",
        kind=PROBLEM,
        meaning="the interface in GLOO_SOCKET_IFNAME does not exist on this node, or has no address",
        cure="Set GLOO_SOCKET_IFNAME to an interface that `ip address` lists on every node.",
        source=_DOCS,
    ),
    Rule(
        "gloo-loopback",
        "gloo",
        "gloo/",
        r"gloo/transport/[^\s\]]+\] .{0,300}"
        r"(?:\[?127\.\d+\.\d+\.\d+\]?\S*: Connection refused|(?:refused|failed to connect), .{0,200}remote=\[127\.)",
        kind=PROBLEM,
        meaning="gloo chose the loopback address of the host name, which other nodes cannot reach",
        cure="export GLOO_SOCKET_IFNAME=INTERFACE, an interface that all nodes share",
        source=_ISSUE + "15592",
    ),
    Rule(
        "gloo-connect",
        "gloo",
        "gloo/",
        r"gloo/transport/[^\s\]]+\] (?!.{0,300}\[127\.)"
        r".{0,300}(?:Connection refused|failed to connect|No route to host|[Tt]imed out)"
        r"|gloo/transport/ibverbs/[^\s\]]+\] .{0,300}IBV_WC_SUCCESS\. 12 vs",
        kind=PROBLEM,
        meaning="gloo cannot connect two ranks",
        cure="export GLOO_SOCKET_IFNAME=INTERFACE, an interface that all nodes share",
        source=_DOCS,
    ),
    Rule(
        "gloo-mesh",
        "gloo",
        "Gloo connectFullMesh failed",
        r"connectFullMesh failed",
        kind=PROBLEM,
        meaning="gloo could not connect all ranks with each other",
        cure="Look for the first message of another rank, and set GLOO_SOCKET_IFNAME to an interface that all share.",
        source="https://github.com/sgl-project/sglang/issues/3226",
    ),
    Rule(
        "gloo-peers",
        "gloo",
        "[Gloo] Rank ",
        r"connected to (?P<got>\d+) peer ranks\. Expected number of connected peer ranks is : (?!(?P=got)\b)\d+",
        kind=PROBLEM,
        meaning="a rank is not connected to all others",
        cure="Look for the first message of another rank.",
        source="https://github.com/sgl-project/sglang/pull/17392",
    ),
    Rule(
        "peer-closed",
        "gloo",
        "gloo/",
        r"gloo/transport/[^\s\]]+\] .{0,300}Connection (?:closed|reset) by peer",
        kind=PROBLEM,
        meaning="another rank closed its connection, usually because it ended",
        cure="Find the rank that failed first: its message is the cause.",
        source=_ISSUE + "75512",
    ),
    Rule(
        "gloo-connected",
        "gloo",
        "[Gloo] Rank ",
        r"connected to (?P<got>\d+) peer ranks\. Expected number of connected peer ranks is : (?P<of>\d+)",
        (("peers", "{got} of {of}"),),
    ),
    Rule("c10d-name", "PyTorch", "[c10d", r"The hostname of the client socket cannot be retrieved"),
    Rule("c10d-lines", "PyTorch", "[c10d", r"\[[IDWE][\d :.]*(?:\d+ )?\S+\] .*\[c10d(?: - debug)?\] The \w+ socket"),
)
