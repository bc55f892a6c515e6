from __future__ import annotations

from hpcmod.machine.values.facts import KnownGpu, NodeProblem, Space, format_cpus, parse_facts

ANSWER = {
    "host": "nid001",
    "cpus": {"online": 8, "allowed": [0, 1, 2, 3], "numa": {"0": [0, 1, 2, 3], "1": [4, 5, 6, 7]}},
    "memory": {"total": 512, "available": 500},
    "space": {"/tmp": {"size": 10, "free": 5}, "/gone": None, "/bad": {"error": "no such directory"}},
    "interfaces": {"hsn0": {"state": "up", "numa": "0"}},
    "gpus": [{"vendor": "amd", "address": "0000:c1:00.0", "near": [0, 1]}],
    "drivers": {"kernel": "5.14", "amdgpu": "6.3.6"},
    "tools": {"rocm-smi": '{"card0": {"GPU use (%)": "7"}}'},
    "binds": ["/opt/cray", ""],
    "image": {"path": "/a.sif", "size": 3, "sha256": "ab", "sample": ""},
    "speed": {"best": 100.5, "share": 1.0},
    "clock": 1003.0,
    "problems": [["fail", "bind", "/x is missing"], ["too", "short"]],
}


def test_the_facts_of_a_node_are_read() -> None:
    facts = parse_facts(ANSWER, arrived=1000.0)
    assert (facts.name, facts.threads.cpus, facts.threads.allowed, facts.times.skew) == ("nid001", 8, (0, 1, 2, 3), 3.0)
    assert facts.threads.numa == ((0, (0, 1, 2, 3)), (1, (4, 5, 6, 7)))
    assert facts.spaces == (("/tmp", Space(10, 5)),)
    assert facts.gpus == (KnownGpu("amd", "0000:c1:00.0", (0, 1)),)
    assert facts.states[0].use == 7
    assert (facts.image, facts.whole) == ("ab", True)
    assert facts.problems == (NodeProblem("fail", "bind", "/x is missing"),)


def test_cpus_are_written_as_linux_does() -> None:
    assert format_cpus([8, 3, 2, 1, 0]) == "0-3,8"
    assert format_cpus([]) == ""
