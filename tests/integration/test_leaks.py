"""The host's Python settings do not reach the container's Python, with real module tools and the real runtime."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from hpcmod.machine.values.site import HOST_PYTHON
from tests.integration.conftest import TOY, Loader
from tests.stack import Done

pytestmark = pytest.mark.stack

one_loader = pytest.mark.parametrize("loader", ["lmod-lua"], indirect=True)

TELL = f"""
import json, os, sys, packaging
told = {{name: os.environ[name] for name in {HOST_PYTHON} if name in os.environ}}
told.update(packaging=packaging.__file__, version=sys.version.split()[0], path=sys.path)
print(json.dumps(told))
"""
PLAIN = "singularity exec $SIF python"
COMMANDS = (PLAIN, "python", *(f"singularity exec $SIF conda-python-{kind}" for kind in ("simple", "distributed")))


def loaded(loader: Loader, snippet: str, **env: str) -> Done:
    """Run a snippet with the module loaded, and discard what loading prints."""
    return loader(f"module load {TOY} 2>/dev/null\n{snippet}", **env)


@pytest.fixture
def poison(loader: Loader, tmp_path: Path) -> dict[str, str]:
    """An environment with all variables that can affect another Python; a home with a module named like the image's."""
    version = json.loads(loaded(loader, f"{PLAIN} -c {shlex.quote(TELL)}").stdout)["version"]
    minor = ".".join(version.split(".")[:2])
    for place in (tmp_path / ".local" / "lib" / f"python{minor}" / "site-packages", tmp_path / "host"):
        place.mkdir(parents=True)
        (place / "packaging.py").write_text("raise SystemExit('the host came first')\n")
    (tmp_path / "startup.py").write_text("print('the host has started')\n")
    names = dict.fromkeys(HOST_PYTHON, str(tmp_path / "host"))
    return {**names, "LD_PRELOAD": "libm.so.6", "PYTHONSTARTUP": str(tmp_path / "startup.py"), "HOME": str(tmp_path)}


def told(done: Done) -> dict[str, str]:
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def of_the_host(found: dict[str, str], poison: dict[str, str]) -> set[str]:
    return {name for name in HOST_PYTHON if found.get(name) == poison[name]}


def test_the_module_hides_the_python_of_the_host(loader: Loader, poison: dict[str, str]) -> None:
    found = told(loaded(loader, f"{PLAIN} -c {shlex.quote(TELL)}", **poison))
    assert of_the_host(found, poison) == set()
    assert found["packaging"].startswith("/opt/miniconda3/") and poison["HOME"] not in " ".join(found["path"])


@one_loader
@pytest.mark.parametrize("command", COMMANDS[1:])
def test_wrappers_and_run_scripts_hide_the_python_of_the_host(
    loader: Loader, poison: dict[str, str], command: str
) -> None:
    found = told(loaded(loader, f"{command} -c {shlex.quote(TELL)}", **poison))
    assert of_the_host(found, poison) == set() and found["packaging"].startswith("/opt/miniconda3/")


@one_loader
def test_without_the_module_the_host_is_seen(loader: Loader, poison: dict[str, str]) -> None:
    names = "unset ${!APPTAINERENV_PYTHON@} ${!SINGULARITYENV_PYTHON@}; PATH=${PATH#*:}"
    done = loaded(loader, f"{names}; {PLAIN} -c 'import packaging'", **{**poison, "PYTHONHOME": ""})
    assert "the host came first" in done.stderr


def test_pip_does_not_put_packages_where_python_does_not_look(loader: Loader, tmp_path: Path) -> None:
    """A first package in ~/.local would be installed, and could not be imported from the next module load on."""
    line = f"{PLAIN} -c 'import sys; print(sys.flags.no_user_site)'; module unload {TOY}; env"
    done = loaded(loader, line, HOME=str(tmp_path))
    assert done.stdout[:2] == "1\n" and "ENV_PYTHONNOUSERSITE" not in done.stdout, done.stdout + done.stderr
    assert "not used in the container" not in loader(f"module load {TOY}", HOME=str(tmp_path)).stderr


def test_requested_variables_are_passed(loader: Loader, poison: dict[str, str]) -> None:
    asked = {**poison, "HPCMOD_KEEP_ENV": "PYTHONPATH"}
    assert of_the_host(told(loaded(loader, f"PYTHONPATH=/x {PLAIN} -c {shlex.quote(TELL)}", **asked)), asked) == set()
    shown = loaded(loader, "singularity exec $SIF bash -c 'echo $PYTHONPATH,$CONDA_EXE'", **asked)
    assert shown.stdout == f"{poison['PYTHONPATH']},\n"


DEFINITION = """Bootstrap: localimage
From: sandbox
%post
    [ -z "${PYTHONPATH-}${VIRTUAL_ENV-}" ]
    touch /built
"""


@one_loader
def test_an_image_can_be_built_while_the_module_is_loaded(loader: Loader, tmp_path: Path) -> None:
    (tmp_path / "x.def").write_text(DEFINITION)
    build = f"cd {tmp_path} && %s build --force --sandbox new x.def"
    prepared = loaded(loader, f"cd {tmp_path} && singularity build --sandbox sandbox $SIF")
    assert prepared.returncode == 0, prepared.stderr
    done = loaded(loader, build % "apptainer", PYTHONPATH="/host")
    assert done.returncode == 0 and (tmp_path / "new" / "built").exists(), done.stderr
    bare = loaded(loader, build % loader.tool.stack.apptainer)
    assert bare.returncode == 255 and "doesn't exist in container" in bare.stderr


@one_loader
def test_reports_the_difference_variable_by_variable(loader: Loader, tmp_path: Path) -> None:
    hpcmod = loader.tool.stack.python.parent / "hpcmod"
    done = loaded(loader, f"{hpcmod} site env --diff", PYTHONPATH="/host", SINGULARITYENV_MINE="1", HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert f"PYTHONPATH: /host -> ''  # the module {TOY}, by APPTAINERENV_PYTHONPATH" in lines
    assert "MINE: not set -> 1  # you, by SINGULARITYENV_MINE" in lines
    assert f"TOY_TUNABLE: 'of the {{site}}' -> 'of the {{site}}'  # the module {TOY} on the host" not in lines
    assert any(line.startswith("PATH: ") and "-> /runscripts:/user-software/venv/toy/bin:" in line for line in lines)
