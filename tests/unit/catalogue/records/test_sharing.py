from __future__ import annotations

import grp
import os
import stat
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from hpcmod.catalogue.records.sharing import find_closed, make_catalogue, shared
from hpcmod.catalogue.records.store import Catalogue, open_catalogue
from hpcmod.core.errors import BadInputError, LackingError
from tests.catalogues import make_record
from tests.unit.catalogue.stage import add, make_shop


def modes(root: Path) -> set[str]:
    """Return the modes of all files of a catalogue, except for locks and files that the test created."""
    mine = ("kept", "software", ".locks", "images")
    return {
        stat.filemode(path.stat().st_mode)
        for path in root.rglob("*")
        if path.relative_to(root).parts[0] not in mine or path.parent == root
    }


@pytest.fixture(params=[0o077, 0o022, 0o000], ids=["umask 077", "umask 022", "umask 000"])
def umask(request: pytest.FixtureRequest) -> object:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_everybody_may_read_and_only_the_owner_write_regardless_of_the_umask(tmp_path: Path) -> None:
    shop = make_shop(tmp_path / "shop", "Toy/1.0")
    assert modes(shop.directory) == {"drwxr-xr-x", "-rw-r--r--"}


@pytest.mark.usefixtures("umask")
def test_a_group_can_change_everything_regardless_of_the_umask(tmp_path: Path) -> None:
    shop = Catalogue(tmp_path / "shop")
    mine = os.getgroups()[-1] if os.getgroups() else os.getgid()
    make_catalogue(shop, group=grp.getgrgid(mine).gr_name)
    add(shop, make_record("Toy/1.0"))
    assert modes(shop.directory) == {"drwxrwsr-x", "-rw-rw-r--"}
    assert {path.stat().st_gid for path in shop.directory.rglob("*")} == {mine}


def test_the_umask_is_given_back(tmp_path: Path) -> None:
    shop = make_shop(tmp_path / "shop")
    before = os.umask(0o077)
    with shared(shop):
        pass
    assert os.umask(before) == 0o077


def test_an_existing_catalogue_is_changed_only_as_reported(tmp_path: Path) -> None:
    shop = make_shop(tmp_path / "shop", "Toy/1.0")
    make_catalogue(replace(shop, counts_use=True))
    assert open_catalogue(shop.directory).counts_use
    assert shop.read("Toy", "1.0").version == "1.0"


def test_a_catalogue_that_was_restored_without_its_group_gets_it_back_as_closed_as_it_was(tmp_path: Path) -> None:
    shop, group = make_shop(tmp_path / "shop"), grp.getgrgid([os.getgid(), *os.getgroups()][-1])
    make_catalogue(replace(shop, mode=0o2770, group=group.gr_name))
    status = shop.directory.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_gid) == (0o2770, group.gr_gid)
    assert replace(shop, mode=0o2770, group=group.gr_name) == open_catalogue(shop.directory)


@pytest.mark.parametrize("name", ["thesis.tex", "records/thesis.tex"])
def test_a_directory_with_other_files_is_left_unchanged(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    with pytest.raises(BadInputError, match="this directory is not empty"):
        make_catalogue(Catalogue(tmp_path))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / name]


def test_an_interrupted_init_is_finished_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "modules" / "all").mkdir(parents=True)
    make_catalogue(Catalogue(tmp_path))
    assert open_catalogue(tmp_path).records_directory.is_dir()


def test_a_second_admin_may_give_it_to_the_group_that_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop, group = make_shop(tmp_path / "shop"), grp.getgrgid(os.getgid()).gr_name
    monkeypatch.setattr(os, "chown", refuse := Mock(side_effect=PermissionError(1, "Operation not permitted")))
    with pytest.raises(LackingError, match="cannot be given to the group") as caught:
        make_catalogue(shop, group=group)
    assert "a member of that group" in caught.value.cure
    monkeypatch.setattr(os, "geteuid", lambda: shop.directory.stat().st_uid + 1)
    with pytest.raises(LackingError) as caught:
        make_catalogue(shop, group=group)
    assert f"Ask {shop.directory.owner()} " in caught.value.cure
    shop.directory.chmod(0o2770)
    make_catalogue(shop, group=group)
    assert (refuse.call_count, stat.S_IMODE(shop.directory.stat().st_mode)) == (3, 0o2770)


def test_a_missing_group_is_reported(tmp_path: Path) -> None:
    with pytest.raises(LackingError, match="group 'nobody-has-this' not found"):
        make_catalogue(Catalogue(tmp_path / "shop"), group="nobody-has-this")


def test_the_first_directory_that_a_group_may_not_empty_is_found(tmp_path: Path) -> None:
    group = tmp_path.stat().st_gid
    for name, mode in (("d", 0o775), ("d/open", 0o775), ("d/own", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    assert find_closed(tmp_path / "d", group) == tmp_path / "d/own"
    assert find_closed(tmp_path / "d", group + 1) == tmp_path / "d"
    assert find_closed(tmp_path / "d/open", group) is None
