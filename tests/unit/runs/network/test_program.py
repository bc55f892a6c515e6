"""The program that the ranks run, with fakes of PyTorch and mpi4py."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpcmod.runs.network.program import PROGRAM

FAKE_TORCH = """
class cuda:
    is_available = staticmethod(lambda: False)
"""
FAKE_MPI = """
class COMM_WORLD:
    rank, size = 0, 1
    allreduce = staticmethod(lambda value: value)
"""


def start(directory: Path, **env: str) -> tuple[int, list[dict[str, object]], str]:
    environ = {**os.environ, "PYTHONPATH": str(directory), "RANK": "0", "WORLD_SIZE": "1", **env}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "5"], env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    lines = [line.partition("hpcmod-allreduce ")[2] for line in done.stdout.splitlines()]
    return done.returncode, [json.loads(line) for line in lines if line], done.stderr


def test_uses_only_syntax_of_python_3_6() -> None:
    ast.parse(PROGRAM, feature_version=(3, 6))


@pytest.mark.slow
def test_reports_an_image_without_torch_and_still_tries_mpi(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('No module named torch')")
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").write_text("")
    (tmp_path / "mpi4py" / "MPI.py").write_text(FAKE_MPI)
    status, reports, _ = start(tmp_path)
    assert [(report["library"], report["error"], report["size"]) for report in reports] == [
        ("torch", "No module named torch", 1),
        ("mpi", "", 1),
    ]
    assert status == 0


@pytest.mark.slow
def test_reports_the_error_and_the_missing_interface(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(FAKE_TORCH)
    status, reports, said = start(tmp_path, GLOO_SOCKET_IFNAME="lo,nosuch0")
    assert status == 1
    assert [report["library"] for report in reports] == ["gloo"]
    assert "torch" in str(reports[0]["error"]) and "Traceback" in said
    assert reports[0]["missing"] == ["GLOO_SOCKET_IFNAME=nosuch0"]
