from __future__ import annotations

import grp
import os
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.machine.values.site import Site
from hpcmod.machine.values.tables import Images
from hpcmod.modules.own_place import choose_prefix, configured_places, own_module_trees, own_prefixes

ALICE = {"USER": "alice", "HOME": "/nowhere"}


def site_with(*places: object) -> Site:
    return Site("here", images=Images(places=tuple(map(str, places))))


def test_private_copies_go_to_the_first_place_that_can_be_written_to(tmp_path: Path) -> None:
    site = site_with("/nonexistent", tmp_path)
    assert choose_prefix(site, ALICE) == tmp_path / "alice" / "easybuild"


def test_a_place_of_the_users_own_gets_no_second_directory_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "alice").mkdir()
    site = site_with(f"{tmp_path}/$USER")
    assert choose_prefix(site, ALICE) == tmp_path / "alice" / "easybuild"


def test_a_place_with_an_unset_variable_is_skipped(tmp_path: Path) -> None:
    assert choose_prefix(site_with("/project/$PROJECT"), ALICE) is None


@pytest.fixture
def projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with one subdirectory per project; the user belongs to two projects."""
    groups = {1: "project_1", 2: "project_2"}
    monkeypatch.setattr(os, "getgroups", lambda: list(groups))
    monkeypatch.setattr(grp, "getgrgid", lambda number: grp.struct_group((groups[number], "x", number, [])))
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path)
    (tmp_path / "project_1").mkdir()
    return tmp_path


def test_the_directory_of_a_project_is_found_by_its_group(projects: Path) -> None:
    assert choose_prefix(site_with(projects), ALICE) == projects / "project_1" / "alice" / "easybuild"


def test_with_several_projects_the_user_is_asked(projects: Path) -> None:
    (projects / "project_2").mkdir()
    with pytest.raises(BadInputError, match=r"(?s)several directories.*project_1.*project_2") as caught:
        choose_prefix(site_with(projects), ALICE)
    assert f"--prefix {projects}/project_1/alice/easybuild" in caught.value.cure


def test_chooses_the_project_that_is_already_used(projects: Path) -> None:
    used = projects / "project_2" / "alice" / "easybuild"
    (used / "modules" / "all").mkdir(parents=True)
    site = site_with(projects)
    assert choose_prefix(site, ALICE) == used
    assert own_module_trees(site, ALICE) == (used / "modules" / "all",)
    assert len(list(own_prefixes(site, ALICE))) == 2


@pytest.mark.parametrize("name", ["EASYBUILD_PREFIX", "EASYBUILD_INSTALLPATH", "EASYBUILD_INSTALLPATH_SOFTWARE"])
def test_the_users_easybuild_settings_win(tmp_path: Path, name: str) -> None:
    assert choose_prefix(site_with(tmp_path), {**ALICE, name: str(tmp_path / "mine")}) is None


def test_a_configuration_file_of_easybuild_wins(tmp_path: Path) -> None:
    config = tmp_path / "config.cfg"
    config.write_text("[config]\nprefix = /mine\n")
    assert choose_prefix(site_with(tmp_path), {**ALICE, "EASYBUILD_CONFIGFILES": str(config)}) is None


def test_a_prefix_on_the_command_line_wins_over_all(tmp_path: Path) -> None:
    asked = choose_prefix(site_with(tmp_path), {**ALICE, "EASYBUILD_PREFIX": "/mine"}, asked=tmp_path / "asked")
    assert asked == tmp_path / "asked"


def test_a_prefix_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path)  # root can write anywhere
    with pytest.raises(LackingError, match=f"you cannot write to {tmp_path}") as caught:
        choose_prefix(Site("here"), ALICE, asked=tmp_path / "x/y")
    assert "--prefix DIRECTORY" in caught.value.cure
    for name in ("EASYBUILD_PREFIX", "EASYBUILD_INSTALLPATH"):
        with pytest.raises(LackingError, match=rf"below {tmp_path}/x/software \({name}\): you cannot write to "):
            choose_prefix(Site("here"), {**ALICE, name: str(tmp_path / "x")})
    (tmp_path / "file").touch()
    with pytest.raises(LackingError, match="file is not a directory"):
        choose_prefix(Site("here"), ALICE, asked=tmp_path / "file/x")
    (tmp_path / "mine").mkdir()
    assert choose_prefix(Site("here"), ALICE, asked=tmp_path / "mine/x") == tmp_path / "mine/x"


@pytest.mark.parametrize(
    ("environ", "places"),
    [
        pytest.param({}, None, id="default"),
        pytest.param({"EASYBUILD_PREFIX": "/p"}, ("/p/software", "/p/modules"), id="prefix"),
        pytest.param(
            {"EASYBUILD_PREFIX": "/p", "EASYBUILD_INSTALLPATH": "/i"}, ("/i/software", "/i/modules"), id="installpath"
        ),
        pytest.param(
            {"EASYBUILD_INSTALLPATH_SOFTWARE": "/s", "EASYBUILD_INSTALLPATH_MODULES": "/m"}, ("/s", "/m"), id="each"
        ),
        pytest.param({"EASYBUILD_INSTALLPATH_SOFTWARE": "/s"}, None, id="one"),
        pytest.param({"EASYBUILD_PREFIX": "relative"}, None, id="relative"),
        pytest.param({"EASYBUILD_PREFIX": "/p", "EASYBUILD_SUBDIR_SOFTWARE": "x"}, None, id="more"),
    ],
)
def test_the_places_that_variables_of_easybuild_choose(environ: dict[str, str], places: tuple[str, str] | None) -> None:
    assert configured_places(None, environ) == (places and tuple(map(Path, places)))
