"""The output of `hpcmod site setup` as an ordinary user sees it: real module tools, and a plain `eb`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from hpcmod import __version__
from hpcmod.catalogue.records.sharing import make_catalogue
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.modules.text.easyconfig import render_easyconfig
from hpcmod.modules.values.easyconfig import EasyconfigText
from tests.stack import CHECKOUT, Done, ModuleTool, run, write_eb

pytestmark = pytest.mark.stack

LISTS = ("EASYBUILD_ROBOT_PATHS", "EASYBUILD_INCLUDE_EASYBLOCKS", "HPCMOD_CATALOGUE", "EB_PYTHON", "HPCMOD_SITE")
SHOW = "".join(f'printf "%s\\n" "{name}=${{{name}-UNSET}}"\n' for name in LISTS)


@pytest.fixture
def catalogue(tmp_path: Path, tiny_sif: Path) -> Catalogue:
    """A catalogue with an easyconfig and its image, but nothing installed."""
    made = Catalogue(tmp_path / "our containers", "ours")
    make_catalogue(made)
    shutil.copy(tiny_sif, made.images / "tool.sif")
    text = EasyconfigText("Tool", "1.0", "tool.sif", "A tool", checksum="0" * 64)
    path = made.easyconfigs / text.path
    path.parent.mkdir(parents=True)
    path.write_text(render_easyconfig(text).replace(f"'{'0' * 64}'", "None"))
    return made


def setup(tool: ModuleTool, *args: str | Path) -> Path:
    """Run site setup with umask 077; return the directory for MODULEPATH."""
    line = ["bash", "-c", 'umask 077; exec "$0" "$@"', str(tool.stack.python.parent / "hpcmod"), "site", "setup"]
    done = run([*line, *map(str, args)], tool.stack.environment(tool.home))
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def in_shell(tool: ModuleTool, modules: Path, snippet: str, **env: str) -> Done:
    """Run a snippet where the first `eb` on PATH is not that of hpcmod's environment."""
    path = f"{write_eb(tool.stack, tool.home)}:{tool.stack.environment(tool.home)['PATH']}"
    prefix = {"PATH": path, "EASYBUILD_PREFIX": str(tool.home / "own"), "EASYBUILD_TMPDIR": str(tool.home / "tmp")}
    prefix["PYTHONOPTIMIZE"] = "0"  # see tests/stack.py
    command = {"MODULES_CMD": str(tool.stack.modulecmd)} if tool.name == "envmodules" else {}
    return tool(snippet, modules, **prefix, **command, **env)


def test_lmod_keeps_easybuilds_defaults_in_tcl_too(lmod: ModuleTool, tmp_path: Path) -> None:
    """An easyconfig of hpcmod gives Lmod the module in Tcl, if the site's modules are."""
    modules = setup(lmod, "--output", tmp_path / "site")
    for path in modules.glob("hpcmod/*.lua"):
        path.unlink()
    done = in_shell(lmod, modules, 'module load hpcmod; echo "${EASYBUILD_MODULES_TOOL-unset}"')
    assert (done.returncode, done.stdout) == (0, "unset\n")


@pytest.mark.parametrize("module_env", ["lmod"], indirect=True)  # for the other: test_environment_modules.py
def test_after_module_load_plain_eb_installs_from_the_catalogue(
    module_env: ModuleTool, catalogue: Catalogue, tmp_path: Path
) -> None:
    modules = setup(module_env, "--catalogue", catalogue.directory)
    assert modules == catalogue.directory / "site" / "modules"
    own = tmp_path / "own" / "modules" / "all"
    done = in_shell(
        module_env,
        modules,
        f"module load hpcmod && hpcmod --version && eb Tool-1.0.eb && module use '{own}' && module load Tool/1.0 "
        "&& python -c 'print(6 * 7)'",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[0].startswith("hpcmod")
    assert done.stdout.splitlines()[-1] == "42"


@pytest.mark.parametrize("module_env", ["envmodules"], indirect=True)
def test_our_own_easyconfigs_are_found_too_and_easybuilds_still(module_env: ModuleTool, catalogue: Catalogue) -> None:
    modules = setup(module_env, "--catalogue", catalogue.directory)
    done = in_shell(module_env, modules, "module load hpcmod && eb --show-config && eb --search ^PyTorch-2.7.1-rocm")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PyTorch-2.7.1-rocm-6.2.4-singularity.eb" in done.stdout
    (robot,) = (line for line in done.stdout.splitlines() if line.startswith("robot-paths"))
    paths = robot.partition("= ")[2].split(", ")
    assert paths[:3] == [str(catalogue.easyconfigs), str(CHECKOUT / "easyconfigs"), str(catalogue.images)]


@pytest.mark.parametrize(
    "own",
    [
        {},
        dict.fromkeys(LISTS, ""),
        {
            "EASYBUILD_ROBOT_PATHS": "/my robot::/other/:",
            "EASYBUILD_INCLUDE_EASYBLOCKS": "/my/*.py",
            "HPCMOD_CATALOGUE": "/mine",
            "EB_PYTHON": "/my/python",
            "HPCMOD_SITE": "generic",
        },
    ],
    ids=["unset", "empty", "set"],
)
def test_unloading_gives_back_what_the_user_had(
    module_env: ModuleTool, catalogue: Catalogue, own: dict[str, str]
) -> None:
    modules = setup(
        module_env, "--catalogue", catalogue.directory, "--site", "generic-amd", "--output", catalogue.images
    )
    before = "env | LC_ALL=C sort | grep -v -e '^_=' -e LMOD -e ModuleTable -e MODULES_\n"
    again = "module update" if module_env.name == "lmod" else "module reload"
    snippet = f"{before}echo ==\nmodule load hpcmod\n{again}\n{SHOW}echo ==\nmodule unload hpcmod\n{before}"
    done = in_shell(module_env, modules, snippet, **own)
    first, loaded, last = done.stdout.split("==\n")
    assert first.splitlines() == last.splitlines(), done.stderr
    values = dict(line.partition("=")[::2] for line in loaded.splitlines())
    ours = f"{catalogue.easyconfigs}:{CHECKOUT / 'easyconfigs'}:{catalogue.images}:"
    assert values["EASYBUILD_ROBOT_PATHS"] == ours + own.get("EASYBUILD_ROBOT_PATHS", "")
    included = f"{CHECKOUT / 'easyblocks'}/container*.py"
    assert values["EASYBUILD_INCLUDE_EASYBLOCKS"] == ",".join(
        filter(None, [own.get("EASYBUILD_INCLUDE_EASYBLOCKS"), included])
    )
    assert values["HPCMOD_CATALOGUE"] == ":".join(filter(None, [own.get("HPCMOD_CATALOGUE"), str(catalogue.directory)]))
    assert values["EB_PYTHON"] == own.get("EB_PYTHON", str(module_env.stack.python))
    assert values["HPCMOD_SITE"] == own.get("HPCMOD_SITE", "generic-amd")


def test_a_module_loaded_later_keeps_its_elements_after_unloading(module_env: ModuleTool, catalogue: Catalogue) -> None:
    modules = setup(module_env, "--catalogue", catalogue.directory)
    change = 'module load hpcmod; export EASYBUILD_ROBOT_PATHS="/late:$EASYBUILD_ROBOT_PATHS"; module unload hpcmod\n'
    done = in_shell(module_env, modules, change + 'echo "$EASYBUILD_ROBOT_PATHS"', EASYBUILD_ROBOT_PATHS="/early")
    assert done.stdout.strip() == "/late:/early", done.stderr


def test_it_is_one_module_with_help_and_a_default(module_env: ModuleTool, catalogue: Catalogue) -> None:
    modules = setup(module_env, "--catalogue", catalogue.directory)
    done = in_shell(module_env, modules, "module -t avail 2>&1; module help hpcmod 2>&1; module whatis hpcmod 2>&1")
    assert done.returncode == 0
    listed = [line for line in done.stdout.splitlines() if re.match(r"hpcmod/\S+$", line)]
    assert len(listed) == 1, done.stdout
    assert "eb NAME-VERSION.eb" in done.stdout


def test_the_version_that_was_set_up_last_is_the_default(lmod: ModuleTool, catalogue: Catalogue) -> None:
    modules = setup(lmod, "--catalogue", catalogue.directory)
    (modules / "hpcmod" / "99.0.lua").write_text("")
    done = in_shell(lmod, modules, 'module load hpcmod; echo "$LOADEDMODULES"')
    assert done.stdout.strip().endswith(f"hpcmod/{__version__}"), done.stderr
