"""A recorded verdict holds until something changes that it depends on; then the image is read again."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcmod.compat import recorded_fit
from hpcmod.compat.recorded_fit import explain_module, find_recorded, fingerprint
from hpcmod.compat.values.mpi import MPICH
from hpcmod.machine.values.bind import Bind
from hpcmod.machine.values.site import Site
from hpcmod.machine.values.tables import Network, SiteBinds
from hpcmod.modules.installed import Installed, find_in_trees
from hpcmod.modules.values.install_record import Fit
from tests.calls import hpcmod
from tests.stacks import make_stack
from tests.unit.compat.test_fit import GOOD, checked, install, own_home, record_fit

__all__ = ["own_home"]

SITE = Site("here", network=Network(interfaces=("hsn0",)))


def made(tmp_path: Path, **change: Any) -> Installed:
    """An image that `SITE` warns about, installed with the verdict in its record."""
    image = make_stack(tmp_path / "good.sif", GOOD)
    install(tmp_path, "Torch/1", image)
    record_fit(tmp_path, "Torch/1", checked(image, SITE, **change))
    found = next(find_in_trees([tmp_path / "modules"], "Torch/1"), None)
    assert found is not None
    return found


def test_a_recorded_verdict_is_what_reading_the_image_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = made(tmp_path)
    fit = find_recorded(installed, SITE, {})
    assert fit is not None and fit.mpi == MPICH
    site = tmp_path / "here.toml"
    site.write_text('name = "here"\n[network]\ninterfaces = ["hsn0"]\n')
    monkeypatch.setenv("HPCMOD_SITE", str(site))
    monkeypatch.setenv("MODULEPATH", str(tmp_path / "modules"))
    told = hpcmod("job", "Torch/1", "--", "python", "-V")
    assert told.exit_code == 0, told.output
    lines = list(explain_module(installed, SITE, {}))
    assert len(lines) == 2
    assert [line for line in told.stderr.splitlines() if ": warn: " in line] == [f"hpcmod: {line}" for line in lines]


def newer(installed: Installed) -> None:
    image = Path(installed.image.path)
    os.utime(image, ns=(1, image.stat().st_mtime_ns + 1))


@pytest.mark.parametrize(
    ("change", "site", "environ"),
    [
        pytest.param(newer, SITE, {}, id="the image"),
        pytest.param(lambda one: Path(one.image.path).unlink(), SITE, {}, id="no image"),
        pytest.param(None, SITE._replace(network=Network()), {}, id="the profile"),
        pytest.param(None, SITE, {"APPTAINER_BIND": "/usr/share"}, id="a bind of the user"),
    ],
)
def test_after_a_change_a_recorded_verdict_no_longer_holds(
    tmp_path: Path, change: Callable[[Installed], None] | None, site: Site, environ: dict[str, str]
) -> None:
    installed = made(tmp_path)
    if change:
        change(installed)
    assert find_recorded(installed, site, environ) is None


def test_an_unknown_mpi_in_a_record_is_no_verdict(tmp_path: Path) -> None:
    installed = made(tmp_path)
    other = replace(installed.record, fit=replace(installed.record.fit, mpi="unknown"))
    assert find_recorded(replace(installed, record=other), SITE, {}) is None


def test_changes_of_the_host_change_the_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image, tree = tmp_path / "a.sif", tmp_path / "libraries"
    image.write_bytes(b"image")
    gpu = "sys/class/kfd/kfd/topology/nodes/1"
    for name in ("etc", "proc/driver/nvidia", "libraries", gpu):
        (tmp_path / name).mkdir(parents=True)
    site = Site("here", binds=SiteBinds(optional=((Bind(str(tree)),),)))
    steps: list[Callable[[], object]] = [
        lambda: (tmp_path / "etc/ld.so.cache").write_bytes(b"cache"),
        lambda: (tmp_path / "proc/driver/nvidia/version").write_text("550"),
        lambda: (tmp_path / "proc/driver/nvidia/version").write_text("560"),
        lambda: (tmp_path / "sys/class/cxi").mkdir(),
        lambda: (tmp_path / gpu / "properties").write_text("simd_count 440\ngfx_target_version 90010\n"),
        lambda: (tree / "libfabric.so.1").write_bytes(b""),
        lambda: tree.rename(tmp_path / "elsewhere"),
    ]
    seen = [fingerprint(image, site, {}, root=tmp_path)]
    assert seen == [fingerprint(image, site, {}, root=tmp_path)]
    for step in steps:
        step()
        seen.append(fingerprint(image, site, {}, root=tmp_path))
    monkeypatch.setattr(recorded_fit, "__version__", "2")
    seen.append(fingerprint(image, site, {}, root=tmp_path))
    assert len(set(seen)) == len(steps) + 2


def test_an_installation_with_binds_of_its_own_records_no_verdict(tmp_path: Path) -> None:
    installed = made(tmp_path, binds=(Bind("/usr/share"),))
    assert installed.record.fit == Fit(has_mpi=True)
