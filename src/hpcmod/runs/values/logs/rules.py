"""The lines of communication libraries that are known: what they tell, and why a faster network is not used.

Problems that end a run are known endings (hpcmod.runs.endings), as in `hpcmod why`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

NETWORKS = (("OFI", r"AWS Libfabric|OFI|Libfabric"), ("IB", r"IB(?:ext)?(?:_v\d+)?|IB-CAST|IBP"), ("Socket", r"Socket"))
"""Networks of NCCL and RCCL, and a pattern of the names that their releases and plugins print."""

_NETWORK_FIELDS = ("network", "via")


@dataclass(frozen=True)
class Rule:
    """Lines that mean the same thing."""

    mark: str
    """Text that every such line contains; tested first, because it is much faster than the pattern."""
    pattern: str
    """Regular expression for a part of the line."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """By field: its value; {group} is replaced by a group of the pattern."""
    many: Mapping[str, str] = field(default_factory=dict)
    """By field: a pattern with one group, of which each match in the line is a value."""
    counted: Mapping[str, str] = field(default_factory=dict)
    """By field: a pattern, whose number of matches in the line is the value."""

    def match(self, line: str) -> list[tuple[str, str]] | None:
        """Return the facts of a line as pairs of field and value; None if the rule is not about it."""
        if self.mark not in line:
            return None
        match = _compiled(self.pattern).search(line)
        return None if match is None else list(self._read(line, match))

    def _read(self, line: str, match: re.Match[str]) -> Iterator[tuple[str, str]]:
        groups = {name: (value or "").strip() for name, value in match.groupdict().items()}
        for name, template in self.facts.items():
            value = template.format(**groups)
            yield name, name_network(value) if name in _NETWORK_FIELDS else value
        for name, pattern in self.many.items():
            yield from ((name, value) for value in _compiled(pattern).findall(line))
        for name, pattern in self.counted.items():
            yield name, str(len(_compiled(pattern).findall(line)))


@dataclass(frozen=True)
class Reason:
    """Why a faster network is not used; harmless in itself."""

    name: str
    rule: Rule
    meaning: str
    cure: str
    source: str
    """Where such a line was seen or is documented."""
    hinders: str = ""
    """The only network that it concerns, as in NETWORKS; empty: any."""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def name_network(printed: str) -> str:
    """Return OFI, IB or Socket for a name that NCCL prints; other names are returned as they are."""
    return next((name for name, pattern in NETWORKS if _compiled(pattern).fullmatch(printed)), printed)


_DOCS = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
_NCCL = "https://github.com/NVIDIA/nccl/issues/"
_OF_LIST = r"\[\d+\]([^\s:\[\]]+):"
"""A device or interface in `[0]mlx5_0:1/IB [1]mlx5_1:1/IB` or `[0]ib0:10.10.10.2<0>`."""

RULES = (
    # NCCL, RCCL and their plugins: NCCL's pages of variables; aws/aws-ofi-nccl issue 715; determined-ai/environments
    # pull request 169
    Rule("NCCL version ", r"NCCL version (?P<v>\d[\w.+]*)", {"version": "NCCL {v}"}),
    Rule("RCCL version", r"RCCL version ?:? (?P<v>\d\S*)", {"version": "RCCL {v}"}),
    Rule("Using network ", r"Using network (?P<n>\S+(?: \S+)*)\s*$", {"network": "{n}"}),
    Rule("Using internal Network ", r"internal Network (?P<n>\w+)", {"network": "{n}"}),
    Rule("Loaded net plugin ", r"Loaded net plugin (?P<p>.+?) \(v\d+\)", {"loaded": "{p}"}),
    Rule("Plugin version : ", r"Plugin version : (?P<p>\S+(?: \S+)*)", {"plugin": "{p}"}),
    Rule("NET/OFI ", r"NET/OFI (?:Initializing|Using) (?P<p>aws-ofi-[nr]ccl \S+)", {"plugin": "{p}"}),
    Rule(
        "NET/OFI Selected ",
        r"NET/OFI Selected [Pp]rovider is (?P<p>[^\s,]+)",
        {"provider": "{p}"},
        many={"nics": r"\(found (\d+) nics\)"},
    ),
    Rule("Using Libfabric", r"Using Libfabric version (?P<v>\S+)", {"libfabric": "{v}"}),
    Rule("transport protocol", r"transport protocol (?P<p>\w+)", {"protocol": "{p}"}),
    Rule(
        "NET/IB",
        r"NET/IB ?: Using \[\d+\]",
        many={"devices": _OF_LIST, "link": r"\[\d+\][^\s:\[\]]+:\d+/(\w+)"},
        counted={"nics": _OF_LIST},
    ),
    Rule("NET/Socket", r"NET/Socket ?: Using \[\d+\]", many={"sockets": _OF_LIST}),
    Rule("Bootstrap", r"Bootstrap ?: Using \[\d+\]", many={"bootstrap": _OF_LIST}),
    Rule("Bootstrap", r"Bootstrap ?: Using (?P<i>[^\s:\[\]]+):", {"bootstrap": "{i}"}),
    Rule("NET : Using interface", r"interface (?P<i>[^\s:]+):", {"bootstrap": "{i}"}),
    Rule("via NET/", r"via NET/(?P<n>[^/]+)/\S*/GDRDMA", {"via": "{n}", "gdr": "on"}),
    Rule("via NET/", r"via NET/(?P<n>(?!Socket)[^/]+)/(?!.*GDRDMA)", {"via": "{n}", "gdr": "off"}),
    Rule("via NET/Socket", r"via NET/(?P<n>Socket)/", {"via": "{n}"}),
    Rule("GPU Direct RDMA", r"GPU Direct RDMA \(?[Ee]nabled", {"gdr": "on"}),
    Rule("GPU Direct RDMA", r"GPU Direct RDMA \(?[Dd]isabled", {"gdr": "off"}),
    Rule("use ring PXN", r"use ring PXN \d GDR [1-9]", {"gdr": "on"}),
    Rule("use ring PXN", r"use ring PXN \d GDR 0", {"gdr": "off"}),
    Rule(" -> Algo ", r"-> Algo (?P<a>\S+) proto (?P<p>\S+)", {"algorithm": "{a} {p}"}),
    Rule("NCCL_ALGO set", r"NCCL_ALGO set by environment to (?P<a>\w+)", {"algorithm": "{a}"}),
    # libfabric and UCX: fabric(7); ofiwg/libfabric issue 5787; openucx/ucx pull request 3511
    Rule("Opened fabric: ", r"Opened fabric: (?P<f>\S+)", {"fabric": "{f}"}),
    Rule(
        "fi_getinfo: provider ",
        r"fi_getinfo: provider (?P<p>\S+) (?:returned -\d+|output empty list)",
        {"unavailable": "{p}"},
    ),
    Rule("ersion ", r"UCX  ?INFO +Version (?P<v>[\d.]+)", {"version": "UCX {v}"}),
    Rule("UCX version ", r"UCX version (?P<v>\d[\d.]*\d)", {"version": "UCX {v}"}),
    Rule("tag(", r"(?:ep_cfg\[\d+\]:|cfg#\d+) *tag\(", many={"ucx": r"[( ](\w+)/[\w.:-]+(?=[ )])"}),
    # MPICH, also Cray's and Intel's, and Open MPI: pmodels/mpich issue 7028; open-mpi/ompi pull request 9111
    Rule("provider: ", r"^(?:\[\d+\] )?provider: (?P<p>\S+), score = ", {"candidate": "{p}"}),
    Rule("libfabric provider: ", r"libfabric provider: (?P<p>\S+)", {"mpi_provider": "{p}"}),
    Rule("mtl:ofi:prov: ", r"mtl:ofi:prov: (?P<p>[a-z][\w;]*)", {"mpi_provider": "{p}"}),
    Rule("mtl:ofi:provider", r"mtl:ofi:provider(?::\w+)?: (?P<d>\S+)", {"mpi_domain": "{d}"}),
    # gloo
    Rule(
        "[Gloo] Rank ",
        r"connected to (?P<got>\d+) peer ranks\. Expected number of connected peer ranks is : (?P<of>\d+)",
        {"peers": "{got} of {of}"},
    ),
    # lines without anything to report, which do not count as unknown
    Rule("Failed to find nccl", r"Failed to find nccl\w+ symbol"),
    Rule(" -> ", r"\S+\.(?:cc|cu|h):\d+ -> \d+"),
    Rule(" set ", r"NCCL_\w+ set (?:by environment )?to "),
    Rule(" via ", r" via (?:P2P|SHM|direct)"),
    Rule("NET/OFI ", r"NET/OFI (?:Setting|Configuring|Running|Internode|Creating one|Global|Using CUDA)"),
    Rule("libfabric:", r"libfabric:\S*<(?:info|debug|trace)>"),
    Rule("UCX", r" UCX +(?:INFO|DEBUG|TRACE|DATA|REQ|FUNC) "),
    Rule("FI_VERSION", r"Required minimum FI_VERSION: "),
    Rule("MPICH Slingshot Network Summary: ", r"Network Summary: 0 network timeouts"),
    Rule("rror stack:", r"(?:Fatal error in \w+|Abort\(\d+\)).*error stack:"),
    Rule("mca:", r"\] (?:mca: ?(?:base|oob|pml|mtl)\b|select: )"),
    Rule("[c10d", r"The hostname of the client socket cannot be retrieved"),
    Rule("[c10d", r"\[[IDWE][\d :.]*(?:\d+ )?\S+\] .*\[c10d(?: - debug)?\] The \w+ socket"),
)

PLUGIN_NOT_LOADED, NO_PLUGIN = "plugin-not-loaded", "no-net-plugin"
"""Reasons of which the first holds if a log has both: NCCL prints the second as well then."""

REASONS = (
    Reason(
        PLUGIN_NOT_LOADED,  # what dlerror() says: NVIDIA/nccl, src/net.cc of v2.18.3-1 to v2.22.3-1
        Rule(
            "NET/Plugin",
            r"NET/Plugin ?:.{0,600}"
            r"(?:version `[^']{1,80}' not found|(?<![\w./-])(?!lib[nr]ccl-)lib[^\s:]{1,80}: cannot open shared)",
        ),
        "the network plugin is there, but a library that it needs is too old or missing, often libfabric of the host",
        "`hpcmod compat IMAGE` names the library; after an update of the system: `hpcmod site netstack check`.",
        "https://github.com/awslabs/awsome-distributed-ai/issues/292",
        hinders="OFI",
    ),
    Reason(
        NO_PLUGIN,
        Rule(
            "NET/Plugin",
            r"NET/Plugin ?:.{0,300}(?:No plugin found|Could not find: |cannot open shared object file)",
        ),
        "no network plugin was found, so only InfiniBand, RoCE and TCP sockets are available",
        "Use an image with the plugin; `hpcmod compat IMAGE` says whether it has one, `hpcmod build` adds it.",
        _NCCL + "352",
        hinders="OFI",
    ),
    Reason(
        "plugin-symbols",
        Rule("Failed to find ncclNetPlugin symbol", r"Failed to find ncclNetPlugin symbol \("),
        "the network plugin was built for another version of NCCL and is not used",
        "Build the plugin for the image's NCCL or RCCL, e.g. with `hpcmod build`.",
        _NCCL + "1267",
        hinders="OFI",
    ),
    Reason(
        "mr-mode",
        Rule("Invalid memory registration mode", r"cxi:\S+ Invalid memory registration mode"),
        "a program asked the cxi provider for a kind of memory registration that it does not have",
        "Normal while a program tries providers. If no provider is left, use a plugin for this libfabric.",
        "https://ofiwg.github.io/libfabric/main/man/fabric.7.html",
    ),
    Reason(
        "no-ib-device",
        Rule("NET/IB", r"NET/IB ?: No device found"),
        "no InfiniBand or RoCE device",
        "With InfiniBand or RoCE, run `ibv_devinfo` on the node and in the container. Normal on Slingshot.",
        _NCCL + "958",
        hinders="IB",
    ),
    Reason(
        "no-libibverbs",
        Rule("Failed to open libibverbs", r"Failed to open libibverbs\.so"),
        "the image has no libibverbs",
        "With InfiniBand or RoCE, add rdma-core to the image. Not needed on Slingshot.",
        _NCCL + "229",
        hinders="IB",
    ),
    Reason(
        "ib-disabled",
        Rule("NCCL_IB_DISABLE", r"NCCL_IB_DISABLE set (?:by environment )?to 1"),
        "NCCL_IB_DISABLE=1 disables InfiniBand and RoCE",
        "unset NCCL_IB_DISABLE",
        _DOCS,
        hinders="IB",
    ),
    Reason(
        "network-forced",
        Rule("NCCL_NET set", r"NCCL_NET set (?:by environment )?to \"?Socket"),
        "NCCL_NET=Socket forces TCP",
        "unset NCCL_NET",
        _DOCS,
    ),
)
