"""The `eb` of a site, with another EasyBuild or another Python than hpcmod's, finds hpcmod and stays as it was."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.conftest import TOY_IMAGE, write_easyconfig
from tests.stack import CHECKOUT, EasyBuild, ModuleTool, Stack, run

pytestmark = pytest.mark.stack

SITE_BLOCK = """from easybuild.easyblocks.generic.bundle import Bundle


class LumiBlock(Bundle):
    pass
"""

SITE_NAMES = """from easybuild.tools.module_naming_scheme.easybuild_mns import EasyBuildMNS
FlatMNS = type("FlatMNS", (EasyBuildMNS,), {"det_module_symlink_paths": lambda self, ec: []})
"""


def test_the_main_path_with_the_oldest_easybuild(stack: Stack) -> None:
    line = [str(CHECKOUT / "dev/matrix"), "easybuild", "4.9.4"]
    done = run(line, {**os.environ, "HPCMOD_DEV_DIR": str(stack.root)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" ok |") == 11


@pytest.fixture
def lumi(stack: Stack, eb: EasyBuild, tiny_sif: Path, tmp_path: Path) -> dict[str, str]:
    """A shell of LUMI: its `eb`, which replaces PYTHONPATH, and what its module EasyBuild-user sets.

    LUMI-SoftwareStack@02f17317: easybuild/easyconfigs/e/EasyBuild/EasyBuild-5.2.1.eb and
    modules/EasyBuild-config/25.01.lua (2026-07-10).
    """
    easybuild = tmp_path / "software/lib"
    easybuild.mkdir(parents=True)
    library = subprocess.check_output([stack.python, "-c", "import easybuild; print(easybuild.__path__[0])"], text=True)
    (easybuild / "easybuild").symlink_to(library.strip())
    text = (stack.python.parent / "eb").read_text()
    program = tmp_path / "bin/eb"
    program.parent.mkdir()
    program.write_text(text.replace("\nPYTHON=\n", f'\nexport PYTHONPATH="{easybuild}"\nPYTHON=\n', 1))
    program.chmod(0o755)
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/lumiblock.py").write_text(SITE_BLOCK)
    (tmp_path / "flat.py").write_text(SITE_NAMES)
    (tmp_path / "hooks.py").write_text("def pre_install_hook(self, *args):\n    print('hook of the site')\n")
    shutil.copy(tiny_sif, tmp_path / TOY_IMAGE)
    write_easyconfig(tmp_path)
    variables = {
        "PATH": f"{program.parent}:{stack.apptainer.parent}:/usr/bin:/bin",
        "EB_PYTHON": "/usr/bin/python3",
        "EASYBUILD_ROBOT_PATHS": str(tmp_path / "repo"),
        "EASYBUILD_INCLUDE_EASYBLOCKS": f"{tmp_path}/repo/*.py",
        "EASYBUILD_HOOKS": str(tmp_path / "hooks.py"),
        "EASYBUILD_INCLUDE_MODULE_NAMING_SCHEMES": str(tmp_path / "flat.py"),
        "EASYBUILD_MODULE_NAMING_SCHEME": "FlatMNS",
        "EASYBUILD_SUFFIX_MODULES_PATH": "",
    }
    return {**eb.environment(), **variables, "PYTHONPATH": "/of/the/user"}


def test_on_lumi_its_eb_installs_and_updates_and_keeps_its_easyblocks_hooks_and_names(
    lumi: dict[str, str], stack: Stack, tmp_path: Path, eb: EasyBuild, lmod: ModuleTool
) -> None:
    snippet = f"""
        hpcmod() {{ {stack.python.parent}/hpcmod "$@"; }}
        before=$(eb --version)
        eval "$(hpcmod site env)"
        [[ $before == "$(eb --version)" && $PYTHONPATH == /of/the/user && $EB_PYTHON == /usr/bin/python3 ]] &&
            eb Toy-1.0.eb && eb --list-easyblocks && hpcmod doctor --json && hpcmod update Toy 2>&1
    """
    done = run(["bash", "-c", snippet], lumi, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hook of the site" in done.stdout and not done.stderr
    assert "LumiBlock" in done.stdout and "ContainerModule" in done.stdout
    assert f"{tmp_path}/bin/eb knows ContainerModule" in done.stdout
    assert "updated Toy/1.0" in done.stdout
    loaded = lmod("module load Toy && start-shell -c 'echo inside'", eb.prefix / "modules")
    assert loaded.stdout == "inside\n", loaded.stderr


@pytest.mark.parametrize(
    ("tool", "syntax", "scheme", "toy"),
    [
        ("lmod", "Lua", "HierarchicalMNS", "Toy"),
        ("envmodules", "Tcl", "CategorizedModuleNamingScheme", "ai/Toy"),
    ],
)
def test_every_verb_finds_a_module_of_a_hierarchy(
    eb: EasyBuild, stack: Stack, tiny_sif: Path, tmp_path: Path, tool: str, syntax: str, scheme: str, toy: str
) -> None:
    shutil.copy(tiny_sif, tmp_path / TOY_IMAGE)
    write_easyconfig(tmp_path)
    site = {"HPCMOD_SITE": "generic", "EASYBUILD_MODULE_NAMING_SCHEME": scheme}
    environ = replace(eb, modules_tool=tool, syntax=syntax, variables=site).environment()
    snippet = f"""set -e
        eb Toy-1.0.eb >&2
        module use {eb.modules} {eb.modules}/Core
        module load {toy}
        start-shell -c 'echo loaded'
        module unload {toy}
        hpcmod exec {toy} echo ran
        hpcmod update {toy} >&2
        hpcmod ls
        hpcmod remove --yes {toy} >&2
        hpcmod ls
    """
    done = run(["bash", "-c", ModuleTool(stack, tmp_path, tool).prologue() + snippet], environ, tmp_path)
    words = [line.split()[0] for line in done.stdout.splitlines()]
    assert (done.returncode, words) == (0, ["loaded", "ran", f"{toy}/1.0"]), done
