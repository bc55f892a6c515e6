from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from hpcmod.machine.values.tables import Network
from tests.unit.runscripts.scripts import BATCH, DISTRIBUTED, RANKS, Rank, task

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("place", ["0 0 4 3 0", "1 1 4 3 0", "2 2 4 3 0", "3 0 4 1 1"])
def test_every_rank_of_an_uneven_step_knows_its_place(rank: Rank, place: str) -> None:
    assert rank.sees(task(int(place[0])), *RANKS[:1], *RANKS[2:]) == ("nid001", *place.split())


@pytest.mark.parametrize(
    ("listed", "node", "tasks"),
    [
        pytest.param("3,1", "0", "3", id="first of two"),
        pytest.param("3,1", "1", "1", id="last of two"),
        pytest.param("2(x3),1", "0", "2", id="first of many"),
        pytest.param("2(x3),1", "2", "2", id="last of many"),
        pytest.param("2(x3),1", "3", "1", id="after many"),
        pytest.param("1,2(x3),4(x2),5", "4", "4", id="in the middle"),
        pytest.param("1,2(x3),4(x2),5", "6", "5", id="at the end"),
        pytest.param("8(x1176)", "1175", "8", id="the last node of many"),
        pytest.param("4", "0", "4", id="one node"),
        pytest.param("08(x09)", "08", "8", id="zeros in front"),
    ],
)
def test_reads_the_tasks_of_its_node(rank: Rank, listed: str, node: str, tasks: str) -> None:
    more = {"SLURM_STEP_TASKS_PER_NODE": listed, "SLURM_NODEID": node, "SLURM_LOCALID": "0"}
    assert rank.sees(task(0, **more), "LOCAL_WORLD_SIZE") == (tasks,)


def test_older_names_of_slurm_will_do(rank: Rank) -> None:
    env = {name: value for name, value in task(3).items() if not name.startswith("SLURM_STEP_")}
    env.update(SLURM_TASKS_PER_NODE="3,1", SLURM_JOBID=env.pop("SLURM_JOB_ID"))
    del env["SLURM_NTASKS"]
    assert rank.sees(env, *RANKS[:1], *RANKS[2:]) == ("nid000", "3", "0", "4", "1", "1")


def test_on_one_node_the_list_of_tasks_may_be_missing(rank: Rank) -> None:
    env = task(1, (2,), SLURM_STEP_NODELIST="nid[7]", SLURM_TASKS_PER_NODE="", SLURM_STEP_TASKS_PER_NODE="")
    assert rank.sees(env, "LOCAL_WORLD_SIZE", "MASTER_ADDR") == ("2", "nid7")


@pytest.mark.parametrize(
    "env",
    [
        pytest.param({}, id="no scheduler"),
        pytest.param(BATCH, id="batch script"),
        pytest.param({**BATCH, "SLURM_STEP_ID": "4294967291"}, id="batch step"),
        pytest.param({**BATCH, "SLURM_STEP_ID": "-5"}, id="batch step, signed"),
        pytest.param({**BATCH, "SLURM_STEP_ID": "batch"}, id="batch step, by name"),
        pytest.param({**BATCH, "SLURM_STEP_ID": "4294967290"}, id="interactive step"),
        pytest.param({**BATCH, "SLURM_STEP_ID": "4294967292"}, id="extern step"),
        pytest.param({**BATCH, "SLURM_STEP_ID": "4294967293"}, id="pending step"),
    ],
)
def test_a_process_not_started_by_srun_is_the_only_rank(rank: Rank, env: dict[str, str]) -> None:
    assert rank.sees(env, *RANKS[:1], *RANKS[2:]) == ("127.0.0.1", "0", "0", "1", "1", "0")


@pytest.mark.parametrize("words", [(), ("--hpcmod-explain",)])
def test_a_batch_script_without_srun_gets_a_message(rank: Rank, words: tuple[str, ...]) -> None:
    said = "this job has 4 tasks, but this process was not started by srun: running as the only rank"
    assert f"{DISTRIBUTED}: {said}\n" in rank(BATCH, *words).stderr


def test_the_node_of_a_rank_that_the_user_started_is_not_made_up(rank: Rank) -> None:
    env = {"RANK": "2", "LOCAL_RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "n1", "MASTER_PORT": "20000"}
    told = rank({**env, "LOCAL_WORLD_SIZE": "2"}, "--hpcmod-explain").stdout
    assert "NODE_RANK" not in told and "the only rank" not in told
    assert rank.sees({**env, "NODE_RANK": "1"}, "NODE_RANK") == ("1",)
    assert (
        "your environment does not provide the node's number"
        in rank({**env, "RANK": "0"}, "--launcher", "torchrun").stderr
    )


def port_by_rule(job: int, step: int) -> int:
    return 10240 + (job * 13957 + step) % 22511


@pytest.mark.parametrize(
    ("job", "step"), [(1, 0), (4711, 0), (4711, 1), (4712, 0), (16_777_215, 999), (4_294_967_295, 7)]
)
def test_the_port_is_a_function_of_job_and_step(rank: Rank, job: int, step: int) -> None:
    for number in (0, 3):
        env = task(number, SLURM_JOB_ID=str(job), SLURM_STEP_ID=str(step))
        assert rank.sees(env, "MASTER_PORT") == (str(port_by_rule(job, step)),)


def test_ports_of_jobs_and_steps_lie_below_those_of_clients() -> None:
    ports = [port_by_rule(job, step) for job in range(1, 2**32, 1_000_003) for step in (0, 1, 999)]
    assert min(ports) >= 10240 and max(ports) < 32768


def test_jobs_and_steps_that_may_share_a_node_do_not_meet() -> None:
    for first in (1, 4711, 22_500, 999_990):
        near = [port_by_rule(job, step) for job in range(first, first + 50) for step in range(400)]
        assert len(set(near)) == len(near)


def test_a_rank_that_is_alone_takes_a_free_port(rank: Rank) -> None:
    (port,) = rank.sees({}, "MASTER_PORT")
    assert 10240 <= int(port or 0) < 32768
    with socket.create_server(("127.0.0.1", int(port or 0))):
        pass


def test_ranks_that_are_alone_do_not_meet(rank: Rank) -> None:
    assert len({rank.sees(BATCH, "MASTER_PORT") for _ in range(5)}) == 5


FAULTS = [
    pytest.param(0, {"SLURM_PROCID": "x"}, "RANK is 'x' (SLURM_PROCID), which is not a number", id="rank"),
    pytest.param(
        0, {"SLURM_PROCID": ""}, "RANK is not known: srun does not provide it (SLURM_PROCID). Set RANK", id="no rank"
    ),
    pytest.param(
        0, {"SLURM_LOCALID": "-1"}, "LOCAL_RANK is '-1' (SLURM_LOCALID), which is not a number", id="negative"
    ),
    pytest.param(0, {"WORLD_SIZE": "many", "RANK": "0"}, "WORLD_SIZE is 'many' (already set)", id="size"),
    pytest.param(0, {"RANK": "a[$(touch pwned)]"}, "which is not a number", id="would be evaluated"),
    pytest.param(0, {"RANK": "4", "WORLD_SIZE": "4"}, "RANK is 4 (already set), but WORLD_SIZE is 4", id="too high"),
    pytest.param(0, {"WORLD_SIZE": "8"}, "WORLD_SIZE is 8, but the step has 4 tasks", id="size of another step"),
    pytest.param(1, {"RANK": "0"}, "RANK is 0 in task 1", id="rank of the batch script"),
    pytest.param(3, {"LOCAL_RANK": "1"}, "LOCAL_RANK is 1 (already set), but LOCAL_WORLD_SIZE is 1", id="local rank"),
    pytest.param(0, {"MASTER_PORT": "0"}, "MASTER_PORT is 0, which is not a port", id="port 0"),
    pytest.param(0, {"MASTER_PORT": "65536"}, "MASTER_PORT is 65536, which is not a port", id="port too high"),
    pytest.param(0, {"SLURM_STEP_NODELIST": "nid[1"}, "no host list in SLURM_STEP_NODELIST", id="host list"),
    pytest.param(0, {"SLURM_JOB_ID": "x"}, "SLURM_JOB_ID is 'x', which is not a number", id="job"),
    pytest.param(
        0,
        {"SLURM_STEP_TASKS_PER_NODE": "3,"},
        "LOCAL_WORLD_SIZE is not known: srun does not provide it (tasks",
        id="tasks of nodes",
    ),
    pytest.param(
        0, {"SLURM_NODEID": "2"}, "LOCAL_WORLD_SIZE is not known: srun does not provide it (tasks", id="a node too many"
    ),
    pytest.param(0, {"HPCMOD_GPUS_VISIBLE": "two"}, "--gpus-visible is 'two', expected one or all", id="GPUs"),
]


@pytest.mark.parametrize("explain", [pytest.param((), id="run"), pytest.param(("--hpcmod-explain",), id="explain")])
@pytest.mark.parametrize(("number", "more", "message"), FAULTS)
def test_refuses_an_environment_that_contradicts_itself(
    rank: Rank, number: int, more: dict[str, str], message: str, explain: tuple[str, ...]
) -> None:
    ran = rank(task(number, **more), *explain)
    assert (ran.status, ran.stdout) == (2, "")
    assert message in ran.stderr and ran.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"WORLD_SIZE": "8"}, id="size of another step"),
        pytest.param({"SLURM_STEP_NODELIST": "nid[1"}, id="host list"),
        pytest.param({"MASTER_PORT": "http"}, id="port"),
        pytest.param({"HPCMOD_GPUS_VISIBLE": "two"}, id="GPUs"),
        pytest.param({"RANK": "0"}, id="rank of the batch script"),
        pytest.param({"RANK": "9"}, id="a rank for all"),
    ],
)
def test_one_rank_speaks_for_all(rank: Rank, more: dict[str, str]) -> None:
    messages = [rank(task(number, **more)).stderr for number in range(4)]
    assert sum(message != "" for message in messages) == 1


def test_a_single_refusing_rank_prints_the_reason(rank: Rank) -> None:
    ran = rank(task(3, SLURM_STEP_NODELIST="nid[1"))
    assert (ran.status, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"{DISTRIBUTED}: rank 3: no host list in SLURM_STEP_NODELIST")


@pytest.mark.parametrize("later", [{"SLURM_STEP_ID": "1"}, {"SLURM_JOB_ID": "4712"}, {"SLURM_RESTART_COUNT": "1"}])
def test_another_step_or_job_is_warned_again(rank: Rank, later: dict[str, str]) -> None:
    said = [rank(task(0, WORLD_SIZE="8", **more)).stderr for more in ({}, {}, later)]
    assert said[0] and not said[1] and said[2] == said[0]


def test_a_mark_that_another_user_left_does_not_silence_a_rank(rank: Rank, tmp_path: Path) -> None:
    mark = tmp_path / "caches" / f"{os.getuid()}-hpcmod-refused-4711-0-0"
    mark.parent.mkdir()
    mark.symlink_to(tmp_path / "mine")
    (tmp_path / "mine").touch()
    assert "WORLD_SIZE is 8" in rank(task(2, WORLD_SIZE="8")).stderr and (tmp_path / "mine").stat().st_size == 0


def test_ranks_beyond_the_size_are_reported_once(rank: Rank) -> None:
    ran = [rank(task(number, WORLD_SIZE="2", RANK=str(number))) for number in range(4)]
    assert [each.status for each in ran] == [0, 0, 2, 2]
    assert [each.stderr != "" for each in ran] == [False, False, True, False]


@pytest.mark.parametrize("missing", ["RANK", "MASTER_ADDR", "MASTER_PORT"])
def test_without_srun_several_ranks_need_all_settings(rank: Rank, missing: str) -> None:
    told = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "12345"}
    ran = rank({name: value for name, value in told.items() if name != missing})
    assert ran.status == 2 and f"WORLD_SIZE is 2, but {missing} is not set" in ran.stderr
    assert rank.sees(told, "RANK", "WORLD_SIZE") == ("1", "2")


def test_numbers_with_zeros_in_front_are_decimal(rank: Rank) -> None:
    env = task(0, (9,), SLURM_PROCID="08", SLURM_LOCALID="08", ROCR_VISIBLE_DEVICES="0,1,2,3,4,5,6,7,8")
    assert rank.sees(env, "RANK", "HPCMOD_LOCAL_RANK", "ROCR_VISIBLE_DEVICES") == ("8", "8", "8")


@pytest.fixture
def suffixed(rank: Rank) -> Rank:
    """A rank on a site where host names of the fast network end in i."""
    rank.scripts.change_site(network=Network(host_suffix="i"))
    return rank


def test_ranks_meet_at_the_first_hosts_name_in_the_fast_network(suffixed: Rank) -> None:
    assert suffixed.sees(task(3), "MASTER_ADDR") == ("nid001i",)
    told = suffixed(task(3), "--hpcmod-explain", "x.py").stdout
    assert ": first host of the step with the suffix of the fast network, i\n" in told


def test_a_suffix_changes_neither_the_users_value_nor_that_of_a_single_rank(suffixed: Rank) -> None:
    assert suffixed.sees(task(3, MASTER_ADDR="n7"), "MASTER_ADDR") == ("n7",)
    assert suffixed.sees({}, "MASTER_ADDR") == ("127.0.0.1",)


@pytest.mark.parametrize(("number", "is_host"), [(0, "is_host=1"), (1, "is_host=0")])
def test_one_node_starts_the_store_of_torchrun_where_no_node_knows_its_suffixed_name(
    suffixed: Rank, number: int, is_host: str
) -> None:
    env = task(number, (1, 1), ROCR_VISIBLE_DEVICES="0,1", SLURM_JOB_ID="7")
    words = suffixed(env, "--launcher=torchrun", "--rdzv=c10d", "x.py").arguments
    assert words[words.index("--rdzv_conf") + 1] == is_host
