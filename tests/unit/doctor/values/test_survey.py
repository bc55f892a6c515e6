from __future__ import annotations

import pytest

from hpcmod.doctor.values.survey import (
    Cores,
    NodeSurvey,
    local_disks,
    parse_lscpu,
    parse_mounts,
    parse_survey,
    shared_paths,
)
from hpcmod.machine.values.facts import NodeFacts
from tests.stack import CHECKOUT

LSCPU = (CHECKOUT / "tests/unit/machine/values/outputs" / "lscpu-i7.txt").read_text()
MOUNTS = """\
/dev/sda1 / ext4 rw,relatime 0 0
proc /proc proc rw,nosuid 0 0
10.0.2.15@tcp:/lustre /pfs/one lustre rw,flock,user_xattr 0 0
nas:/home /home nfs4 rw,addr=10.0.0.1 0 0
nas:/usr /usr/local nfs4 ro 0 0
nas:/data /data\\040sets nfs4 rw 0 0
/dev/nvme0n1p1 /local xfs rw 0 0
/dev/sda2 /boot ext4 rw 0 0
"""


def survey(states: dict[str, str] | None = None, **texts: str) -> NodeSurvey:
    facts = NodeFacts("nid001", interfaces=tuple((states or {}).items()))
    return parse_survey({name.replace("_", "-"): text for name, text in texts.items()}, facts)


def test_cores_whose_second_threads_come_last_are_regular() -> None:
    assert parse_lscpu(LSCPU) == Cores(cores=4, threads=2, regular=True)


def test_threads_that_follow_each_other_are_not_as_profiles_number_them() -> None:
    found = parse_lscpu("0,0,0\n1,0,0\n2,1,0\n3,1,0\n")
    assert found == Cores(cores=2, threads=2, regular=False)


def test_cores_of_two_sockets_with_the_same_numbers_are_different() -> None:
    assert parse_lscpu("0,0,0\n1,1,0\n2,0,1\n3,1,1\n") == Cores(cores=4, threads=1, regular=True)


def test_without_lscpu_the_cores_are_not_known() -> None:
    assert parse_lscpu("") is None


def test_an_escaped_blank_in_a_mount_point_is_decoded() -> None:
    assert "/data sets" in [one.path for one in parse_mounts(MOUNTS)]


def test_shared_paths_are_network_file_systems_and_links_into_them() -> None:
    found = survey(mounts=MOUNTS, links="scratch -> /pfs/one/scratch\nbin -> usr/bin\nold -> /nowhere")
    assert shared_paths(found, "/home/me") == [
        ("/data sets", "nfs4 in /proc/mounts"),
        ("/pfs/one", "lustre in /proc/mounts"),
        ("/scratch", "a link into /pfs/one"),
    ]


def test_disks_of_the_node_are_those_beside_the_system() -> None:
    assert [one.path for one in local_disks(survey(mounts=MOUNTS))] == ["/local"]


@pytest.mark.parametrize(
    ("texts", "fabric"),
    [
        ({"cxi": "cxi0\ncxi1"}, "cxi"),
        ({"infiniband": "mlx5_0 mlx5_core InfiniBand"}, "ib"),
        ({"infiniband": "mlx5_0 mlx5_core Ethernet"}, ""),
        ({"infiniband": "efa_0 efa Unspecified"}, "efa"),
        ({}, ""),
    ],
)
def test_the_fast_network_is_found_by_its_devices(texts: dict[str, str], fabric: str) -> None:
    assert survey(**texts).fabric == fabric


def test_interfaces_are_fast_by_name_kind_or_speed_and_sorted_by_number() -> None:
    states = {"hsn10": "up", "hsn2": "up", "ib0": "up", "eth0": "up", "eth1": "up", "hsn3": "down"}
    found = survey(states, interfaces="hsn10 1 \nib0 32 \neth0 1 10000\neth1 1 200000")
    fast = [(one.name, one.why) for one in found.interfaces if one.why]
    assert sorted(fast) == [
        ("eth1", "200 Gbit/s"),
        ("hsn10", "named as the interfaces of HPE Slingshot"),
        ("hsn2", "named as the interfaces of HPE Slingshot"),
        ("ib0", "IP over InfiniBand"),
    ]
    names = [one.name for one in found.interfaces]
    assert names.index("hsn2") < names.index("hsn10")


def test_the_system_is_named() -> None:
    found = survey(os_release='NAME="SLES"\nPRETTY_NAME="SUSE Linux Enterprise Server 15 SP5"\n', machine="aarch64\n")
    assert (found.system, found.architecture) == ("SUSE Linux Enterprise Server 15 SP5", "aarch64")
