from __future__ import annotations

import ast
import json
import os
import shlex
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

from hpcmod.jobs.values.facts import JobFacts, JobFiles
from hpcmod.runs.running.nodes import ask_ranks, rank_program
from hpcmod.runs.values.endings.stacks import parse_answers
from tests.programs import make_program
from tests.stack import CHECKOUT

pytestmark = pytest.mark.slow

ANSWER = json.dumps({"host": "nid001", "ranks": [{"rank": "0", "pid": 7, "state": "S", "cpu": 0.0}], "profiler": ""})

JOB = JobFacts(
    *("4711", "", "RUNNING", "", 0, 0, "nid[001-002]", 2, 2, "", ""), JobFiles(), running=True, waiting=False
)


def fake_srun(place: Path, code: str) -> dict[str, str]:
    make_program(place / "srun", f"#!/bin/sh\n{code}\n")
    own = {"SLURM_JOB_ID": "3", "SLURM_NTASKS": "8", "SLURM_CONF": "/etc/x"}
    return {"PATH": f"/loaded/bin:{place}:/usr/bin:/bin", "CONTAINERROOT": "/loaded", **own}


def test_one_step_asks_all_nodes_without_the_variables_of_another_job(tmp_path: Path) -> None:
    kept = f'env | grep ^SLURM >{tmp_path}/env; printf "%s " "$@" >{tmp_path}/words'
    code = f"{kept}; echo noise; case $PATH in *loaded*) ;; *) echo 'hpcmod nid001 1/1 {ANSWER}|' ;; esac"
    asked = ask_ranks(JOB, fake_srun(tmp_path / "bin", code))  # without the python3 of a loaded module
    assert [answer.host for answer in asked.answers] == ["nid001"] and asked.problem == ""
    assert (tmp_path / "env").read_text() == "SLURM_CONF=/etc/x\n"
    assert (tmp_path / "words").read_text().startswith("--jobid=4711 --nodes=2 --overlap --ntasks-per-node=1 ")


def test_no_answer_has_a_reason(tmp_path: Path) -> None:
    asked = ask_ranks(JOB, fake_srun(tmp_path / "bin", "echo 'srun: error: Invalid job id' >&2; exit 1"))
    assert (asked.answers, asked.problem) == ((), "srun: error: Invalid job id")
    assert "srun cannot be started" in ask_ranks(JOB, {"PATH": str(tmp_path)}).problem


def test_the_program_of_the_nodes_runs_under_an_old_python_with_the_standard_library() -> None:
    tree = ast.parse(rank_program(), feature_version=(3, 6))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    known = "atexit base64 gzip json os re shutil socket stat subprocess sys tempfile time"
    assert imported <= set(known.split())
    assert len(rank_program()) < 100_000  # a single argument has at most 128 KiB


PY_SPY = """#!/bin/sh
n=$(cat {0}/count 2>/dev/null || echo 0)
echo $((n + 1)) >{0}/count
line=$((n {1}))
printf '[{{"thread_name": "MainThread", "frames": [{{"name": "f", "filename": "a.py", "line": %d}}]}}]' $line
"""


@pytest.mark.parametrize(("change", "moved"), [("/ 2", True), ("* 0", False)])
def test_the_program_notices_ranks_that_move(tmp_path: Path, change: str, moved: bool) -> None:
    make_program(tmp_path / "py-spy", PY_SPY.format(tmp_path, change))
    job = str(os.getpid() + 30_000_000)
    rank = {"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": job, "RANK": "0"}
    with subprocess.Popen([sys.executable, "-c", SLEEPS], env=rank, stdout=subprocess.PIPE) as child:
        assert child.stdout and child.stdout.readline() == b"up\n"
        line = [sys.executable, "-I", "-S", "-c", rank_program(), job, str(tmp_path / "py-spy")]
        done = subprocess.run(line, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True)
        child.kill()
    (answer,) = parse_answers(done.stdout)
    assert [one.moved for one in answer.ranks] == [moved]
    assert (tmp_path / "count").read_text() == "3\n"


SLEEPS = "import sys, time; print('up', flush=True); time.sleep(60)"


def test_the_program_finds_the_uppermost_python_of_each_rank() -> None:
    """Ignores a shell around the rank, a worker below it, another job, and the program's own step."""
    job = str(os.getpid() + 10_000_000)
    base = {"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": job, "RANK": "3", "SLURM_STEP_ID": "0"}
    inner = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEPS!r}])"
    shell = ["bash", "-c", f"{shlex.join([sys.executable, '-c', inner])}; true"]
    other = {**base, "RANK": "4", "SLURM_JOB_ID": "1"}
    started = [subprocess.Popen(shell, env=base, stdout=subprocess.PIPE, start_new_session=True)]
    started.append(subprocess.Popen([sys.executable, "-c", SLEEPS], env=other, stdout=subprocess.PIPE))
    try:
        for child in started:
            assert child.stdout and child.stdout.readline() == b"up\n"
        environ = {**base, "SLURM_STEP_ID": "1"}
        line = [sys.executable, "-I", "-S", "-c", rank_program(), job]
        (answer,) = parse_answers(subprocess.run(line, env=environ, capture_output=True, text=True, check=True).stdout)
        assert [rank.rank for rank in answer.ranks] == [3]
        words = Path(f"/proc/{answer.ranks[0].process}/cmdline").read_text().split("\0")
        assert words[1] == "-c" and "subprocess" in words[2]
        assert answer.ranks[0].state == "S" and answer.ranks[0].cpu < 0.2
    finally:
        os.killpg(started[0].pid, 9)
        started[1].kill()
        for child in started:
            child.communicate()


def test_py_spy_of_the_users_packages_is_copied_out_of_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its mount is one of FUSE, which processes outside of the container may not open."""
    loader = SourceFileLoader("list_ranks", str(CHECKOUT / "src/hpcmod/runs/endings/list-ranks"))
    program = module_from_spec(spec_from_loader("list_ranks", loader))  # type: ignore[arg-type]
    loader.exec_module(program)
    make_program(tmp_path / "nsenter", '#!/bin/sh\necho "$@"\n')
    monkeypatch.setenv("PATH", str(tmp_path))
    rank = {"pid": 999_999_999, "path": "/usr/bin:/user-software/venv/x/bin", "words": ["python"]}
    path, shown = program.find_profiler([rank], "")
    assert shown == "/user-software/venv/x/bin/py-spy"
    copy = Path(path)
    assert copy.read_text().split()[-2:] == ["cat", "/user-software/venv/x/bin/py-spy"]
    assert copy.stat().st_mode & 0o777 == 0o700
    (tmp_path / "nsenter").unlink()
    assert program.find_profiler([rank], "") == ("", "")
