"""An installation keeps the machine that it was made for, in every command and in any shell."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.stack import EasyBuild, ModuleTool

pytestmark = pytest.mark.stack

EASYCONFIG = """easyblock = 'ContainerModule'
name = 'Toy'
version = '1.0'
homepage = ''
description = 'A test.'
toolchain = SYSTEM
sources = ['Toy-1.0.sif']
moduleclass = 'tools'
"""
CRAY = "cray-ex-gh200"  # starts images by their run script, which this image lacks


def test_an_installation_stays_on_its_machine_in_any_shell(
    eb: EasyBuild, lmod: ModuleTool, tiny_sif: Path, tmp_path: Path
) -> None:
    shutil.copy(tiny_sif, eb.central / "Toy-1.0.sif")
    easyconfig = tmp_path / "Toy-1.0.eb"
    easyconfig.write_text(EASYCONFIG)
    done = eb(easyconfig, HPCMOD_SITE=CRAY)
    assert done.returncode == 0, done.stdout
    root = eb.prefix / "software/Toy/1.0"
    settings = {**eb.environment(), "HOME": str(tmp_path)}

    def shell(snippet: str, **env: str) -> str:
        run = lmod(f"{{ {snippet}; }} 2>&1", eb.modules, cwd=tmp_path, **{**settings, **env})
        assert json.loads((root / "record.json").read_text())["site"] == CRAY, run.stdout + run.stderr
        return run.stdout

    (root / "bin/python").unlink()
    assert "repaired Toy/1.0" in shell("hpcmod repair Toy")
    assert f"using {CRAY}, for which Toy/1.0 was installed; for lumi: --site lumi" in shell(
        "hpcmod update Toy", HPCMOD_SITE="lumi"
    )
    assert eb(easyconfig, "--rebuild").returncode == 0
    assert "FI_CXI_RDZV_GET_MIN" in shell(f"cat {eb.modules}/Toy/1.0.lua")
    written = shell("hpcmod job Toy -N 2 -- python -V")
    assert f"# 2 nodes of {CRAY}" in written and "singularity exec" in written and "srun" in written
    assert "that of this image starts no programs: exec instead" in written
    assert "# 1 node of lumi" in shell("hpcmod job Toy --site lumi -A me -- python -V")
    told = f"Toy/1.0 has the settings of {CRAY}, for which it was installed, not of lumi"
    assert told in shell("hpcmod exec Toy python -V", HPCMOD_SITE="lumi")
    assert f"Toy-1.0.sif on {CRAY}" in shell("hpcmod compat Toy")
    ran = shell('module load Toy; singularity run "$SIF" python -V; echo "rc $?"')
    assert "has no run script, so nothing would run. Write singularity exec" in ran and "rc 2" in ran
