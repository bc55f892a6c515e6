"""Logs of communication libraries: every excerpt of the corpus, and how lines are counted and kept."""

from __future__ import annotations

import pytest

from hpcmod.runs.values.logs.reading import LONGEST, MOST_KEPT, Reading, read_line
from hpcmod.runs.values.logs.reading import read_log as read_into
from hpcmod.runs.values.logs.rules import REASONS, Rule, name_network
from tests.logs import ENDINGS, Excerpt, excerpts, facts_of, found

EXCERPTS = excerpts()


def read_log(text: str) -> Reading:
    return read_into(text, Reading(ENDINGS))


@pytest.mark.parametrize("excerpt", EXCERPTS, ids=[excerpt.name for excerpt in EXCERPTS])
@pytest.mark.slow
def test_reads_each_excerpt_as_a_person_does(excerpt: Excerpt) -> None:
    assert found(excerpt.read()) == excerpt.expect


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("NET/OFI Selected provider is cxi, fabric is cxi (found 4 nics)", {"provider": ("cxi",), "nics": ("4",)}),
        ("NCCL INFO Connected all rings, use ring PXN 0 GDR 1", {"gdr": ("on",)}),
        ("NCCL INFO Connected all rings, use ring PXN 0 GDR 0", {"gdr": ("off",)}),
        ("NCCL INFO AllReduce: 1048576 Bytes -> Algo RING proto LL128 channel", {"algorithm": ("RING LL128",)}),
        ("NCCL INFO NCCL_ALGO set by environment to Tree", {"algorithm": ("Tree",)}),
        ("NCCL INFO NCCL_NET set by environment to Socket", {"reason": ("network-forced",)}),
        ("NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0", {"via": ("IB",), "gdr": ("off",)}),
        ("plugin/net.cc:306 NCCL WARN Failed to initialize any NET plugin", {"problem": ("nccl-plugin-init",)}),
        ("NCCL INFO NET/OFI No eligible providers were found", {"problem": ("nccl-plugin-provider",)}),
        ("libfabric:1:2::cxi:core:check():611<info> Invalid memory registration mode", {"reason": ("mr-mode",)}),
        ("x UCX  INFO  ep_cfg[1]: tag(rc_mlx5/mlx5_0:1 tcp/eth0);", {"ucx": ("rc_mlx5", "tcp")}),
        ("libfabric provider: tcp;ofi_rxm - 10.1.0.0/16", {"mpi_provider": ("tcp;ofi_rxm",)}),
        ("[0] MPI startup(): libfabric provider: psm2", {"mpi_provider": ("psm2",)}),
        ("[c1:7] mtl_ofi_component.c:336: mtl:ofi:prov: tcp;ofi_rxm", {"mpi_provider": ("tcp;ofi_rxm",)}),
        ("[c1:7] mtl_ofi_component.c:371: mtl:ofi:provider:domain: cxi0", {"mpi_domain": ("cxi0",)}),
        ("[c1:7] mtl_ofi_component.c:360: mtl:ofi:provider: hsn0", {"mpi_domain": ("hsn0",)}),
        ("MPICH Slingshot Network Summary: 0 network timeouts", {}),
        ("MPICH Slingshot Network Summary: 12 network timeouts", {"problem": ("slingshot-timeouts",)}),
        ("Timed out after 61 seconds waiting for clients. 1/2 clients joined.", {"problem": ("ranks-not-met",)}),
        (
            "[Gloo] Rank 0 is connected to 3 peer ranks. Expected number of connected peer ranks is : 3",
            {"peers": ("3 of 3",)},
        ),
        (
            "[/x/gloo/transport/tcp/pair.cc:1] connect [10.1.1.1]:3210: Connection refused",
            {"problem": ("gloo-connect",)},
        ),
        (
            "[/x/gloo/transport/tcp/pair.cc:1] connect [127.0.1.1]:3210: Connection refused",
            {"problem": ("gloo-loopback",)},
        ),
        (
            "[/x/gloo/transport/tcp/pair.cc:152] timed out connecting: Connection refused, remote=[127.0.0.1]:3$0",
            {"problem": ("gloo-loopback",)},
        ),
        (
            "[/x/gloo/transport/tcp/debug_logger.cc:9] ERROR failed to connect, willRetry=0, rank=0, "
            "local=[10.0.0.1]:8914, remote=[10.0.0.2]:30627$0, error=SO_ERROR: Connection refused",
            {"problem": ("gloo-connect",)},
        ),
    ],
)
def test_reads_lines_that_the_corpus_lacks(line: str, expected: dict[str, tuple[str, ...]]) -> None:
    assert facts_of(read_log(line)) == expected


def test_a_rule_reads_facts_lists_and_counts() -> None:
    rule = Rule("Using", r"Using (?P<first>\w+)", {"first": "the {first}"}, many={"all": r"\w+"}, counted={"n": "a"})
    assert rule.match("Using abba") == [("first", "the abba"), ("all", "Using"), ("all", "abba"), ("n", "2")]
    assert rule.match("using abba") is None and rule.match("Using ?") is None


@pytest.mark.parametrize(
    ("printed", "name"),
    [("AWS Libfabric", "OFI"), ("OFI", "OFI"), ("IBext_v8", "IB"), ("Socket", "Socket"), ("FastSocket", "FastSocket")],
)
def test_names_networks(printed: str, name: str) -> None:
    assert name_network(printed) == name


def test_one_name_is_one_reason() -> None:
    assert len({reason.name for reason in REASONS}) == len(REASONS)


def test_counts_lines_of_libraries_and_those_that_no_rule_knows() -> None:
    lines = ["hello", "a:1:1 [0] NCCL INFO Using network IB", "a:1:1 [0] NCCL INFO something new"]
    reading = read_log("\n".join(lines))
    assert (reading.lines, reading.unread, reading.warnings) == (2, 1, 0)
    assert reading.values("network") == ("IB",)


@pytest.mark.slow
def test_keeps_a_warning_of_all_ranks_once() -> None:
    reading = read_log("\n".join(f"nid{rank}:{rank}:1 [0] src/x.cc:1 NCCL WARN it broke" for rank in range(1000)))
    assert [seen.text for seen in reading.unknown] == ["src/x.cc:1 NCCL WARN it broke"]
    assert reading.warnings == 1000


@pytest.mark.slow
def test_keeps_a_limited_number_of_warnings() -> None:
    assert len(read_log("\n".join(f"NCCL WARN {number}" for number in range(1000))).unknown) == MOST_KEPT


def test_reads_the_beginning_of_a_line_without_an_end() -> None:
    reading = read_log("x" * LONGEST + " NCCL INFO Using network IB")
    assert reading.lines == 0


def test_adds_to_an_earlier_reading_and_puts_the_most_frequent_first() -> None:
    reading = Reading()
    for network in ("Socket", "IB", "IB"):
        read_line(reading, f"NCCL INFO Using network {network}")
    assert reading.values("network") == ("IB", "Socket")
    assert read_into("NCCL version 2.20.5", reading).values("version") == ("NCCL 2.20.5",)


def test_names_file_and_line_of_a_problem() -> None:
    text = "\nNCCL WARN Bootstrap : no socket interface found"
    seen = read_into(text, Reading(ENDINGS), file="a.log").problems["no-interface"]
    assert (seen.file, seen.line, seen.text) == ("a.log", 2, "NCCL WARN Bootstrap : no socket interface found")
