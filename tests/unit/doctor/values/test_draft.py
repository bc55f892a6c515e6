from __future__ import annotations

from dataclasses import replace

from hpcmod.core.text.toml import render_commented
from hpcmod.doctor.values.draft import Draft, MachineEvidence, make_draft
from hpcmod.doctor.values.survey import Cores, Interface, Mount, NodeSurvey
from hpcmod.jobs.values.cluster import Cluster, ListedNode, ListedPartition
from hpcmod.machine.values.facts import KnownGpu, NodeFacts
from hpcmod.machine.values.profile import make_site, parse_profile

GPU = ListedNode("g1", 64, 2, (0, 8), 4, ("a100",), 491520, ("gpu", "all"))
CPU = ListedNode("c1", 128, 2, (), 0, (), 262144, ("small", "all"))
CLUSTER = Cluster(
    name="ours",
    release="24.11",
    mpi="pmix",
    nodes=(GPU, CPU, replace(CPU, name="c2", memory=131072)),
    partitions=(
        ListedPartition("gpu", exclusive=True),
        ListedPartition("small", default=True, memory=102400),
        ListedPartition("all"),
    ),
)
EVIDENCE = MachineEvidence("login1", "/home/me", CLUSTER, mpi=("pmix", "pmi2"))


def draft(evidence: MachineEvidence) -> Draft:
    return make_draft(evidence, name="ours", date="November 2026")


def values(evidence: MachineEvidence) -> dict[str, object]:
    return {one.key: one.value for one in draft(evidence).values}


def unknown(evidence: MachineEvidence) -> dict[str, str]:
    return {one.key: one.why for one in draft(evidence).unknown}


def on_node(*near: range, cores: Cores | None = None) -> MachineEvidence:
    gpus = tuple(KnownGpu("nvidia", f"0000:0{number}:00.0", tuple(one)) for number, one in enumerate(near))
    survey = NodeSurvey(NodeFacts("g1", gpus=gpus), cores=cores or Cores(64, 2, regular=True))
    return replace(EVIDENCE, surveys=(survey,))


def test_a_cluster_is_described_from_its_scheduler() -> None:
    assert values(EVIDENCE) == {
        "name": "ours",
        "extends": "generic-nvidia",
        "description": "ours: 1 gpu node, 2 cpu nodes",
        "nodes.default": "cpu",
        "nodes.gpu.cores": 62,
        "nodes.gpu.threads_per_core": 2,
        "nodes.gpu.reserved_cores": "0,8",
        "nodes.gpu.gpus": 4,
        "nodes.gpu.partitions": ["gpu"],
        "nodes.gpu.memory_gib": 480,
        "nodes.cpu.cores": 128,
        "nodes.cpu.threads_per_core": 2,
        "nodes.cpu.partitions": ["small", "all"],
        "nodes.cpu.memory_gib": 100,
        "launcher.mpi": ["pmix", "pmi2"],
        "launcher.mpi_default": "pmix",
        "job.exclusive": ["gpu"],
        "job.slurm": "24.11",
    }


def test_each_value_names_its_source() -> None:
    assert [one.key for one in draft(EVIDENCE).values if not one.source] == ["name", "description"]


def test_what_only_a_compute_node_knows_is_named_on_a_login_node() -> None:
    missing = unknown(EVIDENCE)
    assert "add --partition NAME" in missing["network"]
    assert "no node of this type was asked: add --partition NAME" in missing["nodes.gpu.gpu_cores"]
    assert "all: also partitions of other node types" in missing["nodes.gpu.partitions"]


def test_the_text_is_a_profile_with_these_facts() -> None:
    made = draft(EVIDENCE)
    rows = [(one.key, one.value, one.source) for one in made.values]
    text = render_commented(made.notes, rows, [(one.key, one.why) for one in made.unknown])
    site = make_site([parse_profile(text, "ours.toml")])
    assert [node.name for node in site.nodes.types] == ["gpu", "cpu"]
    assert site.nodes.types[0].reserved_cores == (0, 8)
    assert site.job.exclusive == ("gpu",)
    assert "# nodes.gpu.gpu_cores: not known:" in text
    assert "# nodes.gpu.partitions: all: also partitions of other node types" in text  # it has a value


def test_cores_near_each_gpu_leave_out_reserved_ones_and_second_threads() -> None:
    found = on_node(*(range(16 * gpu, 16 * gpu + 16) for gpu in range(4)))
    assert values(found)["nodes.gpu.gpu_cores"] == ["1-7,9-15", "16-31", "32-47", "48-63"]


def test_cores_near_several_gpus_are_divided_among_them() -> None:
    found = on_node(range(32), range(32), range(32, 64), range(32, 64))
    assert values(found)["nodes.gpu.gpu_cores"] == ["1-7,9-16", "17-31", "32-47", "48-63"]


def test_cores_near_gpus_are_left_out_if_linux_numbers_them_in_another_way() -> None:
    found = on_node(*(range(16 * gpu, 16 * gpu + 16) for gpu in range(4)), cores=Cores(64, 2, regular=False))
    assert "nodes.gpu.gpu_cores" not in values(found)
    assert "numbers the cores in another way" in unknown(found)["nodes.gpu.gpu_cores"]


def test_a_node_with_fewer_gpus_than_the_scheduler_lists_is_named() -> None:
    assert "know 2 GPUs, expected 4" in unknown(on_node(range(32), range(32, 64)))["nodes.gpu.gpu_cores"]


def test_cores_that_differ_from_lscpu_are_named() -> None:
    found = unknown(on_node(cores=Cores(2, 1, regular=True)))
    assert "lscpu of g1 has 2 cores with 1 threads" in found["nodes.gpu.cores"]


def test_the_driver_of_a_node_says_whose_the_gpus_are() -> None:
    amd = NodeSurvey(NodeFacts("g1", gpus=(KnownGpu("amd", "", ()),)))
    assert values(replace(EVIDENCE, surveys=(amd,)))["extends"] == "generic-amd"


def test_gpus_of_unknown_type_are_named() -> None:
    cluster = replace(CLUSTER, nodes=(replace(GPU, gpu_types=()), CPU))
    assert values(replace(EVIDENCE, cluster=cluster))["extends"] == "generic"
    assert "add --partition NAME" in unknown(replace(EVIDENCE, cluster=cluster))["gpu"]
    found = unknown(replace(EVIDENCE, cluster=cluster, surveys=(NodeSurvey(NodeFacts("c1")),)))
    assert found["gpu"].startswith("no driver of GPUs answered on c1: ") and "--partition" not in found["gpu"]


def test_network_and_file_systems_are_those_of_the_asked_node() -> None:
    survey = NodeSurvey(
        NodeFacts("g1"),
        mounts=(Mount("mgs:/one", "/scratch", "lustre"), Mount("/dev/nvme0n1", "/local", "xfs")),
        interfaces=(Interface("eth0", ""), Interface("hsn0", "named as the interfaces of HPE Slingshot")),
        fabric="cxi",
        fabric_source="/sys/class/cxi has cxi0",
    )
    found = replace(EVIDENCE, surveys=(survey,))
    assert values(found)["binds.optional"] == ["/scratch"]
    assert values(found)["network.interfaces"] == ["hsn0"]
    assert values(found)["network.fabric"] == "cxi"
    assert "/dev/nvme0n1 (xfs) at /local" in unknown(found)["stage.nvme.directory"]
    assert draft(found).notes[0] == "Network: cxi: /sys/class/cxi has cxi0"


def test_node_types_of_the_same_kind_have_names_of_their_own() -> None:
    nodes = (
        GPU,
        replace(GPU, name="g2", gpu_types=("h100",)),
        CPU,
        replace(CPU, name="f1", cores=96, partitions=("fat",)),
    )
    found = draft(replace(EVIDENCE, cluster=replace(CLUSTER, nodes=nodes)))
    names = {one.key.split(".")[1] for one in found.values if one.key.startswith("nodes.") and one.key.count(".") == 2}
    assert names == {"a100", "h100", "small", "fat"}


def test_a_workstation_is_described_without_a_scheduler() -> None:
    survey = NodeSurvey(NodeFacts("box", gpus=(KnownGpu("nvidia", "", ()),)), cores=Cores(16, 2, regular=True))
    alone = MachineEvidence("box", "/home/me", surveys=(survey,), silent="no scontrol on this machine")
    found = values(alone)
    assert (found["nodes.gpu.cores"], found["nodes.gpu.threads_per_core"], found["nodes.gpu.gpus"]) == (16, 2, 1)
    assert not [key for key in found if key.startswith(("job.", "launcher."))]
    assert "Without a scheduler: no scontrol on this machine" in draft(alone).notes
