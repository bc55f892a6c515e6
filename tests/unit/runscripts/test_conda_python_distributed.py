from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest

from hpcmod.modules.values.plan import RunscriptSettings
from tests.unit.runscripts.scripts import DISTRIBUTED, EIGHT, PATIENT_PROGRAM, RANKS, Rank, Scripts, make_program, task

pytestmark = pytest.mark.slow


def test_hands_arguments_to_python_as_they_are(rank: Rank) -> None:
    arguments = ("-u", "a b", "", "$(id)", "it's", "*", "--hpcmod-explain")
    assert rank(task(0), *arguments).arguments == list(arguments)


@pytest.mark.parametrize("status", [0, 1, 7, 120, 255])
def test_the_exit_status_is_that_of_python(rank: Rank, tmp_path: Path, status: int) -> None:
    make_program(tmp_path / "python-bin" / "python", f"#!/bin/bash\nexit {status}\n")
    assert rank(task(0)).status == status


def test_python_gets_the_signals(scripts: Scripts, python_path: str, tmp_path: Path) -> None:
    make_program(tmp_path / "python-bin" / "python", PATIENT_PROGRAM)
    env = {"PATH": python_path, "HPCMOD_CACHE_ROOT": str(tmp_path), **task(0)}
    process = subprocess.Popen(
        [str(scripts.root / "runscripts" / DISTRIBUTED)], env=env, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 5


@pytest.mark.parametrize("name", [*RANKS, "NCCL_SOCKET_IFNAME", "ODD_ONE", "MIOPEN_USER_DB_PATH", "TRITON_CACHE_DIR"])
def test_a_value_of_the_user_wins(rank: Rank, name: str) -> None:
    values = {"MASTER_ADDR": "nid009", "MASTER_PORT": "12345", "LOCAL_WORLD_SIZE": "5"}
    own = {name: values.get(name, "2")}
    if name == "WORLD_SIZE":
        own = {"RANK": "1", "WORLD_SIZE": "2"}
    assert rank.sees(task(2, **own), name) == (own[name],)


def test_an_empty_value_is_not_a_value(rank: Rank) -> None:
    assert rank.sees(task(3, MASTER_ADDR="", RANK="", NCCL_SOCKET_IFNAME=""), "MASTER_ADDR", "RANK") == ("nid001", "3")


def test_a_tunable_that_the_user_emptied_stays_empty(rank: Rank, settings: RunscriptSettings) -> None:
    rank.scripts.change(tunables=settings.tunables._replace(multi_node=(("FI_OF_TWO", "5"),)))
    env = task(3, NCCL_SOCKET_IFNAME="", FI_OF_TWO="")
    assert rank.sees(env, "NCCL_SOCKET_IFNAME", "FI_OF_TWO") == ("", "")


def test_tunables_reach_python_as_they_are_written(rank: Rank, settings: RunscriptSettings) -> None:
    assert rank.sees({}, "NCCL_SOCKET_IFNAME", "ODD_ONE") == tuple(value for _, value in settings.tunables.always)


@pytest.mark.parametrize(
    ("env", "several", "one"),
    [
        pytest.param(task(0, (3, 1)), "5", None, id="two nodes"),
        pytest.param(task(3, (1, 3)), "5", None, id="two nodes, the fuller one"),
        pytest.param(task(3, (8,)), None, "Socket", id="one node"),
        pytest.param({}, None, "Socket", id="alone"),
        pytest.param(task(0, (1, 1), FI_OF_TWO="9"), "9", None, id="the user's"),
        pytest.param(
            {**task(0, (1, 1)), "HPCMOD_LAUNCHER": "torchrun", "HPCMOD_RANKS_PER_NODE": "2"}, "5", None, id="torchrun"
        ),
    ],
)
def test_tunables_for_one_or_several_nodes_are_set_there(
    rank: Rank, settings: RunscriptSettings, env: dict[str, str], several: str | None, one: str | None
) -> None:
    tunables = {"multi_node": (("FI_OF_TWO", "5"),), "single_node": (("NCCL_NET", "Socket"),)}
    rank.scripts.change(tunables=settings.tunables._replace(**tunables))
    assert rank.sees(env, "FI_OF_TWO", "NCCL_NET") == (several, one)


def test_explain_gives_the_reason_of_the_profile(rank: Rank, settings: RunscriptSettings) -> None:
    reasons = (("NCCL_SOCKET_IFNAME", dict(settings.tunables.always)["NCCL_SOCKET_IFNAME"], "it's the $(fast) one"),)
    rank.scripts.change(tunables=settings.tunables._replace(reasons=reasons))
    told = rank.scripts(DISTRIBUTED, "--hpcmod-explain", "train.py", env=task(0, (1, 1))).stdout
    assert re.search(r"# lib/settings.bash:\d+: for every run: it's the \$\(fast\) one\n", told)


def test_the_environment_is_otherwise_untouched(rank: Rank) -> None:
    lower_case = dict.fromkeys(("step", "cache", "gpus", "names", "list", "variable", "job", "i"), "mine")
    own = {**lower_case, "LC_ALL": "C", "TWO_LINES": "b\nc"}
    env = task(0, **own)
    seen = rank(env).environment
    others = "HPCMOD_LOCAL_RANK NCCL_SOCKET_IFNAME ODD_ONE PYTHONNOUSERSITE PWD SHLVL _ OLDPWD python"
    ours = {*RANKS, *others.split()}
    caches = {name for name, value in seen.items() if "-hpcmod-4711-" in value}
    assert len(caches) == 8
    kept = {name: value for name, value in seen.items() if name not in ours | caches}
    assert kept == {**env, "USER": "alice", "PATH": rank.path, "HPCMOD_CACHE_ROOT": seen["HPCMOD_CACHE_ROOT"]}


def test_explain_tells_each_value_and_its_source_and_runs_nothing(rank: Rank, tmp_path: Path) -> None:
    more = {"MASTER_PORT": "12345", "ROCR_VISIBLE_DEVICES": EIGHT, "WITH_CONDA": "touch pwned"}
    ran = rank(task(3, (8,), **more), "--hpcmod-explain", "x.py")
    told = dict(line.split(" # ") for line in ran.stdout.splitlines() if line[0] != "#")
    assert (ran.status, ran.stderr) == (0, "")
    assert {name.split("=")[0].strip() for name in told} >= {*RANKS, "ROCR_VISIBLE_DEVICES", "TRITON_CACHE_DIR"}
    expected = {
        "RANK=3": "SLURM_PROCID",
        "LOCAL_WORLD_SIZE=8": "tasks of the step on this node",
        "MASTER_ADDR=nid001": "first host of the step",
        "MASTER_PORT=12345": "already set",
        "ROCR_VISIBLE_DEVICES=3": f"entry 3 of {EIGHT}",
        "NCCL_SOCKET_IFNAME=hsn0\\,hsn1": "for every run",
    }
    stripped = {name.strip(): re.sub(r"^lib/\S+: ", "", why) for name, why in told.items()}
    assert {name: stripped.get(name) for name in expected} == expected
    assert not (tmp_path / "caches").exists()


def test_explain_prints_what_python_sees(rank: Rank) -> None:
    env = task(1, (2,), ROCR_VISIBLE_DEVICES="4,6", CUDA_VISIBLE_DEVICES="4,6")
    told = rank(env, "--hpcmod-explain").stdout
    names = [line.split("=")[0] for line in told.splitlines() if line[0] != "#"]
    read = subprocess.run(
        ["bash", "-c", f"{told}\nfor name in {' '.join(names)}; do printf '%s\\0' \"${{!name}}\"; done"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert tuple(read.stdout.split("\0")[:-1]) == rank.sees(env, *names)


def test_help_tells_the_options(rank: Rank) -> None:
    ran = rank({}, "--hpcmod-help")
    assert ran.status == 0
    assert all(word in ran.stdout for word in ("--hpcmod-explain", "--gpus-visible", "HPCMOD_CACHE_ROOT", *RANKS))
