"""Batch scripts for LUMI's container modules behave the same with a module that follows LUMI's rules as with ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import OF_LUMIS_PAGE, Jobs
from tests.lumi import reference
from tests.lumi.machine import SCRIPTS, Side, run_scripts

pytestmark = pytest.mark.stack

THREE = ("simple-by-path", "with-conda", "pythonpath-distributed")


def test_three_scripts_in_one_job_do_the_same(tiny_jobs: Jobs, tiny_sif: Path, tmp_path: Path) -> None:
    machine, module = tiny_jobs.machine, OF_LUMIS_PAGE.replace("-", "/", 1)
    fake = tmp_path / "rocm-smi"  # LUMI's script runs it, but the test image lacks it
    fake.write_text("#!/bin/sh\necho 'fake rocm-smi'\n")
    fake.chmod(0o755)
    binds = [f"{fake}:/usr/bin/rocm-smi"]
    reference.install(tmp_path / "lumi", module, reference.OF_2023, tiny_sif, binds, machine.stack.apptainer)
    script = tmp_path / "three.sh"
    lines = ["#!/bin/bash -e", "#SBATCH -N1 --ntasks-per-node=2 --gpus-per-node=8 -p small-g -t 5"]
    script.write_text("\n".join([*lines, *(f"bash -e {SCRIPTS / name}.sh" for name in THREE), ""]))
    sides = (
        Side(machine, tmp_path / "lumi/modules/all", tmp_path / "lumi", "3"),
        Side(machine, tiny_jobs.modules, tmp_path / "ours", "3"),
    )
    lumi, ours = run_scripts(sides, [script])["three"]
    assert ours.compared == lumi.compared, lumi.errors + ours.errors
    assert (lumi.status, lumi.output.splitlines()[0]) == ("0:0", "GPUs: 8")
