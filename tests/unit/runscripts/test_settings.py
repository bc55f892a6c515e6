"""The settings of a site reach every command: by run-in-env, by wrappers, and by the runtime with any command."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.modules.values.plan import RunscriptSettings
from tests.unit.runscripts.scripts import SYSTEM_PATH, Ran, Scripts, make_program, task
from tests.unit.runscripts.test_launchers import flux, mpich, openmpi, pals

pytestmark = pytest.mark.slow

NAMES = ("NCCL_SOCKET_IFNAME", "FI_OF_MANY", "FI_OF_ONE")
STARTERS = ["run-in-env", "wrapper", "singularity exec bash", "apptainer run", "start-shell"]


class Started:
    """Runs a command in each way, with a fake runtime that shows its environment."""

    def __init__(self, scripts: Scripts, top: Path) -> None:
        self.scripts = scripts
        self.sif = top / "x.sif"
        self.sif.touch()
        for name in ("singularity", "apptainer", "all_reduce_perf"):
            make_program(top / "tools" / name)
        self.path = f"{top / 'tools'}:{SYSTEM_PATH}"

    def __call__(self, way: str, env: dict[str, str]) -> Ran:
        name, *words = {
            "run-in-env": ["run-in-env", "all_reduce_perf"],
            "wrapper": ["python", "x.py"],
            "singularity exec bash": ["singularity", "exec", str(self.sif), "bash", "-c", "python x.py"],
            "apptainer run": ["apptainer", "run", str(self.sif)],
            "start-shell": ["start-shell"],
        }[way]
        return self.scripts(name, *words, env={"SIFPYTORCH": str(self.sif), **env}, path=self.path)


@pytest.fixture
def started(tmp_path: Path, settings: RunscriptSettings) -> Started:
    chosen = settings.tunables._replace(multi_node=(("FI_OF_MANY", "5"),), single_node=(("FI_OF_ONE", "1"),))
    own = settings._replace(tunables=chosen)
    return Started(Scripts(tmp_path).write(own), tmp_path)


def seen(ran: Ran) -> tuple[str | None, ...]:
    assert ran.status == 0, ran.stderr
    return tuple(ran.environment.get(name) for name in NAMES)


@pytest.mark.parametrize("way", STARTERS)
def test_settings_for_the_number_of_nodes_reach_every_program(started: Started, way: str) -> None:
    assert seen(started(way, task(0, (1, 1)))) == ("hsn0,hsn1", "5", None)
    assert seen(started(way, task(0, (2,)))) == ("hsn0,hsn1", None, "1")
    assert seen(started(way, {})) == ("hsn0,hsn1", None, "1")


@pytest.mark.parametrize("way", STARTERS)
@pytest.mark.parametrize("value", ["9", ""])
def test_a_value_of_the_users_wins(started: Started, way: str, value: str) -> None:
    env = task(0, (1, 1), FI_OF_MANY=value, NCCL_SOCKET_IFNAME=value)
    assert seen(started(way, env)) == (value, value, None)


@pytest.mark.parametrize(
    ("env", "several"),
    [
        pytest.param(openmpi(0, 4, 8), True, id="Open MPI"),
        pytest.param(openmpi(0, 4, 4), False, id="Open MPI on one node"),
        pytest.param(mpich(0, 4, 8), True, id="MPICH"),
        pytest.param(pals(0, 4, 8), True, id="PALS"),
        pytest.param(flux(0, 2, 8), True, id="Flux"),
        pytest.param({"SLURM_NNODES": "2"}, True, id="a batch script of two nodes"),
    ],
)
def test_several_nodes_are_known_by_any_launcher(started: Started, env: dict[str, str], several: bool) -> None:
    assert (seen(started("run-in-env", env))[1] == "5") is several


def test_the_runtime_without_the_module_gets_no_settings(started: Started) -> None:
    ran = started.scripts("singularity", "exec", "other.sif", "true", path=started.path)
    assert not set(NAMES) & set(ran.environment)
