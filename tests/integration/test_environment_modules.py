"""Environment Modules 5 in a user's shell, with no variables preset: site setup, publish, install, doctor."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.stack import CHECKOUT, Done, Stack, run

pytestmark = pytest.mark.stack

PAGE = CHECKOUT / "docs" / "how-to" / "environment-modules.md"


@dataclass(frozen=True)
class Machine:
    """A machine with Environment Modules 5, in whose shell Lmod may have been initialized before."""

    stack: Stack
    home: Path
    was_lmod: bool

    @property
    def catalogue(self) -> Path:
        return self.home / "shop"

    def __call__(self, snippet: str) -> Done:
        before = f"source {self.stack.lmod_init}\n" if self.was_lmod else ""
        init = f'eval "$(tclsh {self.stack.modulecmd} bash autoinit)"\n'
        own = {"HPCMOD_SITE": "generic", "EASYBUILD_PREFIX": str(self.home / "mine"), "PYTHONOPTIMIZE": "0"}
        env = self.stack.environment(self.home, **own)
        return run(["bash", "--norc", "-c", f"{before}{init}{snippet}"], env, self.home)

    def does(self, snippet: str) -> Done:
        done = self(snippet)
        assert done.returncode == 0, done.stdout + done.stderr
        return done


@pytest.fixture(scope="module")
def machine(stack: Stack, tiny_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with a catalogue, hpcmod's own module, and one published container."""
    made = Machine(stack, tmp_path_factory.mktemp("modules5"), was_lmod=False)
    shutil.copy(tiny_sif, made.home / "toy.sif")
    made.does(f"hpcmod catalogue init {made.catalogue} && hpcmod site setup --catalogue {made.catalogue}")
    made.does(
        f"module use {made.catalogue}/site/modules && module load hpcmod && "
        "hpcmod publish toy.sif --name Toy --version 1.0 --check 'python -c 1' --no-slurm"
    )
    yield made


def test_published_modules_load(machine: Machine) -> None:
    done = machine.does(f"module use {machine.catalogue}/modules/all && module load Toy && python -c 'print(6 * 7)'")
    assert done.stdout.splitlines()[-1] == "42"


def test_a_shell_that_had_lmod_before_publishes_and_loads(machine: Machine) -> None:
    switched = replace(machine, was_lmod=True)
    switched.does(
        f"export HPCMOD_CATALOGUE={machine.catalogue}; "
        "hpcmod publish toy.sif --name Toy --version 1.1 --check 'python -c 1' --no-slurm"
    )
    assert (machine.catalogue / "modules/all/Toy/1.1").read_text().startswith("#%Module")
    switched.does(f"module use {machine.catalogue}/modules/all && module load Toy/1.1 && python -c 1")


def test_the_module_of_hpcmod_tells_eb_the_tool_and_the_syntax(machine: Machine) -> None:
    use = f"module use {machine.catalogue}/site/modules"
    show = 'echo "$EASYBUILD_MODULES_TOOL $EASYBUILD_MODULE_SYNTAX"'
    snippet = f"{use}; module load hpcmod; {show}; module unload hpcmod; {show}"
    assert machine.does(snippet).stdout.splitlines() == ["EnvironmentModules Tcl", " "]
    kept = machine.does(f"export EASYBUILD_MODULES_TOOL=Own; {snippet}")
    assert kept.stdout.splitlines() == ["Own Tcl", "Own "]


def test_a_user_installs_with_hpcmod_and_with_a_plain_eb(machine: Machine) -> None:
    setup = f"module use {machine.catalogue}/site/modules && module load hpcmod"
    machine.does(f"{setup} && hpcmod install --rebuild Toy && eb --rebuild Toy-1.0.eb")
    assert (machine.home / "mine/modules/all/Toy/1.0").read_text().startswith("#%Module")
    shown = machine.does('eval "$(hpcmod site env)"; eb --show-config').stdout
    assert re.search("modules-tool .* = EnvironmentModules", shown)


def test_doctor_says_which_tool_there_is_and_what_a_plain_eb_lacks(machine: Machine) -> None:
    def findings(before: str) -> dict[str, dict[str, str]]:
        done = machine(f"{before}hpcmod doctor --json")
        return {one["subject"]: one for one in json.loads(done.stdout)["findings"]}

    plain = findings("")
    assert plain["module tool"]["found"] == f"EnvironmentModules, {machine.stack.modulecmd}"
    assert (plain["module tool of eb"]["level"], "hpcmod site env" in plain["module tool of eb"]["cure"]) == (
        "warn",
        True,
    )
    assert findings('eval "$(hpcmod site env)"; ')["module tool of eb"]["level"] == "ok"
    wrong = findings("export EASYBUILD_MODULES_TOOL=Lmod; ")["module tool of eb"]
    assert (wrong["level"], wrong["cure"].startswith("unset ")) == ("fail", True)
    machine = replace(machine, was_lmod=True)
    loaded = findings(f"module use {machine.catalogue}/site/modules; module load hpcmod; ")
    assert loaded["module tool"]["found"].startswith("EnvironmentModules, ")
    assert loaded["module tool of eb"]["found"] == "EnvironmentModules, Tcl"


def test_the_page_names_no_command_that_fails(machine: Machine) -> None:
    """Run the commands of the page with its paths and images replaced by those of this machine."""
    places = {"/appl/containers": str(machine.home / "page"), "pytorch.sif": "toy.sif", "PyTorch": "Page"}
    blocks = re.findall(r"^ *```console\n(.*?)^ *```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    text = "".join(blocks)
    for shown, real in places.items():
        text = text.replace(shown, real)
    done = machine.does("set -e\n" + text.replace("hpcmod publish", "hpcmod publish --no-slurm"))
    assert len(blocks) == 5
    assert f"EnvironmentModules, {machine.stack.modulecmd}" in done.stdout
