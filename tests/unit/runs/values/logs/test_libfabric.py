"""Rules for libfabric and UCX."""

from __future__ import annotations

from hpcmod.runs.values.logs.reading import read_log
from tests.logs import facts_of


def test_a_provider_that_is_tried_in_vain_is_only_a_reason() -> None:
    line = "libfabric:1:2::cxi:core:ofi_check_mr_mode():611<info> Invalid memory registration mode"
    assert facts_of(read_log(line)) == {"reason": ("mr-mode",)}


def test_transports_of_ucx_are_those_of_messages() -> None:
    line = "[1.5] [n:1:0] ucp_worker.c:1720 UCX  INFO  ep_cfg[1]: tag(rc_mlx5/mlx5_0:1 tcp/eth0);"
    assert set(read_log(line).values("ucx")) == {"rc_mlx5", "tcp"}
