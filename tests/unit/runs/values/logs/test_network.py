"""Verdicts on the network of a run: the network found in logs compared with that of the machine."""

from __future__ import annotations

import pytest

from hpcmod.machine.values.tables import Network
from hpcmod.runs.values.endings.events import Log
from hpcmod.runs.values.logs.network import NetworkUsed, describe_network, find_network, judge_network
from hpcmod.runs.values.logs.reading import Reading
from hpcmod.runs.values.logs.reading import read_log as read_into
from tests.logs import ENDINGS

HSN = ("hsn0", "hsn1", "hsn2", "hsn3")
SLINGSHOT, INFINIBAND = Network(HSN, fabric="cxi"), Network(fabric="ib")

OFI = """\
NCCL version 2.29.2+cuda13.2
NCCL INFO Bootstrap : Using hsn0:10.1.1.1<0>
NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.19.0
NCCL INFO NET/OFI Selected provider is cxi, fabric is cxi (found 4 nics)
NCCL INFO Using network AWS Libfabric
NCCL INFO Connected all rings, use ring PXN 0 GDR 1
"""
SOCKETS = """\
RCCL version : 2.21.5-HEAD:9a0e6a1
NCCL INFO NET/Plugin: No plugin found (librccl-net.so)
NCCL INFO Failed to open libibverbs.so[.1]
NCCL INFO NET/Socket : Using [0]nmn0:10.1.1.1<0>
NCCL INFO Using network Socket
"""
IB = """\
NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB ib0:10.1.1.1<0>
NCCL INFO Using network IB
"""


def read_log(text: str) -> Reading:
    return read_into(text, Reading(ENDINGS))


def levels(text: str, expected: Network, *, worked: bool = False) -> list[tuple[str, str]]:
    return [(finding.level, finding.rule) for finding in judge_network(read_log(text), expected, worked=worked)]


def test_names_the_fast_network_in_one_line() -> None:
    assert describe_network(read_log(OFI)) == (
        "NCCL 2.29.2+cuda13.2: OFI through cxi, aws-ofi-nccl 1.19.0, 4 NICs, GPUDirect RDMA on"
    )
    assert describe_network(read_log(IB)) == "NCCL: IB, 2 NICs"
    assert describe_network(read_log("")) == ""


@pytest.mark.parametrize(
    ("text", "expected", "level"),
    [
        (OFI, SLINGSHOT, "ok"),
        (IB, INFINIBAND, "ok"),
        (OFI + "NCCL INFO Using network Socket\n", SLINGSHOT, "fail"),
        (OFI.replace("is cxi", "is tcp"), SLINGSHOT, "fail"),
        ("NCCL INFO Using network AWS Libfabric", SLINGSHOT, "unknown"),
        (OFI, Network(), "unknown"),
        *((text, SLINGSHOT, "unknown") for text in ("", "epoch 1 loss 0.5", "NCCL INFO cudaDriverVersion 12040")),
    ],
)
def test_the_network_is_rated_by_that_of_the_machine(text: str, expected: Network, level: str) -> None:
    assert levels(text, expected) == [(level, "network")]


def test_sockets_fail_with_the_reason_that_concerns_this_machine() -> None:
    (finding,) = judge_network(read_log(SOCKETS), SLINGSHOT)
    assert (finding.level, finding.rule) == ("fail", "network")
    assert finding.found == (
        "RCCL 2.21.5-HEAD:9a0e6a1: TCP sockets over nmn0; this machine has OFI through cxi; because no network plugin "
        "was found, so only InfiniBand, RoCE and TCP sockets are available"
    )
    assert "hpcmod compat" in finding.cure
    (finding,) = judge_network(read_log(SOCKETS), INFINIBAND)
    assert finding.found.endswith("this machine has InfiniBand or RoCE; because the image has no libibverbs")


OLD = "/host/lib/libfabric.so.1: version `FABRIC_1.8' not found (required by /opt/aws-ofi-nccl/lib/libnccl-net.so)"
HWLOC = "libhwloc.so.15: cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    "lines",
    [
        (f" : Plugin load (libnccl-net.so) returned 2 : {OLD}", " : No plugin found, using internal implementation"),
        (f" : Plugin load (libnccl-net.so) returned 2 : {HWLOC}", " : No plugin found, using internal implementation"),
        (f" : dlerror={OLD} No plugin found (libnccl-net.so), using internal implementation",),
        (": No plugin found (x.so)", f": Plugin load returned 2 : {OLD} : when loading libnccl-net.so"),
        (f": {OLD}", ": Using internal network plugin."),
        (f": libnccl-net.so: {HWLOC}", ": Using internal network plugin."),
    ],
    ids=["2.18", "2.18 missing", "2.20", "2.21", "2.22", "2.30 missing"],
)
def test_a_plugin_that_cannot_be_loaded_is_told_from_none(lines: tuple[str, ...]) -> None:
    """As the releases of NCCL print what dlerror() says."""
    log = "".join(f"a:1:1 [0] NCCL INFO NET/Plugin{line}\n" for line in lines)
    (finding,) = judge_network(read_log(f"{log}NCCL INFO Using network Socket"), SLINGSHOT)
    assert finding.found.partition("because ")[2].startswith("the network plugin is there, but a library that it needs")
    assert "plugin was found" not in finding.found and "netstack check" in finding.cure
    none = log.replace(OLD, HWLOC).replace("libhwloc.so.15", "libnccl-net.so")
    (finding,) = judge_network(read_log(f"{none}NCCL INFO Using network Socket"), SLINGSHOT)
    assert "because no network plugin was found" in finding.found


def test_sockets_are_slow_on_a_machine_whose_network_is_not_described_too() -> None:
    (finding,) = judge_network(read_log(SOCKETS), Network())
    assert (finding.level, "TCP sockets over nmn0, 10 to 100 times slower" in finding.found) == ("warn", True)
    assert "the image has no libibverbs" in finding.found


def test_nccl_before_2_5_names_interfaces_only() -> None:
    log = "a:1:1 [0] NCCL INFO NET/Socket : Using [0]ens3:172.31.10.182<0>\n"
    assert levels(f"{log}a:1:1 [0] NCCL INFO NET/IB : No device found.", Network()) == [("warn", "network")]
    assert levels(log, Network()) == [("unknown", "network")]


def test_sockets_without_a_reason_say_so() -> None:
    (finding,) = judge_network(read_log("NCCL INFO Using network Socket"), SLINGSHOT)
    assert finding.found.endswith("the logs do not say why")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (OFI.replace("GDR 1", "GDR 0"), "gpudirect"),
        (OFI.replace("found 4", "found 1"), "nics"),
        (OFI.replace("hsn0:", "nmn0:"), "interface"),
    ],
)
def test_slower_details_are_warnings(text: str, rule: str) -> None:
    assert levels(text, SLINGSHOT) == [("ok", "network"), ("warn", rule)]


def test_a_problem_fails_unless_the_run_worked() -> None:
    problem = OFI + "NCCL WARN Net : Connection closed by remote peer nid2<1>\n"
    assert levels(problem, SLINGSHOT)[-1] == ("fail", "peer-closed")
    assert levels(problem, SLINGSHOT, worked=True)[-1] == ("warn", "peer-closed")


def test_unknown_warnings_are_shown_and_not_judged() -> None:
    many = OFI + "".join(f"NCCL WARN odd {number}\n" for number in range(12))
    shown = [finding.found for finding in judge_network(read_log(many), SLINGSHOT) if finding.rule == "unknown-warning"]
    assert shown[:2] == ["NCCL WARN odd 0", "NCCL WARN odd 1"]
    assert shown[-1] == "2 more warnings that no rule knows"


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("libfabric provider: cxi - cxi0", "ok"),
        ("libfabric provider: tcp;ofi_rxm - 10.1.0.0/16", "fail"),
        ("x UCX  INFO ep_cfg[1]: tag(self/memory rc_mlx5/mlx5_0:1);", "ok"),
        ("x UCX  INFO ep_cfg[1]: tag(self/memory tcp/eth0);", "fail"),
        ("[c1:7] mtl_ofi_component.c:371: mtl:ofi:provider:domain: cxi0", "ok"),
        ("[c1:7] mtl_ofi_component.c:371: mtl:ofi:provider:domain: hsn0", "fail"),
        ("[c1:7] mtl_ofi_component.c:371: mtl:ofi:provider:domain: eth0", "unknown"),
    ],
)
def test_mpi_is_rated_by_its_provider_or_transports(line: str, level: str) -> None:
    assert levels(line, SLINGSHOT) == [(level, "mpi-network")]
    assert levels(line, Network()) == [("unknown", "mpi-network")]


def test_the_network_of_a_run_is_compared_with_the_machines() -> None:
    used = find_network([Log("a.out", SOCKETS)], SLINGSHOT)
    assert "TCP" in used.used and used.slow
    assert [finding.level for finding in used.findings] == ["fail"]
    assert find_network([Log("a.out", "epoch 1\nNCCL INFO cudaDriverVersion 12000\n")], SLINGSHOT) == NetworkUsed()
