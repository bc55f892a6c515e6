from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core import resources
from hpcmod.core.errors import NotFoundError
from hpcmod.modules.values.install_record import RUNSCRIPTS


def make_package(package: Path) -> Path:
    """Create the directory of an installed or checked-out hpcmod, with one run script of its own."""
    (package / "runscripts").mkdir(parents=True)
    (package / "runscripts" / "get-master").write_text("installed")
    return package


def test_finds_a_template_for_every_run_script_of_this_checkout() -> None:
    assert {*RUNSCRIPTS, "libexec/wrapper", "lib/settings.bash.j2"} <= set(resources.runscript_files())


def test_finds_the_site_profiles_by_name() -> None:
    assert {"generic", "lumi"} <= set(resources.site_profiles())


def test_takes_the_run_scripts_of_the_checkout_it_is_part_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "_PACKAGE", make_package(tmp_path / "src" / "hpcmod"))
    (tmp_path / "setup.cfg").touch()
    (tmp_path / "runscripts").mkdir()
    (tmp_path / "runscripts" / "get-master").write_text("of the checkout")
    assert resources.runscript_files() == {"get-master": "of the checkout"}


@pytest.mark.parametrize(
    "place",
    [pytest.param("lib/python3/site-packages/hpcmod", id="pip install"), pytest.param("src/hpcmod", id="-t src")],
)
def test_an_unrelated_runscripts_directory_is_not_a_checkout(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = make_package(tmp_path / place)
    monkeypatch.setattr(resources, "_PACKAGE", package)
    (package.parent.parent / "runscripts").mkdir()
    (package.parent.parent / "runscripts" / "get-master").write_text("by chance")
    assert resources.runscript_files() == {"get-master": "installed"}


def test_an_installation_without_its_data_says_where_it_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "hpcmod")
    with pytest.raises(NotFoundError, match=str(tmp_path / "hpcmod" / "runscripts")) as caught:
        resources.runscript_files()
    assert caught.value.cure
