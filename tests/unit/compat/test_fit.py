from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.compat.compat import name_mpi
from hpcmod.compat.fit import check_fit, check_fits
from hpcmod.compat.recorded_fit import find_image_mpi
from hpcmod.compat.values.mpi import HOST, MPICH, OPEN_MPI_4, OPEN_MPI_5
from hpcmod.compat.values.stack import MPICH as MPICH_FAMILY
from hpcmod.compat.values.stack import OPEN_MPI, STANDARD, Mpi, StackFacts
from hpcmod.compat.values.verdict import Case, HostFacts
from hpcmod.core.errors import CheckFailedError
from hpcmod.core.values.finding import FAIL, OK, WARN
from hpcmod.core.values.json_form import json_form
from hpcmod.machine.values.site import Site
from hpcmod.machine.values.tables import Gpus, Network
from hpcmod.modules.installed import Installed
from hpcmod.modules.values.install_record import Fit, InstalledImage, InstallRecord
from hpcmod.modules.values.plan import make_plan
from hpcmod.modules.values.spec import InstallSpec
from tests.calls import hpcmod
from tests.catalogues import make_catalogue, make_record
from tests.stacks import Stubs, fabric, glibc, make_stack, mpich, open_mpi, plugin

GOOD = {**glibc(), **fabric("22.1"), **plugin("FABRIC_1.3"), **mpich()}
BAD = {**glibc(), **fabric("20.0"), **mpich("12.3.1", ("libfabric.so.1", "FABRIC_1.8"))}
ENV = "/.singularity.d/env/90-environment.sh"
SITE = Site("here")
SLINGSHOT = 'name = "here"\n[network]\ninterfaces = ["hsn0"]\n'
OMPI5 = Mpi("/usr/lib/libmpi.so.40", "libmpi.so.40", OPEN_MPI)
OMPI4 = replace(OMPI5, has_orte=True)
CH = Mpi("/usr/lib/libmpi.so.12", "libmpi.so.12", MPICH_FAMILY)
CRAY = Mpi("/host/lib/libmpi.so.12", "libmpi.so.12", MPICH_FAMILY)


@pytest.fixture(autouse=True)
def own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def images(tmp_path: Path) -> tuple[Path, Path]:
    return make_stack(tmp_path / "good.sif", GOOD), make_stack(tmp_path / "bad.sif", BAD)


def install(tree: Path, module: str, image: Path) -> None:
    """Create a minimal installation: a modulefile that starts like ours, and the record of its image."""
    root = tree / "software" / module
    root.mkdir(parents=True)
    (root / "record.json").write_text(json.dumps({"image": {"path": str(image)}}))
    modulefile = tree / "modules" / f"{module}.lua"
    modulefile.parent.mkdir(parents=True, exist_ok=True)
    modulefile.write_text(f'-- Written by hpcmod.\nlocal root = "{root}"\n')


def checked(image: Path, site: Site = SITE, *, tell: Callable[[str], None] = print, **change: object) -> Fit:
    """Check the installation of an image into its own directory."""
    spec = InstallSpec(
        name="X", module="X/1", variable="X", root=str(image.parent), image=image.name, easyconfig="x.eb"
    )
    plan = make_plan(None, site, replace(spec, **change))  # type: ignore[arg-type]
    return check_fit(plan, {}, warn=tell)


def record_fit(tree: Path, module: str, fit: Fit) -> None:
    """Note a verdict in the record of an installation."""
    record = tree / "software" / module / "record.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "fit": json_form(fit)}))


def test_an_installation_is_refused_with_the_reason_the_cure_and_a_way_round(tmp_path: Path) -> None:
    good, bad = images(tmp_path)
    said: list[str] = []
    for image in (good, tmp_path / "not-here.sif"):
        checked(image, tell=said.append)
    assert said == []
    with pytest.raises(CheckFailedError, match=r"does not define FABRIC_1\.8") as caught:
        checked(bad)
    assert f"hpcmod compat {bad}" in caught.value.cure
    assert "--skip-sanity-check" in caught.value.cure


def test_possible_problems_are_warnings_for_an_installation(tmp_path: Path) -> None:
    image, _ = images(tmp_path)
    said: list[str] = []
    checked(image, Site("here", network=Network(interfaces=("hsn0",))), tell=said.append)
    assert [line.partition(":")[0] for line in said] == ["slingshot", "slingshot"]


def test_doctor_looks_at_the_images_named_or_at_those_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = images(tmp_path)
    named = list(check_fits((good, bad, tmp_path / "none.sif"), {}))
    assert [one.level for one in named] == [OK, FAIL, FAIL]
    assert named[1].subject == f"image {bad}"
    install(tmp_path, "Torch/1", good)
    install(tmp_path, "Torch/2", bad)
    install(tmp_path, "Torch/3", bad)
    found = list(check_fits((), {"MODULEPATH": str(tmp_path / "modules")}))
    assert [(one.subject, one.level) for one in found] == [("image Torch/1", OK), ("image Torch/2", FAIL)]
    monkeypatch.setattr("os.access", lambda path, mode: path != bad)
    monkeypatch.setattr("os.getuid", lambda: -1)
    (readable,) = check_fits((), {"MODULEPATH": str(tmp_path / "modules")})
    assert readable.subject == "image Torch/1", "the other one is kept for a group"
    monkeypatch.undo()
    site = tmp_path / "site.toml"
    site.write_text(SLINGSHOT)
    (warned,) = check_fits((good,), {"HPCMOD_SITE": str(site)})
    assert (warned.level, "TCP" in warned.found) == (WARN, True)


def test_hpcmod_job_tells_it_on_stderr_and_writes_the_script_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = images(tmp_path)
    install(tmp_path, "Torch/10", bad)
    monkeypatch.setenv("MODULEPATH", str(tmp_path / "modules"))
    told = hpcmod("job", "Torch/10", "--", "train.py")
    assert (told.exit_code, told.stdout.startswith("#!/bin/bash")) == (0, True)
    assert "Torch/10: fail: " in told.stderr
    install(tmp_path, "Torch/9", good)
    assert "fail: " not in hpcmod("job", "Torch/9", "--", "train.py").stderr
    other = hpcmod("job", "--site", "generic", "Torch/10", "--", "train.py")
    assert "fail: " not in other.stderr


def test_a_job_names_the_published_variant_for_the_gpus_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = make_stack(tmp_path / "a.sif", {**glibc(), ENV: "export PYTORCH_ROCM_ARCH=gfx942\n"})
    records = (make_record(f"Torch/2.7-{target}", targets=(target,)) for target in ("gfx90a", "gfx942"))
    monkeypatch.setenv("HPCMOD_CATALOGUE", str(make_catalogue(tmp_path / "site", *records).directory))
    monkeypatch.setenv("MODULEPATH", str(tmp_path / "modules"))
    profile = tmp_path / "here.toml"
    profile.write_text('name = "here"\n[gpu]\ntargets = ["gfx90a"]\n')
    monkeypatch.setenv("HPCMOD_SITE", str(profile))
    for module in ("Torch/2.7-gfx942", "Only/1"):
        install(tmp_path, module, image)
        record_fit(tmp_path, module, checked(image, Site("here", gpu=Gpus(targets=("gfx90a",))), module=module))
    lines = hpcmod("job", "Torch/2.7-gfx942", "--", "train.py").stderr.splitlines()
    assert [line for line in lines if "warn: " in line and "built for gfx942, the GPUs here are gfx90a" in line]
    better = "hpcmod: Torch/2.7-gfx942 is not built for the GPUs here (gfx90a); Torch/2.7-gfx90a is"
    assert [line for line in lines if "; Torch/" in line] == [better]
    assert "; Torch/" not in hpcmod("job", "Only/1", "--", "train.py").stderr


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
    record = InstallRecord(image=InstalledImage(str(image)), fit=Fit(has_mpi=recorded))
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
    done = hpcmod("job", "--site", profile, "Torch/1", "--", "train.py")
    assert done.exit_code == 0, done.output
    assert [word for word in done.stdout.split() if word.startswith("--mpi")] == [flag]
