from __future__ import annotations

from hpcmod.jobs.values.cluster import ListedNode, ListedPartition, parse_cluster
from tests.stack import CHECKOUT

OUTPUTS = CHECKOUT / "tests/unit/machine/values/outputs"


def read(name: str) -> str:
    return (OUTPUTS / f"slurm-{name}.txt").read_text()


def test_a_node_of_biowulf_is_read_from_paragraphs() -> None:
    [node] = parse_cluster(read("node-biowulf"), "", "").nodes
    assert node == ListedNode(
        name="cn1092",
        cores=32,
        threads=2,
        gpus=4,
        gpu_types=("a100",),
        memory=253400,
        partitions=("interactive", "gpu"),
        features=("cpu64", "core32", "g256", "ssd3200", "e7543p", "ibhdr200", "gpua100"),
    )


def test_the_virtual_machine_is_read_from_lines() -> None:
    cluster = parse_cluster(
        read("nodes-virtual"), "", "SLURM_VERSION = 22.05.8\nClusterName = virtual\nMpiDefault = none\n"
    )
    assert (cluster.name, cluster.release, cluster.mpi) == ("virtual", "22.05", "")
    assert [(one.name, one.cores, one.threads, one.gpus, one.gpu_types) for one in cluster.nodes] == [
        ("nid001", 288, 1, 8, ()),
        ("nid002", 288, 1, 8, ()),
    ]
    assert cluster.node("nid002") == cluster.nodes[1]
    assert cluster.node("login") is None


def test_the_memory_limit_of_a_partition_of_aris_is_read() -> None:
    found = parse_cluster("", read("partition-aris"), "").partitions
    assert found == (ListedPartition("compute", default=True, exclusive=False, memory=507904),)


def test_reserved_cores_come_from_abstract_cpu_numbers_in_which_threads_follow_each_other() -> None:
    text = "NodeName=a Sockets=1 CoresPerSocket=64 ThreadsPerCore=2 CPUSpecList=0-1,16-17,32-33 Partitions=p"
    assert parse_cluster(text, "", "").nodes[0].reserved == (0, 8, 16)


def test_memory_that_the_system_reserves_is_not_for_jobs() -> None:
    text = "NodeName=a RealMemory=512000 MemSpecLimit=32000 Partitions=p"
    assert parse_cluster(text, "", "").nodes[0].memory == 480000


def test_a_node_without_partition_runs_no_jobs() -> None:
    assert parse_cluster("NodeName=login1 CoresPerSocket=8 Sockets=2\n", "", "").nodes == ()


def test_gpus_of_several_types_are_counted_together() -> None:
    text = "NodeName=a Gres=gpu:h100:4(S:0-3),gpu:a100:2(S:0-1),lscratch:3 Partitions=p"
    [node] = parse_cluster(text, "", "").nodes
    assert (node.gpus, node.gpu_types) == (6, ("h100", "a100"))
