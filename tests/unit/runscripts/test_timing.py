"""HPCMOD_TIMING: the record of a rank, whose program it does not change, and the summary by start-report."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

import pytest

from hpcmod.core.resources import runscript_files
from tests.unit.runscripts.scripts import SYSTEM_PATH, Ran, Rank, Scripts, make_program, task

pytestmark = pytest.mark.slow

PROGRAM = """
import json, os, sys, traceback
import slowly.inner
found = {}
for name in ("missing", "broken"):
    try:
        __import__(name)
    except Exception:
        found[name] = traceback.format_exc()
kept = {key: value for key, value in os.environ.items() if key not in ("_", "HPCMOD_TIMING")}
site = getattr(sys.modules.get("sitecustomize"), "KIND", None)
print(json.dumps([sys.argv, sys.path, kept, found, site, sys.flags.no_site, __name__]))
sys.exit(7)
"""


@pytest.fixture
def real(scripts: Scripts, tmp_path: Path) -> Rank:
    """A rank that runs this Python, and a program with its own packages next to it."""
    python = make_program(tmp_path / "bin" / "python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "slowly").mkdir()
    (tmp_path / "slowly" / "__init__.py").write_text("import time; time.sleep(0.02)\n")
    (tmp_path / "slowly" / "inner.py").write_text("import time; time.sleep(0.03)\n")
    (tmp_path / "broken.py").write_text("raise ValueError('broken')\n")
    return Rank(scripts, f"{python.parent}:{SYSTEM_PATH}")


def records(tmp_path: Path) -> list[dict[str, str]]:
    files = sorted(tmp_path.glob("caches/*/timing/rank-*"))
    return [dict(line.split(" ", 1) for line in file.read_text().splitlines()) for file in files]


@pytest.mark.parametrize("path", [None, "", "/nowhere:/else"], ids=["unset", "empty", "set"])
def test_the_program_is_the_same_with_and_without_timing(real: Rank, tmp_path: Path, path: str | None) -> None:
    given = {} if path is None else {"PYTHONPATH": path}
    both = [
        real(task(1, **given, **timing), "-u", str(tmp_path / "program.py"), "--", "-x")
        for timing in ({}, {"HPCMOD_TIMING": "1"})
    ]
    assert [ran.status for ran in both] == [7, 7]
    assert json.loads(both[0].stdout) == json.loads(both[1].stdout)
    assert [ran.stderr for ran in both] == ["", ""]
    (record,) = records(tmp_path)
    assert (record["host"], record["rank"], record["step_id"]) == ("nid001", "1", "0")
    assert float(record["script"]) <= float(record["python"])
    own = dict(pair.split("=") for pair in record["packages"].split(","))
    assert float(own["slowly"]) >= 0.05 and float(record["imports"].split()[0]) >= 0.05


def test_rank_0_prints_one_line_about_the_ranks_of_its_node(real: Rank, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import slowly.inner")
    ran = [real(task(number, HPCMOD_TIMING="1"), str(tmp_path / "program.py")) for number in (1, 3, 0)]
    assert [each.stderr for each in ran[:2]] == ["", ""]
    said = re.fullmatch(r"hpcmod: start of 2 ranks on nid001, seconds min/median/max: (.*)\n", ran[2].stderr)
    assert said, ran[2].stderr
    assert said[1].startswith("container unknown, interpreter 0.") and "(slowly 0.0" in said[1]
    assert said[1].endswith("to first step unknown")
    quiet = real(task(0, HPCMOD_TIMING="1", HPCMOD_TIMES="x", SLURM_STEP_ID="1"), str(tmp_path / "program.py"))
    assert quiet.stderr == ""


@pytest.mark.parametrize("options", [["-I"], ["-uE"], ["-Su"]])
def test_a_python_that_ignores_our_file_does_not_see_our_variables(real: Rank, options: list[str]) -> None:
    code = "import os; print(sorted(key for key in os.environ if 'HPCMOD_P' in key or key == 'PYTHONPATH'))"
    ran = real(task(1, HPCMOD_TIMING="1"), *options, "-c", code)
    assert (ran.status, ran.stdout, ran.stderr) == (0, "[]\n", "")


@pytest.mark.parametrize("plant", ["link", "file", "record"])
def test_a_rank_runs_without_a_record_if_none_can_be_written(real: Rank, tmp_path: Path, plant: str) -> None:
    cache = tmp_path / "caches" / "alice-hpcmod-4711-nid001"
    cache.mkdir(parents=True, mode=0o700)
    (tmp_path / "elsewhere").mkdir()
    if plant == "link":
        (cache / "timing").symlink_to(tmp_path / "elsewhere")
    elif plant == "file":
        (cache / "timing").touch()
    else:
        (cache / "timing").mkdir(mode=0o700)
        (cache / "timing" / "rank-0-0").write_text("former")
    ran = real(task(0, HPCMOD_TIMING="1"), "-c", "print(1)")
    assert (ran.status, ran.stdout, ran.stderr) == (0, "1\n", "")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_sitecustomize_of_the_image_runs_as_well(real: Rank, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("KIND = 'of the image'\n")
    ran = real(task(1, HPCMOD_TIMING="1", PYTHONPATH=str(tmp_path / "own")), str(tmp_path / "program.py"))
    assert json.loads(ran.stdout)[4] == "of the image"
    (tmp_path / "own" / "sitecustomize.py").write_text("1/0\n")
    both = [
        real(task(1, PYTHONPATH=str(tmp_path / "own"), **timing), "-c", "print(1)").stderr
        for timing in ({}, {"HPCMOD_TIMING": "1", "SLURM_STEP_ID": "3"})
    ]
    assert both[0] == both[1] and "Error in sitecustomize" in both[0]


def test_a_killed_rank_leaves_what_it_had(real: Rank, tmp_path: Path) -> None:
    ran = real(task(0, HPCMOD_TIMING="1"), "-c", "import os; os.kill(os.getpid(), 9)")
    assert ran.status == -9
    (record,) = records(tmp_path)
    assert "python" in record and "imports" not in record


def test_the_programs_of_the_nodes_run_under_an_old_python() -> None:
    templates = runscript_files()
    shared = templates["lib/start_times.py"]
    for name, modules in (("probe", {"_frozen_importlib", "_thread", "atexit"}), ("start_report", {"re"})):
        tree = ast.parse(shared + templates[f"lib/{name}.py"], feature_version=(3, 6))
        imported = {one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names}
        assert imported <= {"os", "sys", "time", "sitecustomize", *modules}


SRUN = """#!/bin/bash
[[ ${SRUN_FAILS-} ]] && exit 1
while [[ $1 != /bin/bash ]]; do shift; done
for SLURMD_NODENAME in nid001 nid002; do export SLURMD_NODENAME; "$@"; done
"""
SCONTROL = """#!/bin/bash
echo "JobId=4711 JobName=train"
echo "   SubmitTime=2026-11-23T05:00:00 EligibleTime=2026-11-23T05:00:01"
echo "   StartTime=2026-11-23T05:06:40 EndTime=2026-11-23T06:06:40"
"""
SACCT = """#!/bin/bash
echo "4711|"
echo "4711.batch|cpu=00:00:01"
echo "4711.0|cpu=00:01:00,gres/gpumem=6G,gres/gpuutil=87"
"""
RECORD = """host {host}
rank {rank}
step_id 0
script {script}
task 100.00
python 101.50
boot 1000.000
imports {imports} 900
packages torch={imports},numpy=0.10
collective 109.000
step 110.000
"""


def report(scripts: Scripts, tmp_path: Path, **env: str) -> Ran:
    programs = {"srun": SRUN, "scontrol": SCONTROL, **({"sacct": SACCT} if env.pop("SACCT", "") else {})}
    for name, text in programs.items():
        make_program(tmp_path / "tools" / name, text)
    times = "script=1080.5 check=1090.0 stage=1092.5 step=1099.75"
    given = {"SLURM_JOB_ID": "4711", "SLURM_JOB_NUM_NODES": "2", "HPCMOD_TIMES": times, **env}
    return scripts("start-report", env=given, path=f"{tmp_path}/tools:{SYSTEM_PATH}")


def write_records(tmp_path: Path, each: int = 2) -> None:
    for node in (1, 2):
        cache = tmp_path / "caches" / f"alice-hpcmod-4711-nid00{node}"
        (cache / "timing").mkdir(parents=True, mode=0o700)
        cache.chmod(0o700)
        for local in range(each):
            rank = (node - 1) * each + local
            text = RECORD.format(host=f"nid00{node}", rank=rank, script=100.5 + rank / 10, imports=2 + rank)
            (cache / "timing" / f"rank-0-{rank}").write_text(text)


def test_the_report_has_ten_lines_and_leaves_nothing_on_the_nodes(scripts: Scripts, tmp_path: Path) -> None:
    write_records(tmp_path)
    ran = report(scripts, tmp_path, SACCT="yes")
    assert (ran.status, ran.stdout) == (0, "")
    assert ran.stderr.splitlines() == [
        "start-report: 4 ranks on 2 nodes; seconds: minimum/median/maximum",
        "  queue         400 (submitted 2026-11-23 05:00:00, started 2026-11-23 05:06:40)",
        "  node check    2.50",
        "  staging       7.25",
        "  launch        0.25/0.25/0.25",
        "  container     0.50/0.65/0.80; slowest: rank 3 on nid002",
        "  interpreter   0.70/0.85/1.00; slowest: rank 0 on nid001",
        "  imports       2.00/3.50/5.00; slowest: rank 3 on nid002; packages: torch 5, numpy 0.10",
        "  to first step 10.0/10.0/10.0",
        "  GPUs          utilisation 87 % on average (accounting)",
    ]
    assert list((tmp_path / "caches").iterdir()) == []


def test_what_was_not_measured_is_unknown_and_the_status_is_0(scripts: Scripts, tmp_path: Path) -> None:
    write_records(tmp_path, 1)
    for path in tmp_path.glob("caches/*nid001/timing/rank-*"):
        path.write_text("host nid001\nrank x\nstep_id 0\nscript 1e999\nimports nan\npython\n\0\x1b[31m\n")
    ran = report(scripts, tmp_path)
    assert ran.status == 0 and "container     0.60/0.60/0.60 (1 of 2 ranks)" in ran.stderr, ran.stderr
    assert "utilisation unknown" in ran.stderr and "\x1b" not in ran.stderr
    silent = report(scripts, tmp_path, SRUN_FAILS="1", HPCMOD_TIMES="")
    assert silent.status == 0 and "no rank was measured" in silent.stderr
    assert [line.split("  ")[1] for line in silent.stderr.splitlines()[1:]] == ["queue", "node check", "staging"]


def test_the_caches_go_before_the_records(scripts: Scripts, tmp_path: Path) -> None:
    cache = tmp_path / "caches" / "alice-hpcmod-99771-nid001"
    for directory in (cache, cache / "timing", cache / "triton"):
        directory.mkdir(parents=True, mode=0o700)
    for name in (".rank-0", "timing/rank-0-0", "timing/sitecustomize.py"):
        (cache / name).touch()
    env = {"SLURM_JOB_ID": "99771", "SLURM_STEP_ID": "0", "SLURMD_NODENAME": "nid001"}
    assert scripts("remove-caches", env={**env, "HPCMOD_TIMES": "step=1"}).status == 0
    assert [path.name for path in cache.rglob("*")] == ["timing", "rank-0-0"]
    assert scripts("remove-caches", env=env).status == 0
    assert not cache.exists()
