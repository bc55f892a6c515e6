"""Sourcing environment.sh sets the same variables as `module load` with either module tool, and the image starts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.conftest import PYTORCH, TOY, Loader

pytestmark = pytest.mark.stack

OF_THE_TOOLS = re.compile(
    r"_HPCMOD_\w+|_ModuleTable\w+|__LMOD_\w+|__MODULES_\w+|LOADEDMODULES|_LMFILES_|LMOD_\w+|MODULE\w+|_|SHLVL|PWD|OLDPWD"
)
"""Bookkeeping of the module tools, and of the module for unloading."""

OF_EASYBUILD = re.compile(r"EBVERSION\w+|EBDEVEL\w+")
"""Variables besides the root that EasyBuild sets in every module, for building other software with it."""

GIVEN = {
    "nothing": {},
    "binds": {"SINGULARITY_BIND": "/etc:/etc2", "APPTAINER_BINDPATH": "/usr:/usr2,/tmp:/runscripts"},
    "tunables": {"NCCL_SOCKET_IFNAME": "eth7", "TOY_TUNABLE": "", "APPTAINERENV_WITH_VENV": "mine"},
    "paths": {"SINGULARITYENV_PREPEND_PATH": "/mine/bin::/yours", "SIF": "/my sif"},
    "what is kept out": {"PYTHONPATH": "/host", "HPCMOD_KEEP_ENV": "PYTHONPATH", "APPTAINERENV_LD_PRELOAD": "/x.so"},
}


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
@pytest.mark.parametrize("module", [PYTORCH, TOY])
def test_sourcing_sets_what_loading_sets(loader: Loader, module: str, given: dict[str, str]) -> None:
    loaded = loader.variables(f"module load {module}", **given)
    sourced = loader.variables(f". '{loader.root(module)}/environment.sh'", **given)
    ours = {name: value for name, value in sourced.items() if not OF_THE_TOOLS.fullmatch(name)}
    assert ours == {
        name: value
        for name, value in loaded.items()
        if not OF_THE_TOOLS.fullmatch(name) and not OF_EASYBUILD.fullmatch(name)
    }
    assert len(ours) > 20


def test_a_sourced_environment_starts_the_image_without_a_complaint(loader: Loader, tmp_path: Path) -> None:
    done = loader(f". '{loader.root(TOY)}/environment.sh' && singularity exec $SIF ls /optional /runscripts")
    assert done.returncode == 0, done.stderr
    assert {"of-the-site", "get-master"} <= set(done.stdout.split())
    assert [line for line in done.stderr.splitlines() if "SINGULARITY" in line or "APPTAINER" in line] == []


def test_a_module_loaded_on_top_of_the_sourced_environment_works(loader: Loader) -> None:
    done = loader(f". '{loader.root(TOY)}/environment.sh' && module load {TOY} && singularity exec $SIF ls /optional")
    assert done.stdout.split()[-1:] == ["of-the-site"], done.stderr


def test_it_needs_neither_a_module_tool_nor_anything_of_hpcmod(loader: Loader) -> None:
    done = loader(
        "unset -f module ml; exec env -i PATH=/usr/bin:/bin HOME=$HOME "
        f"bash -c '. {loader.root(TOY)}/environment.sh; echo $SIF'"
    )
    assert done.stdout.strip().endswith("toy.sif")
    assert Path(done.stdout.strip()).is_file()
