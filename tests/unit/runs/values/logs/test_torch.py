"""Rules for PyTorch's process groups and gloo."""

from __future__ import annotations

import pytest

from hpcmod.runs.values.logs.reading import read_log
from tests.logs import facts_of


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients joined.",
            "ranks-missing",
        ),
        (
            "[c10d] The IPv6 network addresses of (nosuchhost, 29500) cannot be retrieved (gai error: -2)",
            "master-unknown",
        ),
        ("[Gloo] Rank 0 is connected to 2 peer ranks. Expected number of connected peer ranks is : 3", "gloo-peers"),
        ("[/x/gloo/transport/tcp/pair.cc:1] connect [10.1.1.1]:3210: Connection refused", "gloo-connect"),
        (
            "[/x/gloo/transport/tcp/pair.cc:152] timed out connecting: SO_ERROR: Connection refused, "
            "remote=[127.0.0.1]:3$0",
            "gloo-loopback",
        ),
        (
            "[/x/gloo/transport/tcp/debug_logger.cc:9] ERROR failed to connect, willRetry=0, retry=4, retryLimit=3, "
            "rank=0, size=2, local=[10.0.0.1]:8914, remote=[10.0.0.2]:30627$0, error=SO_ERROR: Connection refused",
            "gloo-connect",
        ),
        ("[/x/gloo/transport/tcp/pair.cc:1] connect [127.0.1.1]:3210: Connection refused", "gloo-loopback"),
    ],
)
def test_finds_the_problem(line: str, problem: str) -> None:
    assert read_log(line).values("problem") == (problem,)


def test_complete_gloo_is_not_a_finding() -> None:
    line = "[Gloo] Rank 0 is connected to 3 peer ranks. Expected number of connected peer ranks is : 3"
    assert facts_of(read_log(line)) == {"peers": ("3 of 3",)}
