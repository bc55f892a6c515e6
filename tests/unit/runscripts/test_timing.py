"""HPCMOD_TIMING: the record of a rank, whose program it does not change, and the summary of its node."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

import pytest

from hpcmod.core.resources import runscript_files
from tests.unit.runscripts.scripts import SYSTEM_PATH, Rank, Scripts, make_program, task

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
    assert record["host"] == "nid001"
    assert float(record["script"]) <= float(record["python"])
    own = dict(pair.split(" ") for pair in record["packages"].split(", "))
    assert float(own["slowly"]) >= 0.05 and float(record["imports"].split()[0]) >= 0.05


def test_rank_0_prints_one_line_about_the_ranks_of_its_node(real: Rank, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import slowly.inner")
    ran = [real(task(number, HPCMOD_TIMING="1"), str(tmp_path / "program.py")) for number in (1, 3, 0)]
    assert [each.stderr for each in ran[:2]] == ["", ""]
    said = re.fullmatch(r"hpcmod: start of 2 ranks on nid001, seconds min/median/max: (.*)\n", ran[2].stderr)
    assert said, ran[2].stderr
    assert said[1].startswith("container unknown, interpreter 0.") and "(slowly 0.0" in said[1]
    assert said[1].endswith("to first step unknown")


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


def test_the_probe_runs_under_an_old_python() -> None:
    tree = ast.parse(runscript_files()["lib/probe.py"], feature_version=(3, 6))
    imported = {one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names}
    assert imported <= {"os", "sys", "time", "sitecustomize", "_frozen_importlib", "_thread", "atexit"}
