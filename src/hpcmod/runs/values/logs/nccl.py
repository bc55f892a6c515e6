"""Rules for the logs of NCCL and RCCL (NCCL_DEBUG=INFO) and of their network plugins."""

from __future__ import annotations

from hpcmod.runs.values.logs.rule import PROBLEM, REASON, Rule

_DOCS = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
_NCCL = "https://github.com/NVIDIA/nccl/issues/"
_OFI = "https://github.com/aws/aws-ofi-nccl/issues/"

_OF_LIST = r"\[\d+\]([^\s:\[\]]+):"
"""A device or interface in `[0]mlx5_0:1/IB [1]mlx5_1:1/IB` or `[0]ib0:10.10.10.2<0>`."""

_IMAGE = "Use an image with the plugin; `hpcmod compat IMAGE` says whether it has one, `hpcmod build` adds it."
_LOADED = "Look for the reason in the lines before it; `hpcmod compat IMAGE` checks the plugin's libraries."

FACTS = (
    Rule("nccl-version", "NCCL", "NCCL version ", r"NCCL version (?P<v>\d[\w.+]*)", (("version", "NCCL {v}"),)),
    Rule("rccl-version", "RCCL", "RCCL version", r"RCCL version ?:? (?P<v>\d\S*)", (("version", "RCCL {v}"),)),
    Rule("network", "NCCL", "Using network ", r"Using network (?P<n>\S+(?: \S+)*)\s*$", (("network", "{n}"),)),
    Rule("network-2.2", "NCCL", "Using internal Network ", r"internal Network (?P<n>\w+)", (("network", "{n}"),)),
    Rule("loaded", "NCCL", "Loaded net plugin ", r"Loaded net plugin (?P<p>.+?) \(v\d+\)", (("loaded", "{p}"),)),
    Rule("plugin-version", "NCCL", "Plugin version : ", r"Plugin version : (?P<p>\S+(?: \S+)*)", (("plugin", "{p}"),)),
    Rule(
        "ofi-plugin",
        "NCCL",
        "NET/OFI ",
        r"NET/OFI (?:Initializing|Using) (?P<p>aws-ofi-[nr]ccl \S+)",
        (("plugin", "{p}"),),
        source=_OFI + "715",
    ),
    Rule(
        "ofi-provider",
        "NCCL",
        "NET/OFI Selected ",
        r"NET/OFI Selected [Pp]rovider is (?P<p>[^\s,]+)",
        (("provider", "{p}"),),
        (("nics", r"\(found (\d+) nics\)"),),
        source="https://github.com/determined-ai/environments/pull/169",
    ),
    Rule("ofi-libfabric", "NCCL", "Using Libfabric", r"Using Libfabric version (?P<v>\S+)", (("libfabric", "{v}"),)),
    Rule("ofi-protocol", "NCCL", "transport protocol", r"transport protocol (?P<p>\w+)", (("protocol", "{p}"),)),
    Rule(
        "ib",
        "NCCL",
        "NET/IB",
        r"NET/IB ?: Using \[\d+\]",
        (),
        (("devices", _OF_LIST), ("link", r"\[\d+\][^\s:\[\]]+:\d+/(\w+)")),
        (("nics", _OF_LIST),),
        source=_DOCS,
    ),
    Rule("sockets", "NCCL", "NET/Socket", r"NET/Socket ?: Using \[\d+\]", (), (("sockets", _OF_LIST),), source=_DOCS),
    Rule("bootstrap", "NCCL", "Bootstrap", r"Bootstrap ?: Using \[\d+\]", (), (("bootstrap", _OF_LIST),)),
    Rule(
        "bootstrap-one",
        "NCCL",
        "Bootstrap",
        r"Bootstrap ?: Using (?P<i>[^\s:\[\]]+):",
        (("bootstrap", "{i}"),),
    ),
    Rule("bootstrap-2.2", "NCCL", "NET : Using interface", r"interface (?P<i>[^\s:]+):", (("bootstrap", "{i}"),)),
    Rule("channel-gdr", "NCCL", "via NET/", r"via NET/(?P<n>[^/]+)/\S*/GDRDMA", (("via", "{n}"), ("gdr", "on"))),
    Rule(
        "channel",
        "NCCL",
        "via NET/",
        r"via NET/(?P<n>(?!Socket)[^/]+)/(?!.*GDRDMA)",
        (("via", "{n}"), ("gdr", "off")),
    ),
    Rule("channel-socket", "NCCL", "via NET/Socket", r"via NET/(?P<n>Socket)/", (("via", "{n}"),)),
    Rule("gdr-on", "NCCL", "GPU Direct RDMA", r"GPU Direct RDMA \(?[Ee]nabled", (("gdr", "on"),)),
    Rule("gdr-off", "NCCL", "GPU Direct RDMA", r"GPU Direct RDMA \(?[Dd]isabled", (("gdr", "off"),)),
    Rule("rings-gdr-on", "NCCL", "use ring PXN", r"use ring PXN \d GDR [1-9]", (("gdr", "on"),)),
    Rule("rings-gdr-off", "NCCL", "use ring PXN", r"use ring PXN \d GDR 0", (("gdr", "off"),)),
    Rule("algorithm", "NCCL", " -> Algo ", r"-> Algo (?P<a>\S+) proto (?P<p>\S+)", (("algorithm", "{a} {p}"),)),
    Rule(
        "algorithm-set", "NCCL", "NCCL_ALGO set", r"NCCL_ALGO set by environment to (?P<a>\w+)", (("algorithm", "{a}"),)
    ),
)

REASONS = (
    Rule(
        "no-net-plugin",
        "NCCL",
        "NET/Plugin",
        r"NET/Plugin ?:.{0,300}(?:No plugin found|Could not find: |cannot open shared object file)",
        kind=REASON,
        hinders="OFI",
        meaning="no network plugin was found, so only InfiniBand, RoCE and TCP sockets are available",
        cure=_IMAGE,
        source=_NCCL + "352",
    ),
    Rule(
        "plugin-symbols",
        "NCCL",
        "Failed to find ncclNetPlugin symbol",
        r"Failed to find ncclNetPlugin symbol \(",
        kind=REASON,
        hinders="OFI",
        meaning="the network plugin was built for another version of NCCL and is not used",
        cure="Build the plugin for the image's NCCL or RCCL, e.g. with `hpcmod build`.",
        source=_NCCL + "1267",
    ),
    Rule(
        "no-ib-device",
        "NCCL",
        "NET/IB",
        r"NET/IB ?: No device found",
        kind=REASON,
        hinders="IB",
        meaning="no InfiniBand or RoCE device",
        cure="With InfiniBand or RoCE, run `ibv_devinfo` on the node and in the container. Normal on Slingshot.",
        source=_NCCL + "958",
    ),
    Rule(
        "no-libibverbs",
        "NCCL",
        "Failed to open libibverbs",
        r"Failed to open libibverbs\.so",
        kind=REASON,
        hinders="IB",
        meaning="the image has no libibverbs",
        cure="With InfiniBand or RoCE, add rdma-core to the image. Not needed on Slingshot.",
        source=_NCCL + "229",
    ),
    Rule(
        "ib-disabled",
        "NCCL",
        "NCCL_IB_DISABLE",
        r"NCCL_IB_DISABLE set (?:by environment )?to 1",
        kind=REASON,
        hinders="IB",
        meaning="NCCL_IB_DISABLE=1 disables InfiniBand and RoCE",
        cure="unset NCCL_IB_DISABLE",
        source=_DOCS,
    ),
    Rule(
        "network-forced",
        "NCCL",
        "NCCL_NET set",
        r"NCCL_NET set (?:by environment )?to \"?Socket",
        kind=REASON,
        meaning="NCCL_NET=Socket forces TCP",
        cure="unset NCCL_NET",
        source=_DOCS,
    ),
)

PROBLEMS = (
    Rule(
        "no-ofi-provider",
        "NCCL",
        "NET/OFI",
        r"NET/OFI (?:Could ?n.t|Could not) find any optimal provider|NET/OFI No eligible providers",
        kind=PROBLEM,
        meaning="the plugin found no libfabric provider that it can use",
        cure="Check `fi_info` in the container, and that plugin and libfabric fit: `hpcmod compat IMAGE`.",
        source=_NCCL + "229",
    ),
    Rule(
        "efa-only",
        "NCCL",
        "Only EFA provider",
        r"NET/OFI Only EFA provider is supported",
        kind=PROBLEM,
        meaning="this build of the plugin works only on AWS",
        cure="Build the plugin without AWS options, e.g. with `hpcmod build`.",
        source="https://github.com/aws/deep-learning-containers/issues/2675",
    ),
    Rule(
        "ofi-init",
        "NCCL",
        "",
        r"aws-ofi-nccl initialization failed|NET/OFI Initializing plugin failed|Failed to initialize any NET plugin"
        r"|NET/OFI Unable to find a protocol|NET/OFI OFI NCCL failure",
        kind=PROBLEM,
        meaning="the network plugin did not start",
        cure=_LOADED,
        source=_OFI + "67",
    ),
    Rule(
        "ofi-endpoint",
        "NCCL",
        "NET/OFI",
        r"NET/OFI Creating new endpoint for domain .* failed",
        kind=PROBLEM,
        meaning="libfabric refused to open an endpoint",
        cure="Set FI_LOG_LEVEL=warn and run again; the provider says why.",
        source=_OFI + "889",
    ),
    Rule(
        "ofi-request",
        "NCCL",
        "completed with error",
        r"NET/OFI Request .* ?completed with error",
        kind=PROBLEM,
        meaning="a transfer over libfabric failed",
        cure="Look for the provider's own message (FI_LOG_LEVEL=warn), and for a rank that ended earlier.",
        source="https://github.com/aws/aws-ofi-nccl/pull/460",
    ),
    Rule(
        "network-not-found",
        "NCCL",
        "Error: network ",
        r"Error: network .{1,100} not found",
        kind=PROBLEM,
        meaning="NCCL_NET names a network that no plugin provides",
        cure=_IMAGE,
        source="https://docs.cscs.ch/software/communication/nccl/",
    ),
    Rule(
        "ib-completion",
        "NCCL",
        "Got completion from peer",
        r"NET/IBP? ?: ?Got completion from peer .*(?:error|status)",
        kind=PROBLEM,
        meaning="a transfer over InfiniBand or RoCE failed",
        cure="Check the links with `ibstat`, and look for a rank that ended earlier. Report it to the site.",
        source=_NCCL + "1405",
    ),
    Rule(
        "connect-failed",
        "NCCL",
        "onnect ",
        r"(?:NCCL|WARN) .*(?:Call to connect (?:to \S+ )?|socket\w*: Connect to \S+ )(?:failed|returned)",
        kind=PROBLEM,
        meaning="a rank cannot connect to another one",
        cure="Set NCCL_SOCKET_IFNAME to an interface through which all nodes reach each other.",
        source="https://github.com/NVIDIA/nccl-tests/issues/166",
    ),
    Rule(
        "peer-closed",
        "NCCL",
        "",
        r"Connection closed by remote peer|Call to recv from \S+ failed",
        kind=PROBLEM,
        meaning="another rank closed its connection, usually because it ended",
        cure="Find the rank that failed first: its message is the cause.",
        source=_NCCL + "795",
    ),
    Rule(
        "proxy-failed",
        "NCCL",
        "WARN",
        r"\[Proxy Service \d+\] Failed to execute operation|Socket recv failed while polling",
        kind=PROBLEM,
        meaning="the thread that serves the network failed",
        cure="Look at the first warning before it.",
        source=_NCCL + "795",
    ),
    Rule(
        "no-socket-interface",
        "NCCL",
        "",
        r"Bootstrap ?: no (?:NCCL_SOCKET_IFNAME |socket )interface found"
        r"|ncclSocketInit: connecting to address .*with family",
        kind=PROBLEM,
        meaning="the interface in NCCL_SOCKET_IFNAME does not exist, or has no address",
        cure="Set NCCL_SOCKET_IFNAME to an interface that `ip address` lists on every node.",
        source="https://github.com/marin-community/marin/issues/6940",
    ),
    Rule(
        "stray-connection",
        "NCCL",
        "socketFinalizeAccept",
        r"socketFinalizeAccept: wrong (?:type|magic)",
        kind=PROBLEM,
        meaning="a connection from another job or program reached this rank",
        cure="Give each job its own MASTER_PORT, as the run scripts do, and use the same NCCL in all ranks.",
        source="https://github.com/NVIDIA/nccl-tests/issues/188",
    ),
    Rule(
        "nccl-error",
        "NCCL",
        "",
        r"NCCL error in: |nccl(?:Remote|System|Internal)Error\b",
        kind=PROBLEM,
        meaning="NCCL reported an error to PyTorch",
        cure="Run again with NCCL_DEBUG=INFO: `hpcmod job --env HPCMOD_DEBUG=nccl`.",
        source=_NCCL + "2076",
    ),
)

KNOWN = (
    Rule("plugin-probe", "NCCL", "Failed to find nccl", r"Failed to find nccl\w+ symbol"),
    Rule("trace", "NCCL", " -> ", r"\S+\.(?:cc|cu|h):\d+ -> \d+"),
    Rule("setting", "NCCL", " set ", r"NCCL_\w+ set (?:by environment )?to "),
    Rule("local-channel", "NCCL", " via ", r" via (?:P2P|SHM|direct)"),
    Rule(
        "ofi-setting",
        "NCCL",
        "NET/OFI ",
        r"NET/OFI (?:Setting|Configuring|Running|Internode|Creating one|Global|Using CUDA)",
    ),
)
"""Lines without anything to report, which do not count as unknown."""

RULES = (*FACTS, *REASONS, *PROBLEMS, *KNOWN)
