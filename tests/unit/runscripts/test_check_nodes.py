"""check-nodes, and the Python program that it sends to each node; srun, scontrol and sbatch are fakes."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hpcmod.machine.node import node_program
from hpcmod.modules.values.plan import RunscriptSettings
from tests.unit.runscripts.scripts import SYSTEM_PATH, Ran, Scripts, make_program

pytestmark = pytest.mark.slow

SRUN = """#!/bin/bash
# A fake srun on $ANSWERING nodes, all of them this machine.
while [[ $1 == -* ]]; do shift; done
[[ ${ANSWERING-} ]] || { echo "srun: error: Unable to create step" >&2; exit 1; }
for SLURMD_NODENAME in $ANSWERING; do
  export SLURMD_NODENAME
  [[ $SLURMD_NODENAME != "${BROKEN-}" ]] || export APPTAINER_BINDPATH=/nowhere
  "$@"
done
"""
SCONTROL = """#!/bin/bash
[[ $2 != hostnames ]] || { printf 'nid001\\nnid002\\n' && exit; }
echo "JobId=7 ExcNodeList=${EXCLUDED-(null)} NodeList=x"
"""
SBATCH = '#!/bin/bash\nprintf "%s " "$@" "round $HPCMOD_RESUBMITTED" >"$SUBMITTED"\n'
JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "nid[001-002]"}


@pytest.fixture(scope="module")
def program() -> dict[str, Any]:
    """Return the functions of the node program."""
    names: dict[str, Any] = {"__name__": "check_node"}
    exec(compile(node_program(), "lib/check_node.py", "exec"), names)  # noqa: S102 - our own program
    return names


def test_the_program_is_python_3_6_alone_without_a_sign_that_jinja_would_take() -> None:
    assert not any(sign in node_program() for sign in ("{{", "{%", "{##", "END_OF_PROGRAM"))
    tree = ast.parse(node_program(), feature_version=(3, 6))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    names = {alias.name for node in imports for alias in node.names}
    assert names <= set(sys.stdlib_module_names)
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


def test_an_answer_is_sent_in_short_lines_of_one_json_object() -> None:
    asked = json.dumps({"places": ["/tmp"], "binds": [{"names": ["/x" * 400], "sources": ["/x"], "required": True}]})
    done = subprocess.run([sys.executable, "-c", node_program(), asked], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) > 1 and max(map(len, lines)) < 1000
    facts = json.loads("".join(line.split(" ", 3)[3][:-1] for line in lines))
    assert facts["cpus"]["online"] == os.cpu_count()
    assert ["fail", "bind", f"required bind path {'/x' * 400} is missing"] in facts["problems"]


def test_a_file_system_that_hangs_is_reported(program: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(program, "PATIENCE", 0.2)
    blocked = program["threading"].Event()
    answers = program["look"]({"quick": lambda: 1, "stuck": blocked.wait, "broken": lambda: 1 / 0}, 0.2)
    blocked.set()
    assert answers["quick"] == 1 and answers["stuck"] is None and "ZeroDivisionError" in answers["broken"]["error"]


def facts(**changed: Any) -> dict[str, Any]:
    healthy = {
        "host": "nid001",
        "cpus": {"online": 8, "allowed": list(range(8)), "numa": {}},
        "memory": {"total": 64 << 30, "available": 60 << 30},
        "interfaces": {"hsn0": {"state": "up"}},
        "gpus": [{"vendor": "amd"}] * 2,
        "binds": [],
        "lost": [],
        "space": {"/tmp": {"size": 8 << 30, "free": 4 << 30}},
        "speed": {"best": 1000.0, "share": 0.99},
    }
    return {**healthy, **changed}


ASKED = {
    "nodes": [{"partitions": ["gpu"], "cores": 8, "cpus": "1-7", "memory": 32 << 30, "gpus": 2}],
    "interfaces": ["hsn0"],
    "exclusive": ["gpu"],
}


def test_a_healthy_node_has_no_problem(program: dict[str, Any]) -> None:
    assert list(program["judge"](facts(), ASKED)) == []


@pytest.mark.parametrize(
    ("change", "level", "found"),
    [
        ({"cpus": {"online": 4, "allowed": [0]}}, "fail", "4 CPUs, expected at least 8 cores"),
        ({"cpus": {"online": 8, "allowed": [0, 1, 2, 3]}}, "fail", "this job may not use CPUs 4-7; it may use 0-3"),
        ({"cpus": None}, "fail", "no answer within 10 s about: cpus"),
        ({"memory": {"total": 16 << 30, "available": 16 << 30}}, "fail", "16.0 GiB of memory, expected at"),
        ({"memory": {"total": 64 << 30, "available": 8 << 30}}, "warn", "only 8.0 GiB of memory available"),
        ({"interfaces": {}}, "fail", "network interface hsn0 is missing"),
        ({"interfaces": {"hsn0": {"state": "down"}}}, "fail", "network interface hsn0 is down"),
        ({"gpus": [{"vendor": "amd"}]}, "fail", "the driver knows 1 GPUs, expected 2"),
        ({"lost": ["/x"]}, "fail", "bind path /x does not exist here, so containers do not start"),
        ({"space": {"/dev/shm": {"size": 64 << 20, "free": 1 << 20}}}, "fail", "/dev/shm is full: 1 MiB of 64 MiB"),
        ({"space": {"/tmp": {"size": 1 << 40, "free": 500 << 20}}}, "warn", "/tmp has only 500 MiB of 1024.0 GiB free"),
        ({"space": {"/tmp": {"size": 1 << 40, "free": 1 << 39, "files": 3}}}, "fail", "/tmp has room for 3 more files"),
        ({"space": {"/tmp": None}}, "fail", "/tmp does not answer within 10 s"),
        ({"speed": {"best": 1000.0, "share": 0.3}}, "warn", "a process gets 30 % of a core"),
    ],
)
def test_a_problem_of_a_node_is_explained(
    program: dict[str, Any], monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], level: str, found: str
) -> None:
    monkeypatch.setenv("SLURM_JOB_PARTITION", "gpu")
    (problem,) = program["judge"](facts(**change), ASKED)
    assert (problem[0], problem[2][: len(found)]) == (level, found)


def test_a_node_without_gpus_needs_one_of_the_interfaces(program: dict[str, Any]) -> None:
    asked = {**ASKED, "nodes": [{"cores": 8}], "interfaces": ["hsn0", "hsn1"]}
    assert list(program["judge"](facts(), asked)) == []
    down = facts(interfaces={"hsn0": {"state": "down"}, "eth0": {"state": "up"}})
    assert [rule for _, rule, _ in program["judge"](down, asked)] == ["interface", "interface"]


def test_the_image_is_compared_with_the_record(program: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a.sif").write_bytes(b"image")
    record = {"image": {"size": "5", "sha256": "0" * 64}}
    (tmp_path / "record.json").write_text(json.dumps(record))
    image = program["complete_image"](str(tmp_path / "a.sif"), str(tmp_path / "record.json"))
    assert image == {"path": str(tmp_path / "a.sif"), "size": 5, "sha256": "0" * 64}
    (problem,) = program["judge"](facts(image=program["find_image"](image)), {"image": image})
    assert problem[2].endswith("has sha256 6105d6cc76af..., expected 000000000000...")


def test_a_large_image_is_compared_by_samples(
    program: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(program, "WHOLE", 0)
    path = tmp_path / "a.sif"
    path.write_bytes(os.urandom(1 << 20))
    first = program["find_image"]({"path": str(path)})
    with path.open("r+b") as file:
        file.seek(1 << 19)
        file.write(b"changed" * 20_000)
    second = program["find_image"]({"path": str(path)})
    assert first["sha256"] == "" and first["sample"] != second["sample"]
    assert program["find_image"]({"path": str(path), "whole": True})["sha256"]


def check(scripts: Scripts, tmp_path: Path, *words: str, front: str = "", **env: str) -> Ran:
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL), ("sbatch", SBATCH)):
        make_program(tmp_path / "bin" / name, text)
    given = {"SUBMITTED": str(tmp_path / "submitted"), "ANSWERING": "nid001 nid002", **JOB, **env}
    return scripts("check-nodes", *words, env=given, path=f"{front}{tmp_path / 'bin'}:{SYSTEM_PATH}")


def test_a_job_with_healthy_nodes_continues(scripts: Scripts, tmp_path: Path) -> None:
    ran = check(scripts, tmp_path)
    assert (ran.status, ran.stdout) == (0, ""), ran.stderr
    assert "check-nodes: all 2 nodes can be used\n" in ran.stderr


def test_the_hosts_python_runs_and_not_the_wrapper_of_the_module(
    scripts: Scripts, settings: RunscriptSettings, tmp_path: Path
) -> None:
    scripts.write(settings._replace(root=str(tmp_path / "module")))
    make_program(tmp_path / "module" / "bin" / "python3", "#!/bin/bash\nexit 1\n")
    ran = check(scripts, tmp_path, front=f"{tmp_path}/module/bin:")
    assert "all 2 nodes can be used" in ran.stderr


def test_a_bad_node_ends_the_job_and_is_named(scripts: Scripts, tmp_path: Path) -> None:
    ran = check(scripts, tmp_path, BROKEN="nid002")
    assert ran.status == 1
    assert "check-nodes: nid002: bind path /nowhere does not exist here, so containers do not start\n" in ran.stderr
    assert "1 of 2 nodes should not be used; to leave them out: sbatch --exclude=nid002\n" in ran.stderr
    assert not (tmp_path / "submitted").exists()


@pytest.mark.parametrize(
    ("env", "status", "said"),
    [
        ({"ANSWERING": "nid001"}, 1, ["nid002: no answer"]),
        ({"ANSWERING": ""}, 0, ["srun: error: Unable to create step", "continuing without the check"]),
        ({"SLURM_JOB_ID": ""}, 2, ["not inside a Slurm job"]),
    ],
)
def test_what_cannot_be_checked_is_told(
    scripts: Scripts, tmp_path: Path, env: dict[str, str], status: int, said: list[str]
) -> None:
    ran = check(scripts, tmp_path, **env)
    assert ran.status == status and all(words in ran.stderr for words in said)


def test_the_script_is_submitted_again_without_bad_nodes(scripts: Scripts, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\n")
    ran = check(scripts, tmp_path, "--resubmit", str(script), BROKEN="nid002", EXCLUDED="nid[007-008]")
    assert ran.status == 1
    assert (tmp_path / "submitted").read_text() == f"--exclude=nid[007-008],nid002 -- {script} round 1 "


def test_a_script_is_not_submitted_again_forever(scripts: Scripts, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.touch()
    ran = check(scripts, tmp_path, "--resubmit", str(script), BROKEN="nid002", HPCMOD_RESUBMITTED="3")
    assert "submitted 3 times without bad nodes, which is the limit" in ran.stderr
    assert not (tmp_path / "submitted").exists()


@pytest.mark.parametrize("words", [("--all",), ("--resubmit",), ("--resubmit", "/nowhere"), ("", "")])
def test_other_words_are_refused(scripts: Scripts, tmp_path: Path, words: tuple[str, ...]) -> None:
    assert check(scripts, tmp_path, *words).status == 2
