"""All commands for a user's packages in a batch job on two nodes: Lmod with Lua, and Environment Modules with Tcl.

These tests are slow and need HPCMOD_THOROUGH=1; test_job.py has a short one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import EASYCONFIG, OF_LUMIS_PAGE, SITE, Jobs, must
from tests.integration.conftest import THOROUGH
from tests.stack import CHECKOUT, Cluster, EasyBuild, ModuleTool, Stack
from tests.wheels import make_wheel

pytestmark = pytest.mark.stack

SCRIPT = """#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=1 -p small-g --gpus-per-node=1 -t 00:20:00 -o commands-%j.out
set -e
{module}
(cd {checkout} && exec {python} -m tests.package_index {top}/wheels {top}/tls >{top}/index.txt) & index=$!
until test -s {top}/index.txt; do sleep 0.1; done
{{ read -r PIP_INDEX_URL; read -r PIP_CERT; }} <{top}/index.txt; export PIP_INDEX_URL PIP_CERT
hpcmod() {{ {hpcmod} "$@"; }}
module use {modules}
ranks() {{ srun --overlap -N 2 -n 2 singularity exec $SIF python -c "$1" | sort | uniq -c | tr -s ' '; }}
say() {{ echo "== $1"; }}
einops='import einops; print(einops.version)'
say add; hpcmod add PyTorch einops==0.8.0 'needy<2' -r requirements.txt; module load PyTorch; ranks "$einops"
say packages; hpcmod packages PyTorch | cut -d' ' -f1
say undo; hpcmod add PyTorch einops==0.8.1; ranks "$einops"; hpcmod undo PyTorch; ranks "$einops"
say history; hpcmod packages PyTorch --history | wc -l
say drop; hpcmod packages PyTorch --use 2; hpcmod drop PyTorch needy; ranks "$einops"
say diff; hpcmod packages PyTorch --diff 1 3
say rebase; hpcmod rebase PyTorch --from 2.2.0 --yes; ranks "$einops"
say edit; hpcmod edit PyTorch -- python -c 'import einops; open(einops.__file__, "w").write("version = 3")'
ranks "$einops"
say lock; hpcmod packages PyTorch --use 2; hpcmod packages PyTorch --lock >pylock.toml
hpcmod add PyTorch --lock pylock.toml --set copy; HPCMOD_PACKAGES=copy; export HPCMOD_PACKAGES
module unload PyTorch; module load PyTorch; ranks "$einops"
say shared; hpcmod add PyTorch --shared $PWD/project einops==0.8.0; export HPCMOD_PACKAGES=$PWD/project
module unload PyTorch; module load PyTorch; ranks "$einops"
say bake; hpcmod bake PyTorch -o mine.sif | sed 's:.*/::'; module unload PyTorch
own=/opt/miniconda3/envs/pytorch/bin/python
srun --overlap -N 2 -n 2 singularity exec mine.sif $own -c "$einops" | uniq -c | tr -s ' '
kill $index
say ended
"""

PRINTED = """== add
einops: added 0.8.0
more: added 1.0
needy: added 1.0
 2 0.8.0
== packages
einops
more
needy
== undo
einops: changed 0.8.0 -> 0.8.1
 2 0.8.1
einops: changed 0.8.1 -> 0.8.0
 2 0.8.0
== history
2
== drop
needy: removed 1.0
 2 0.8.1
== diff
einops: changed 0.8.0 -> 0.8.1
needy: removed 1.0
== rebase
einops: same 0.8.1
more: same 1.0
 2 0.8.1
== edit
 2 3
== lock
einops: added 0.8.1
more: added 1.0
needy: added 1.0
 2 0.8.1
== shared
einops: added 0.8.0
 2 0.8.0
== bake
mine.sif
 2 0.8.0
== ended
"""

if THOROUGH:

    @pytest.fixture(params=["lmod", "envmodules"])
    def tool(request: pytest.FixtureRequest, stack: Stack, tmp_path: Path) -> ModuleTool:
        return ModuleTool(stack, tmp_path, request.param)

    @pytest.fixture
    def jobs(stack: Stack, machine: Cluster, tiny_sif: Path, tool: ModuleTool, tmp_path: Path) -> Jobs:
        syntax = {"lmod": "Lua", "envmodules": "Tcl"}[tool.name]
        eb = EasyBuild(stack, tmp_path, tmp_path / "central", modules_tool=tool.name, syntax=syntax)
        (eb.central / "caches").mkdir(parents=True)
        (eb.central / "tiny.sif").symlink_to(tiny_sif)
        easyconfig = tmp_path / f"{OF_LUMIS_PAGE}.eb"
        easyconfig.write_text(EASYCONFIG)
        site = tmp_path / "site.toml"
        site.write_text(SITE.format(local=machine.dir / "local"))
        must(eb(easyconfig, HPCMOD_SITE=str(site)))
        return Jobs(machine, eb.modules, site, tmp_path)

    def test_every_command_works_in_a_job_of_two_nodes(jobs: Jobs, tool: ModuleTool) -> None:
        """Use an index on the node's network, as a user whose modules come from one of the two module tools."""
        wheels = jobs.directory / "wheels"
        for version in ("0.8.0", "0.8.1"):
            make_wheel(wheels, "einops", version)
        make_wheel(wheels, "needy", "1.0", requires=["einops"])
        make_wheel(wheels, "more", "1.0")
        (jobs.directory / "requirements.txt").write_text("more\n")
        python = jobs.machine.stack.python
        script = SCRIPT.format(
            module=tool.prologue().strip(),
            python=python,
            hpcmod=python.parent / "hpcmod",
            modules=jobs.modules,
            checkout=CHECKOUT,
            top=jobs.directory,
        )
        (jobs.directory / "commands.sh").write_text(script)
        home = str(jobs.directory)
        number = must(jobs("sbatch", "--parsable", "commands.sh", HOME=home, BASH_ENV="")).stdout.strip()
        jobs.wait(number)
        output = (jobs.directory / f"commands-{number}.out").read_text()
        printed = [line for line in output.splitlines() if not line.startswith(("hpcmod:", "    "))]
        assert printed == PRINTED.splitlines(), output
        assert jobs.state(number) == "COMPLETED"
