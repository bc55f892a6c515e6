"""Detecting the MPI of an image, which srun must know."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcmod.check.image_mpi import find_image_mpi, name_mpi
from hpcmod.cli.main import main
from hpcmod.install.installed import Installed
from hpcmod.model.compat.stack import MPICH as MPICH_FAMILY
from hpcmod.model.compat.stack import OPEN_MPI, STANDARD, Mpi, StackFacts
from hpcmod.model.compat.verdict import Case, HostFacts
from hpcmod.model.jobs.mpi import HOST, MPICH, OPEN_MPI_4, OPEN_MPI_5
from hpcmod.model.site import Site
from tests.stacks import Stubs, fabric, glibc, make_stack, mpich, open_mpi
from tests.unit.check.test_fit import install

OMPI5 = Mpi("/usr/lib/libmpi.so.40", "libmpi.so.40", OPEN_MPI)
OMPI4 = replace(OMPI5, has_orte=True)
CH = Mpi("/usr/lib/libmpi.so.12", "libmpi.so.12", MPICH_FAMILY)
CRAY = Mpi("/host/lib/libmpi.so.12", "libmpi.so.12", MPICH_FAMILY)


@pytest.mark.parametrize(
    ("own", "host", "name"),
    [
        pytest.param(OMPI5, (), OPEN_MPI_5, id="Open MPI 5"),
        pytest.param(OMPI4, (CRAY,), OPEN_MPI_4, id="Open MPI 4, for which Cray MPICH cannot stand in"),
        pytest.param(CH, (), MPICH, id="MPICH"),
        pytest.param(CH, (CRAY,), HOST, id="Cray MPICH in the place of MPICH"),
        pytest.param(replace(CH, family=STANDARD), (), "", id="the standard ABI"),
        pytest.param(None, (CRAY,), "", id="no MPI"),
    ],
)
def test_an_image_s_mpi_has_a_name(own: Mpi | None, host: tuple[Mpi, ...], name: str) -> None:
    image = StackFacts(mpis=(own,) if own else ())
    assert name_mpi(Case(image, replace(HostFacts(), mpis=host), Site("ours"), (), ())) == name


@pytest.mark.parametrize(("recorded", "name"), [(None, MPICH), (True, MPICH), (False, "")])
def test_the_image_is_not_read_if_the_record_says_that_it_has_no_mpi(
    tmp_path: Path, recorded: bool | None, name: str
) -> None:
    image = make_stack(tmp_path / "a.sif", {**glibc(), **mpich()})
    record = {"image": {"path": str(image)}, **({} if recorded is None else {"has_mpi": recorded})}
    installed = Installed("Torch/1", tmp_path / "Torch/1.lua", tmp_path, record)
    assert find_image_mpi(installed, Site("ours"), {}) == name


@pytest.mark.parametrize(
    ("stubs", "flag"),
    [
        pytest.param(open_mpi(orte=False), "--mpi=pmix", id="Open MPI 5"),
        pytest.param(mpich(), "--mpi=pmi2", id="MPICH"),
        pytest.param({}, "--mpi=pmi2", id="no MPI: the flag of the profile"),
    ],
)
def test_a_job_never_starts_open_mpi_5_under_the_pmi2_of_an_older_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stubs: Stubs, flag: str
) -> None:
    image = make_stack(tmp_path / "a.sif", {**glibc(), **fabric("22.1"), **stubs})
    install(tmp_path, "Torch/1", image)
    profile = tmp_path / "ours.toml"
    profile.write_text(
        'name = "ours"\nextends = "generic"\n[launcher]\nsrun = ["--mpi=pmi2"]\nmpi = ["pmi2", "pmix"]\n'
    )
    monkeypatch.setenv("MODULEPATH", str(tmp_path / "modules"))
    done = CliRunner().invoke(main, ["job", "--site", str(profile), "Torch/1", "--", "train.py"])
    assert done.exit_code == 0, done.output
    assert [word for word in done.stdout.split() if word.startswith("--mpi")] == [flag]


def test_a_module_that_is_not_installed_has_none() -> None:
    assert find_image_mpi(None, Site("ours"), {}) == ""
