"""Rules for NCCL and RCCL: lines of newer releases, which the corpus lacks."""

from __future__ import annotations

import pytest

from hpcmod.runs.values.logs.reading import read_log
from tests.logs import facts_of


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("NET/OFI Selected provider is cxi, fabric is cxi (found 4 nics)", {"provider": ("cxi",), "nics": ("4",)}),
        ("NCCL INFO Connected all rings, use ring PXN 0 GDR 1", {"gdr": ("on",)}),
        ("NCCL INFO Connected all rings, use ring PXN 0 GDR 0", {"gdr": ("off",)}),
        (
            "NCCL INFO AllReduce: 1048576 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..7}",
            {"algorithm": ("RING LL128",)},
        ),
        ("NCCL INFO NCCL_ALGO set by environment to Tree", {"algorithm": ("Tree",)}),
        ("NCCL INFO NCCL_NET set by environment to Socket", {"reason": ("network-forced",)}),
        ("NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0", {"via": ("IB",), "gdr": ("off",)}),
        ("plugin/net.cc:306 NCCL WARN Failed to initialize any NET plugin", {"problem": ("ofi-init",)}),
        ("NCCL INFO NET/OFI No eligible providers were found", {"problem": ("no-ofi-provider",)}),
    ],
)
def test_reads(line: str, expected: dict[str, tuple[str, ...]]) -> None:
    assert facts_of(read_log(line)) == expected
