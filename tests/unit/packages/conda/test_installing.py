"""Installing the conda packages of a plan into the virtual environment of a state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, VerificationError
from hpcmod.packages.conda import installing
from hpcmod.packages.conda.image import CondaImage
from hpcmod.packages.conda.installing import install_conda
from hpcmod.packages.values.conda import NO_CONDA, CondaPart
from hpcmod.packages.values.plan import PackageChange, StatePlan, make_state_plan
from hpcmod.packages.values.state import State
from tests.conda_channel import dist_info, index_channel, make_conda
from tests.package_states import TARGET, make_state

pytestmark = pytest.mark.slow

OF_CONDA = CondaImage(
    "linux-64",
    "2.31",
    (
        {"name": "python", "version": "3.12.1", "build": "h0_0", "build_number": 0, "subdir": "linux-64"}
        | {"depends": [], "constrains": []},
    ),
    ("/opt/env/lib/libz.so.1",),
)
NOW = "2026-02-02T00:00:00Z"


@pytest.fixture
def channel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A channel for an image whose Python comes from conda."""
    monkeypatch.setattr(installing, "read_conda_image", lambda *_: OF_CONDA)
    path = tmp_path / "channel"
    for name, version in (("pure", "1.0"), ("torch", "2.0")):
        files = {f"site-packages/{name}.py": "", **dist_info(name, version)}
        make_conda(path, name, version, files, depends=["python"], python=True)
    index_channel(path)
    return path


def plan_of(channel: Path, *specs: str, parent: State | None = None, **more: object) -> StatePlan:
    part = replace(CondaPart(specs, (channel.as_uri(),)), **more)  # type: ignore[arg-type]
    return make_state_plan(TARGET, PackageChange(conda=part), number=1, parent=parent)


def install(tmp_path: Path, plan: StatePlan, name: str = "1") -> StatePlan:
    venv, scratch = tmp_path / name / "venv", tmp_path / name / "scratch"
    (venv / "bin").mkdir(parents=True)
    scratch.mkdir()
    return install_conda(plan, venv, scratch, NOW)


def test_what_was_installed_is_in_the_plan_and_constrains_pip(tmp_path: Path, channel: Path) -> None:
    plan = install(tmp_path, plan_of(channel, "pure"))
    (one,) = plan.conda.packages
    assert (one.name, one.since, plan.conda.exact) == ("pure", NOW, False)
    assert plan.constraints[-1] == "pure==1.0"
    assert (tmp_path / "1/venv/lib/libz.so.1").readlink() == Path("/opt/env/lib/libz.so.1")
    assert install(tmp_path, replace(plan, conda=NO_CONDA), "2").conda == NO_CONDA


def test_a_python_package_of_the_image_is_not_replaced_silently(tmp_path: Path, channel: Path) -> None:
    with pytest.raises(BadInputError, match=r"torch 2\.0 \(the image has 2\.7\.1\+rocm6\.2\.4\)") as caught:
        install(tmp_path, plan_of(channel, "torch"))
    assert "--allow-replace torch" in caught.value.cure
    plan = replace(plan_of(channel, "torch"), allowed=("torch",))
    assert [one.name for one in install(tmp_path, plan, "2").conda.packages] == ["torch"]


def test_a_lock_needs_no_index_and_refuses_another_file(tmp_path: Path, channel: Path) -> None:
    locked = install(tmp_path, plan_of(channel, "pure")).conda
    for index in channel.rglob("repodata*"):
        index.unlink()
    exact = plan_of(channel, "pure", packages=locked.packages, exact=True)
    again = install(tmp_path, exact, "2").conda
    assert again.packages == tuple(replace(one, since=NOW) for one in locked.packages)
    make_conda(channel, "pure", "1.0", {"site-packages/pure.py": "evil = True"}, depends=["python"], python=True)
    with pytest.raises(VerificationError, match="expected sha256"):
        install(tmp_path, exact, "3")


def test_a_channel_that_changes_is_noticed(tmp_path: Path, channel: Path) -> None:
    """Both between reading its index and the download, and between two installations."""
    before = install(tmp_path, plan_of(channel, "pure")).conda
    files = {"site-packages/pure.py": "evil = True", **dist_info("pure", "1.0")}
    make_conda(channel, "pure", "1.0", files, depends=["python"], python=True)
    with pytest.raises(VerificationError, match="changed after the channel was indexed"):
        install(tmp_path, plan_of(channel, "pure"), "2")
    index_channel(channel)
    with pytest.raises(VerificationError, match="the channel serves other files than when you added"):
        install(tmp_path, plan_of(channel, "pure", parent=make_state(conda=before)), "3")
