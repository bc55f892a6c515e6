from __future__ import annotations

from hpcmod.machine.values.site import Network
from hpcmod.runs.values.endings.events import Log
from hpcmod.runs.values.endings.network import NetworkUsed, find_network

TCP = (
    "epoch 1\nn1:7:7 [0] NCCL INFO NET/Socket : Using [0]nmn0:10.1.1.1<0>\nn1:7:7 [0] NCCL INFO Using network Socket\n"
)


def test_the_network_of_a_run_is_compared_with_the_machines() -> None:
    found = find_network([Log("a.out", TCP)], Network(("hsn0",), fabric="cxi"))
    assert "TCP" in found.used and found.slow
    assert found.findings and found.findings[0].level == "fail"


def test_a_log_without_lines_about_it_says_nothing() -> None:
    assert find_network([Log("a.out", "epoch 1\n")], Network(fabric="cxi")) == NetworkUsed()
    assert find_network([Log("a.out", "NCCL INFO cudaDriverVersion 12000\n")], Network(fabric="cxi")) == NetworkUsed()
