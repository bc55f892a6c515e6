"""Each launcher by its documented variables. PALS, Flux and MPICH are not installed, so tests set theirs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from hpcmod.core.resources import runscript_files
from tests.unit.runscripts.scripts import DISTRIBUTED, Rank, task

pytestmark = pytest.mark.slow

PLACE = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK")
TOLD = {"MASTER_ADDR": "nid001"}


def openmpi(rank: int, here: int, size: int, /, **more: str) -> dict[str, str]:
    """Return the variables that mpirun of Open MPI 4 gives a rank; ranks are assigned node by node."""
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank % here),
        "OMPI_COMM_WORLD_NODE_RANK": str(rank % here),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(here),
        "OMPI_MCA_orte_num_nodes": str(size // here),
        "PMIX_NAMESPACE": "665387009",
        **more,
    }


def mpich(rank: int, here: int, size: int, /) -> dict[str, str]:
    return {
        "PMI_RANK": str(rank),
        "PMI_SIZE": str(size),
        "MPI_LOCALRANKID": str(rank % here),
        "MPI_LOCALNRANKS": str(here),
    }


def pals(rank: int, here: int, size: int, /) -> dict[str, str]:
    return {
        "PALS_RANKID": str(rank),
        "PALS_LOCAL_RANKID": str(rank % here),
        "PALS_NODEID": str(rank // here),
        "PALS_LOCAL_SIZE": str(here),
        "PALS_APID": "0f9e8d7c-aaaa-4321",
        "PMI_SIZE": str(size),
    }


def flux(rank: int, nodes: int, size: int, /, *, cyclic: bool = False) -> dict[str, str]:
    local = rank // nodes if cyclic else rank % (size // nodes)
    return {
        "FLUX_TASK_RANK": str(rank),
        "FLUX_TASK_LOCAL_ID": str(local),
        "FLUX_JOB_SIZE": str(size),
        "FLUX_JOB_NNODES": str(nodes),
        "FLUX_JOB_ID": "\u0192uzzyDuck1",
    }


def torchrun(**more: str) -> dict[str, str]:
    return {
        "MASTER_ADDR": "nid007",
        "MASTER_PORT": "29401",
        "RANK": "11",
        "LOCAL_RANK": "3",
        "WORLD_SIZE": "16",
        "LOCAL_WORLD_SIZE": "8",
        "GROUP_RANK": "1",
        "TORCHELASTIC_RUN_ID": "none",
        **more,
    }


@pytest.mark.parametrize(
    ("env", "place"),
    [
        pytest.param(openmpi(5, 4, 8), "5 1 8 4 1", id="Open MPI"),
        pytest.param(openmpi(3, 4, 4), "3 3 4 4 0", id="Open MPI on one node"),
        pytest.param(mpich(3, 4, 4), "3 3 4 4 0", id="MPICH on one node"),
        pytest.param(pals(5, 4, 8), "5 1 8 4 1", id="PALS"),
        pytest.param({**pals(5, 4, 8), "PALS_SIZE": "8", "PMI_SIZE": ""}, "5 1 8 4 1", id="PALS with its size"),
        pytest.param(flux(5, 2, 8), "5 1 8 4 1", id="Flux"),
        pytest.param(flux(5, 2, 8, cyclic=True), "5 2 8 4 1", id="Flux, dealt out in turn"),
        pytest.param(torchrun(), "11 3 16 8 1", id="torchrun"),
    ],
)
def test_a_rank_knows_its_place(rank: Rank, env: dict[str, str], place: str) -> None:
    assert " ".join(map(str, rank.sees({**TOLD, **env}, *PLACE))) == place


@pytest.mark.parametrize("number", range(4))
def test_an_uneven_mpirun_leaves_unknown_what_open_mpi_does_not_report(rank: Rank, number: int) -> None:
    here = 3 if number < 3 else 1
    env = openmpi(number, here, 4, **TOLD, OMPI_MCA_orte_num_nodes="2", OMPI_COMM_WORLD_LOCAL_RANK=str(number % 3))
    assert rank.sees(env, *PLACE) == (str(number), str(number % 3), "4", str(here), None)


def test_several_nodes_of_mpich_leave_the_number_of_the_node_open(rank: Rank) -> None:
    assert rank.sees({**TOLD, **mpich(5, 4, 8)}, *PLACE) == ("5", "1", "8", "4", None)
    assert rank.sees({**TOLD, **mpich(5, 4, 8), "NODE_RANK": "1"}, "NODE_RANK") == ("1",)


@pytest.mark.parametrize("outer", [task(0, (1, 1)), {}], ids=["in a step of srun", "alone"])
@pytest.mark.parametrize("inner", [openmpi(5, 4, 8), mpich(5, 4, 8), flux(5, 2, 8)], ids=["Open MPI", "MPICH", "Flux"])
def test_the_innermost_launcher_counts(rank: Rank, inner: dict[str, str], outer: dict[str, str]) -> None:
    assert rank.sees({**TOLD, **outer, **inner}, *PLACE[:4]) == ("5", "1", "8", "4")


def test_srun_with_the_variables_of_pals_is_srun(rank: Rank) -> None:
    assert rank.sees({**task(3), **pals(0, 1, 1)}, *PLACE) == ("3", "0", "4", "1", "1")


def test_the_values_of_torchrun_win_over_all(rank: Rank) -> None:
    assert rank.sees({**task(1, (1, 1)), **torchrun()}, *PLACE, "MASTER_ADDR", "MASTER_PORT") == (
        "11", "3", "16", "8", "1", "nid007", "29401",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("more", "address"),
    [
        pytest.param({"SLURM_JOB_NODELIST": "nid[005-006]", "SLURM_STEP_NODELIST": "nid006"}, "nid005", id="Slurm"),
        pytest.param({"MASTER_ADDR": "mine"}, "mine", id="the user"),
    ],
)
def test_the_host_of_rank_0_is_that_of_the_scheduler(rank: Rank, more: dict[str, str], address: str) -> None:
    assert rank.sees({**openmpi(5, 4, 8), **more}, "MASTER_ADDR") == (address,)


def test_the_host_of_rank_0_may_be_in_a_file_of_pbs(rank: Rank) -> None:
    file = rank.scripts.root / "nodes"
    file.write_text("x3001\nx3001\nx3002\n")
    assert rank.sees({**pals(5, 4, 8), "PBS_NODEFILE": str(file)}, "MASTER_ADDR") == ("x3001",)


@pytest.mark.parametrize("env", [openmpi(1, 4, 4), mpich(1, 4, 4), pals(1, 4, 4), flux(1, 1, 4)])
def test_all_ranks_of_one_node_meet_there(rank: Rank, env: dict[str, str]) -> None:
    assert rank.sees(env, "MASTER_ADDR") == ("127.0.0.1",)


@pytest.mark.parametrize("env", [openmpi(0, 4, 8), mpich(0, 4, 8), pals(0, 4, 8), flux(0, 2, 8)])
def test_without_a_host_nothing_is_guessed(rank: Rank, env: dict[str, str]) -> None:
    ran = rank(env)
    assert ran.status == 2 and "does not provide the host of rank 0. Set MASTER_ADDR" in ran.stderr


@pytest.mark.parametrize("launch", [openmpi, mpich, pals, flux])
def test_all_ranks_of_a_run_agree_on_the_port(rank: Rank, launch: object) -> None:
    envs = [launch(number, 2, 4) for number in range(4)]  # type: ignore[operator]
    assert len({rank.sees({**TOLD, **env}, "MASTER_PORT") for env in envs}) == 1


@pytest.mark.parametrize(
    ("env", "name", "values"),
    [
        pytest.param(
            openmpi(0, 4, 4), "PMIX_NAMESPACE", ["665387009", "665452545", "prterun-nid1-77@1"], id="Open MPI"
        ),
        pytest.param(pals(0, 4, 4), "PALS_APID", ["0f9e8d7c", "0f9e8d7d", "1f9e8d7c"], id="PALS"),
        pytest.param(flux(0, 1, 4), "FLUX_JOB_ID", ["\u01922SEXr", "\u01922SEXs", "f2SEXr"], id="Flux"),
        pytest.param(mpich(0, 4, 4), "PBS_JOBID", ["4711.pbs", "4712.pbs"], id="MPICH in PBS"),
    ],
)
def test_two_runs_do_not_meet(rank: Rank, env: dict[str, str], name: str, values: list[str]) -> None:
    ports = [int(rank.sees({**env, name: value}, "MASTER_PORT")[0] or 0) for value in values]
    assert len(set(ports)) == len(ports) and all(10240 <= port < 32768 for port in ports)


def test_one_rank_of_mpirun_speaks_for_all(rank: Rank) -> None:
    ran = [rank({**openmpi(number, 4, 4), "WORLD_SIZE": "9"}) for number in range(4)]
    assert [each.status for each in ran] == [2] * 4
    assert [each.stderr != "" for each in ran] == [True, False, False, False]
    assert "WORLD_SIZE is 9, but the step has 4 tasks" in ran[0].stderr


def test_an_incomplete_launcher_is_refused(rank: Rank) -> None:
    env = {name: value for name, value in pals(0, 4, 8).items() if name != "PMI_SIZE"}
    ran = rank({**env, **TOLD})
    assert (
        ran.status == 2
        and ran.stderr
        == f"{DISTRIBUTED}: WORLD_SIZE is not known: PALS does not provide it (PMI_SIZE). Set WORLD_SIZE\n"
    )


@pytest.mark.parametrize(("env", "name"), [(openmpi(1, 4, 4), "mpirun"), (flux(1, 1, 4), "flux"), (task(1), "srun")])
def test_explain_names_the_launcher(rank: Rank, env: dict[str, str], name: str) -> None:
    assert f"\n# started by: {name}\n" in rank(env, "--hpcmod-explain").stdout


@pytest.mark.parametrize("number", range(6))
def test_distinguishes_cyclic_from_block_distribution(rank: Rank, number: int) -> None:
    block = rank.sees({**TOLD, **flux(number, 2, 6)}, "NODE_RANK", "LOCAL_RANK")
    cyclic = rank.sees({**TOLD, **flux(number, 2, 6, cyclic=True)}, "NODE_RANK", "LOCAL_RANK")
    assert (block, cyclic) == ((str(number // 3), str(number % 3)), (str(number % 2), str(number // 2)))


def test_the_table_of_launchers_names_variables_only() -> None:
    scripts = runscript_files()
    tell = '\nprintf "%s\\n" "${_launchers[@]}" "_step|$_task_launcher|$_task_variables"'
    script = scripts["lib/common.bash"] + scripts["lib/launchers.bash"] + tell
    done = subprocess.run(["bash", "-c", script], env={}, capture_output=True, text=True, check=True)
    rows = [line.split("|") for line in done.stdout.strip().splitlines()]
    assert " ".join(row[1] for row in rows) == "torchrun mpirun mpiexec flux PALS srun"
    names = [name for mark, _, *fields in rows for field in (mark, *fields) for name in field.split(" ")]
    assert {len(row) for row in rows} == {9} and all(
        re.fullmatch("-|[A-Z_]+[A-Za-z0-9_]*|_step", name) for name in names
    )
    (asked,) = re.findall(r"\[\[ \$_step && ! (\S+) ]]", scripts["lib/ranks.bash"])
    assert asked == "".join(f"${{{row[0]}-}}" for row in rows[:4])  # the launchers that a task may have started


@pytest.mark.parametrize(
    ("env", "said"),
    [
        pytest.param({"JOB_COMPLETION_INDEX": "3"}, "JOB_COMPLETION_INDEX is 3, but this rank's", id="Kubernetes"),
        pytest.param({"PET_NNODES": "2", "PET_NODE_RANK": "0"}, "PET_NNODES is 2, but this rank's", id="Kubeflow"),
        pytest.param({"JSM_NAMESPACE_SIZE": "8"}, "JSM_NAMESPACE_SIZE is 8, but this rank's number is", id="jsrun"),
        pytest.param({"PMI_RANK": "1", "PMI_SIZE": "8"}, "PMI_SIZE is 8, but this rank's number is", id="PMI alone"),
        pytest.param({"PMIX_RANK": "0"}, "PMIX_RANK is 0, but this rank's number is unknown", id="PMIx alone"),
        pytest.param({"LSB_MCPU_HOSTS": "batch1 1 a01 42"}, "this LSF job has several hosts", id="LSF without jsrun"),
        pytest.param({"NHOSTS": "2", "PE_HOSTFILE": "/x"}, "this Grid Engine job has 2 hosts", id="Grid Engine"),
    ],
)
def test_one_process_of_many_never_takes_itself_for_the_only_rank(rank: Rank, env: dict[str, str], said: str) -> None:
    for more in ((), ("--hpcmod-explain",)):
        ran = rank(env, *more, "x.py")
        assert (ran.status, ran.stdout) == (2, "") and said in ran.stderr


@pytest.mark.parametrize(("hosts", "status"), [("a\na\n", 0), ("a\nb\n", 2)])
def test_a_job_of_pbs_with_several_hosts_needs_a_launcher(rank: Rank, tmp_path: Path, hosts: str, status: int) -> None:
    (tmp_path / "hosts").write_text(hosts)
    env = {"PBS_JOBID": "1.x", "PBS_NODEFILE": str(tmp_path / "hosts")}
    assert rank(env, "x.py").status == status
    assert rank.sees({**env, "WORLD_SIZE": "1"}, "RANK") == ("0",)


def test_hosts_of_pbs_that_cannot_be_read_are_reported(rank: Rank) -> None:
    assert "cannot read /nowhere" in rank({"PBS_NODEFILE": "/nowhere"}, "x.py").stderr
