"""What hpcmod 1.0.0, as it is in the history of git, installed and published, with today's hpcmod."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hpcmod import __version__
from tests.stack import Done, ModuleTool, Stack, run

pytestmark = pytest.mark.stack

FIRST = "1.0.0"
OWN, PUBLISHED = "Own/1.0", "Pub/1.0"


@dataclass(frozen=True)
class Machine:
    """A machine with a catalogue, whose user has a container."""

    stack: Stack
    top: Path

    @property
    def record(self) -> Path:
        return self.top / "own/software" / OWN / "record.json"

    def hpcmod(self, *words: str | Path, first: bool = False) -> Done:
        """Run today's hpcmod, or the first release."""
        python = self.stack.root / "upgrade/bin/python" if first else self.stack.python
        tool = ModuleTool(replace(self.stack, python=python), self.top, "lmod")
        own = {"HPCMOD_CATALOGUE": str(self.top / "shop"), "HPCMOD_SITE": "generic"}
        environ = tool.environment(**own, EASYBUILD_PREFIX=str(self.top / "own"))
        done = run([str(python.parent / "hpcmod"), *map(str, words)], environ, self.top)
        assert done.returncode == 0, f"hpcmod {words}\n{done.stdout}{done.stderr}"
        return done

    def outdated(self) -> dict[str, str]:
        """Return what `hpcmod outdated` says of each module: the kind."""
        listed = json.loads(self.hpcmod("outdated", "--json").stdout)["outdated"]
        return {entry["module"]: entry["kind"] for entry in listed}

    def starts(self, module: str) -> str:
        """Return what a program in the container of a loaded module prints."""
        user = ModuleTool(self.stack, self.top, "lmod")
        places = [self.top / place / "modules/all" for place in ("own", "shop")]
        done = user(f"module load {module} && singularity exec $SIF conda-python-simple -c 'print(40 + 2)'", *places)
        return done.stdout.strip() if done.returncode == 0 else done.stderr


@pytest.fixture(scope="module")
def machine(stack: Stack, tiny_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine where the first release has installed, published and used a container."""
    if not (stack.root / "upgrade/bin/hpcmod").exists():
        pytest.fail(f"hpcmod {FIRST} is not in {stack.root}: run dev/stack upgrade in a clone of the whole repository")
    made = Machine(stack, tmp_path_factory.mktemp("upgrade"))
    assert made.hpcmod("--version", first=True).stdout == f"hpcmod, version {FIRST}\n"
    made.hpcmod("catalogue", "init", made.top / "shop", first=True)
    name, version = PUBLISHED.split("/")
    published = ("publish", tiny_sif, "--name", name, "--version", version, "--alias", "stable", "--no-slurm")
    made.hpcmod(*published, first=True)
    name, version = OWN.split("/")
    made.hpcmod("install", tiny_sif, "--name", name, "--version", version, first=True)
    assert f'"hpcmod": "{FIRST}"' in made.record.read_text()
    yield made


def test_modules_of_the_first_release_load(machine: Machine) -> None:
    assert {machine.starts(module) for module in (OWN, PUBLISHED, "Pub/stable")} == {"42"}


def test_outdated_sees_them_and_update_renews_them(machine: Machine) -> None:
    assert machine.outdated() == ({} if __version__ == FIRST else {OWN: "scripts"})
    if __version__ == FIRST:  # until another number: as a release before it would have written
        machine.record.write_text(machine.record.read_text().replace(f'"hpcmod": "{FIRST}"', '"hpcmod": "0.9"'))
        assert machine.outdated() == {OWN: "scripts"}
    machine.hpcmod("update", "--all")
    assert machine.outdated() == {}
    assert f'"hpcmod": "{__version__}"' in machine.record.read_text()
    machine.hpcmod("verify", OWN)
    assert machine.starts(OWN) == "42"


def test_a_catalogue_of_the_first_release_is_sound_before_and_after_a_refresh(machine: Machine) -> None:
    machine.hpcmod("catalogue", "verify")
    machine.hpcmod("catalogue", "refresh", "--reason", "upgrade of hpcmod")
    again = machine.hpcmod("catalogue", "refresh", "--dry-run")
    assert (again.stdout, "up to date" in again.stderr) == ("", True)
    machine.hpcmod("catalogue", "rebuild")
    machine.hpcmod("catalogue", "verify")
    assert {module["module"] for module in json.loads(machine.hpcmod("ls", "--json").stdout)["containers"]}
    assert {machine.starts(module) for module in (PUBLISHED, "Pub/stable")} == {"42"}
