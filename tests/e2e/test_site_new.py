"""`hpcmod site new` queries the virtual machine and finds the same facts as in a hand-written profile."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path

from hpcmod.machine.values.profile import make_site, parse_profile
from tests.e2e.conftest import must
from tests.stack import Cluster

BY_HAND = """
# The virtual machine, by hand: `machine` of tests/e2e/conftest.py, as dev/lib/cluster_nodes.sh makes it.
name = "virtual"
[network]
interfaces = ["hsn0"]
[nodes.gpu]
cores = 288
gpus = 8
partitions = ["small", "standard", "small-g", "standard-g", "batch"]
memory_gib = 500
[launcher]
mpi = ["pmix", "pmix_v4", "pmi2", "cray_shasta"]
[job]
exclusive = ["standard", "standard-g", "batch"]
slurm = "22.05"
"""


def facts_of(text: str) -> tuple[object, ...]:
    """Return the facts about the machine in a profile."""
    tables = ("launcher", "job", "binds.always")
    facts = attrgetter("name", "network.interfaces", "network.fabric", "nodes.types", "gpu.vendor", *tables)
    return facts(make_site([parse_profile(text, "a.toml")]))  # type: ignore[no-any-return]


def test_the_new_profile_of_the_virtual_machine_equals_the_one_by_hand(machine: Cluster, tmp_path: Path) -> None:
    hpcmod = machine.stack.python.parent / "hpcmod"
    asked_by_step = must(machine(hpcmod, "site", "new", "--partition", "small", cwd=tmp_path)).stdout
    assert facts_of(asked_by_step) == facts_of(BY_HAND)
    written = must(machine("srun", "-N1", "-p", "standard", hpcmod, "site", "new", "-o", "new.toml", cwd=tmp_path))
    assert written.stdout == "new.toml\n"
    assert facts_of((tmp_path / "new.toml").read_text()) == facts_of(BY_HAND)
    checked = machine("srun", "-N1", hpcmod, "site", "check", "--site", "./new.toml", cwd=tmp_path)
    assert "ok   network: hsn0" in must(checked).stdout


def test_on_the_login_node_nothing_is_said_about_compute_nodes_that_were_not_asked(
    machine: Cluster, tmp_path: Path
) -> None:
    text = must(machine(machine.stack.python.parent / "hpcmod", "site", "new", cwd=tmp_path)).stdout
    assert make_site([parse_profile(text, "a.toml")]).network.interfaces == ()
    assert "# network: not known: no compute node was asked: add --partition NAME" in text
