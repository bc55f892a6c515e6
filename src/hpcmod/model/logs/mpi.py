"""Rules for the logs of MPICH (also Cray's and Intel's) and Open MPI."""

from __future__ import annotations

from hpcmod.model.logs.rule import PROBLEM, Rule

_MPICH = "https://github.com/pmodels/mpich/issues/"
_OMPI = "https://github.com/open-mpi/ompi/issues/"

RULES = (
    Rule(
        "mpich-candidate",
        "MPICH",
        "provider: ",
        r"^(?:\[\d+\] )?provider: (?P<p>\S+), score = ",
        (("candidate", "{p}"),),
        source=_MPICH + "7028",
    ),
    Rule(
        "mpich-provider", "MPICH", "libfabric provider: ", r"libfabric provider: (?P<p>\S+)", (("mpi_provider", "{p}"),)
    ),
    Rule("mpich-limits", "MPICH", "FI_VERSION", r"Required minimum FI_VERSION: "),
    Rule(
        "mpich-no-provider",
        "MPICH",
        "OFI ",
        r"OFI (?:fi_getinfo|addrinfo)\(\) fail",
        kind=PROBLEM,
        meaning="MPICH found no libfabric provider that it can use",
        cure="Check `fi_info` in the container; unset FI_PROVIDER if it names a provider that is not there.",
        source=_MPICH + "6612",
    ),
    Rule(
        "mpich-host",
        "MPICH",
        "gethostbyname failed",
        r"gethostbyname failed, \S+",
        kind=PROBLEM,
        meaning="MPICH cannot find the address of this node's own host name",
        cure="Ask the site: the name that `hostname` prints must be known on every node.",
        source="https://github.com/sccn/amica/issues/11",
    ),
    Rule(
        "mpich-ofi",
        "MPICH",
        "OFI ",
        r"OFI (?:fi_open domain|fi_fabric|endpoint open|fi_domain|EP enable) failed",
        kind=PROBLEM,
        meaning="libfabric refused to open the network for MPICH",
        cure="On Slingshot, start the ranks with `hpcmod job`, so that they have a VNI, and bind the host's libraries.",
        source="https://github.com/flux-framework/flux-core/issues/5976",
    ),
    Rule(
        "mpich-poll",
        "MPICH",
        "OFI poll failed",
        r"OFI poll failed",
        kind=PROBLEM,
        meaning="a transfer of MPICH failed in the network",
        cure="Look for a rank that ended earlier; otherwise report the node and the time to the site.",
        source=_MPICH + "5867",
    ),
    Rule(
        "mpich-queue",
        "MPICH",
        "completion queue exhaustion",
        r"completion queue exhaustion",
        kind=PROBLEM,
        meaning="the completion queue of the Slingshot card is full",
        cure="export FI_CXI_DEFAULT_CQ_SIZE=131072",
        source="https://cpe.ext.hpe.com/docs/latest/mpt/mpich/intro_mpi.html",
    ),
    Rule(
        "mpich-timeouts",
        "MPICH",
        "MPICH Slingshot Network Summary: ",
        r"Network Summary: (?!0 )\d+ network timeouts",
        kind=PROBLEM,
        meaning="messages were lost in the Slingshot network and sent again",
        cure="Report the nodes and the time to the site if it happens again.",
        source="https://cpe.ext.hpe.com/docs/latest/mpt/mpich/intro_mpi.html",
    ),
    Rule("mpich-summary", "MPICH", "MPICH Slingshot Network Summary: ", r"Network Summary: 0 network timeouts"),
    Rule(
        "mpich-stack",
        "MPICH",
        "rror stack:",
        r"(?:Fatal error in \w+|Abort\(\d+\)).*error stack:",
    ),
    Rule(
        "ompi-provider",
        "Open MPI",
        "mtl:ofi:prov",
        r"mtl:ofi:prov\w*(?::domain|:nic)?: (?P<p>[a-z][\w;]*)",
        (("mpi_provider", "{p}"),),
        source="https://github.com/open-mpi/ompi/pull/9111",
    ),
    Rule(
        "ompi-ofi",
        "Open MPI",
        "Open MPI failed an OFI Libfabric library call",
        r"library call \(\w+\)",
        kind=PROBLEM,
        meaning="libfabric refused a call of Open MPI",
        cure="On Slingshot, start the ranks with `hpcmod job`; check the image's libfabric: `hpcmod compat IMAGE`.",
        source=_OMPI + "12038",
    ),
    Rule(
        "ompi-connect",
        "Open MPI",
        "",
        r"mca_btl_tcp_endpoint\w*\] connect\(\) to \S+ failed|Open MPI failed to TCP connect to a peer",
        kind=PROBLEM,
        meaning="Open MPI cannot connect two ranks over TCP",
        cure="Choose an interface that all nodes share: export OMPI_MCA_btl_tcp_if_include=INTERFACE",
        source=_OMPI + "2168",
    ),
    Rule(
        "ompi-unreachable",
        "Open MPI",
        'Returned "Unreachable"',
        r'Returned "Unreachable" \(-12\)',
        kind=PROBLEM,
        meaning="Open MPI found no network that connects two ranks",
        cure="export OMPI_MCA_btl_base_verbose=100, or OMPI_MCA_mtl_base_verbose=100, and look for what was discarded.",
        source=_OMPI + "13148",
    ),
    Rule("ompi-lines", "Open MPI", "mca:", r"\] mca: ?(?:base|oob|pml|mtl)\b"),
)
