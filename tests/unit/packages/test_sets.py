from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, LackingError, NotFoundError
from hpcmod.core.fs.ownership import user_name
from hpcmod.modules.values.place import SetChoice
from hpcmod.packages.sets import PackageSet, find_sets, make_set, open_set
from tests.package_states import EINOPS, OTHER_TAG, TAG, make_state, write_set


def test_what_a_killed_process_left_is_removed_and_states_stay(tmp_path: Path) -> None:
    found = write_set(tmp_path / "default", make_state(1))
    unfinished = tmp_path / f"default/states/2-{TAG}.squashfs"
    unfinished.touch()
    with found.locked(pytest.fail):
        assert not unfinished.exists()
        assert found.active(TAG) == make_state(1)
        assert found.next_number() == 2


def test_the_active_state_is_what_the_link_names(tmp_path: Path) -> None:
    one, two = make_state(1, EINOPS), make_state(2, EINOPS, parent=1)
    found = write_set(tmp_path / "default", one, two)
    assert found.active(TAG) == two
    assert found.active(OTHER_TAG) is None
    found.switch(one)
    assert found.active(TAG) == one
    assert str((tmp_path / f"default/active-{TAG}.squashfs").readlink()) == f"states/1-{TAG}.squashfs"
    assert found.states() == [one, two]
    assert (found.next_number(), found.active_numbers()) == (3, {1})


def test_no_set_has_no_states(tmp_path: Path) -> None:
    found = PackageSet("PyTorch", SetChoice("x"), tmp_path / "x")
    assert (found.exists, found.states(), found.active(TAG), found.next_number()) == (False, [], None, 1)
    with pytest.raises(NotFoundError):
        found.read(1)


def test_damaged_records_are_left_out_and_named_when_read(tmp_path: Path) -> None:
    found = write_set(tmp_path / "default", make_state(1), make_state(2))
    (tmp_path / f"default/states/1-{TAG}.json").write_text("{")
    (tmp_path / f"default/states/2-{TAG}.json").rename(tmp_path / f"default/states/3-{TAG}.json")
    (tmp_path / f"default/states/3-{TAG}.squashfs").touch()
    assert found.states() == []
    with pytest.raises(BadInputError, match=r"1-cp312-555555555555\.json"):
        found.read(1)
    with pytest.raises(BadInputError, match="is the record of state 2"):
        found.read(3)


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../../x.squashfs", f"states/../states/1-{TAG}.squashfs", f"states/9-{TAG}.squashfs"]
)
def test_a_link_that_another_member_planted_is_not_an_active_state(tmp_path: Path, target: str) -> None:
    found = write_set(tmp_path / "default", make_state(1, EINOPS))
    link = tmp_path / f"default/active-{TAG}.squashfs"
    link.unlink()
    link.symlink_to(target)
    assert found.active(TAG) is None


def test_nothing_is_written_or_read_behind_a_planted_link(tmp_path: Path) -> None:
    found = write_set(tmp_path / "default", make_state(1))
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "default/states").rename(elsewhere)
    (tmp_path / "default/states").symlink_to(elsewhere)
    before = sorted(elsewhere.iterdir())
    with pytest.raises(OSError, match=r"symbolic link|Not a directory"):
        found.add(make_state(2))
    with pytest.raises(OSError, match=r"symbolic link|Not a directory"):
        found.make()
    assert sorted(elsewhere.iterdir()) == before


def test_data_elsewhere_is_reached_by_one_link(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path / "home")}
    found = open_set("PyTorch", SetChoice("default"), environ)
    make_set(found, tmp_path / "big/PyTorch/default")
    assert found.directory.is_symlink()
    assert (tmp_path / "big/PyTorch/default/states").is_dir()
    make_set(found, None)
    assert [one.choice.name for one in find_sets("PyTorch", environ)] == ["default"]
    write_set(tmp_path / "big/PyTorch/default", make_state(1))
    with pytest.raises(BadInputError, match="already have a set"):
        make_set(found, tmp_path / "other")
    assert found.active(TAG) == make_state(1)


@pytest.mark.parametrize("old", ["home", "elsewhere"])
@pytest.mark.parametrize("left", ["states", "states/.2.squashfs.hpcmod-part-0-1-2-3", f"states/1-{TAG}.squashfs"])
def test_what_a_killed_first_change_left_is_no_set(tmp_path: Path, old: str, left: str) -> None:
    found = open_set("PyTorch", SetChoice("default"), {"HOME": str(tmp_path / "home")})
    make_set(found, None if old == "home" else tmp_path / "elsewhere")
    (found.directory / left).touch()
    make_set(found, tmp_path / "other")
    assert found.directory.readlink() == tmp_path / "other"
    assert (tmp_path / "other/states").is_dir()


def test_a_set_that_is_being_edited_or_damaged_is_not_replaced(tmp_path: Path) -> None:
    found = open_set("PyTorch", SetChoice("default"), {"HOME": str(tmp_path)})
    for left in (f"edit-{TAG}", f"states/1-{TAG}.json", f"active-{TAG}.squashfs"):
        make_set(found, None)
        (found.directory / left).mkdir()
        with pytest.raises(BadInputError, match="already have a set"):
            make_set(found, tmp_path / "other")
        (found.directory / left).rmdir()


def test_a_shared_set_keeps_the_permissions_of_its_directory(tmp_path: Path) -> None:
    shared = tmp_path / "ai"
    shared.mkdir()
    shared.chmod(0o2770)
    found = open_set("PyTorch", SetChoice("", str(shared)), {})
    make_set(found, None)
    assert not found.exists
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (found.directory, found.directory / "states")]
    assert modes == [0o2770, 0o2770]


def test_the_group_of_a_project_may_write_a_set_in_a_new_directory(tmp_path: Path) -> None:
    for mode, wanted in ((0o2770, 0o2770), (0o1777, 0o775)):
        project = tmp_path / f"{mode:o}"
        project.mkdir()
        project.chmod(mode)
        found = open_set("PyTorch", SetChoice("", str(project / "new/ai")), {})
        make_set(found, None)
        modes = {stat.S_IMODE(path.stat().st_mode) for path in (project / "new", project / "new/ai", found.directory)}
        assert modes == {wanted}


@pytest.mark.parametrize("place", ["ai/PyTorch", "ai"])
def test_a_link_in_the_place_of_a_shared_set_is_refused(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).parent.chmod(0o2775)
    (tmp_path / "home").mkdir()
    (tmp_path / place).symlink_to(tmp_path / "home")
    monkeypatch.setattr("hpcmod.packages.sets.os.geteuid", lambda: 4242)  # the link is of another user
    found = open_set("PyTorch", SetChoice("", str(tmp_path / "ai")), {})
    with pytest.raises((BadInputError, OSError)):
        make_set(found, None)
    with pytest.raises(BadInputError, match="is a link"):
        found.tree.names()
    assert list((tmp_path / "home").iterdir()) == []


def test_the_same_state_again_makes_no_new_one(tmp_path: Path) -> None:
    one = make_state(1, EINOPS, sha256="c" * 64)
    found = write_set(tmp_path / "default", one)
    for state, active in (
        (make_state(2, EINOPS, sha256="c" * 64), 1),
        (make_state(2, EINOPS, sha256="c" * 64, allowed=("torch",)), 2),
        (make_state(3, EINOPS, sha256="d" * 64, allowed=("torch",)), 3),
    ):
        (found.directory / f"states/{state.number}-{TAG}.squashfs").write_bytes(b"")
        before = found.active(TAG)
        assert found.settle(before, state).number == found.active_number(TAG) == active
    assert list(found.numbers()) == [1, 2, 3]


def test_a_state_that_an_interrupted_run_recorded_but_did_not_make_active_is_used(tmp_path: Path) -> None:
    one, two = make_state(1, EINOPS, sha256="c" * 64), make_state(2, EINOPS, sha256="d" * 64, parent=1)
    found = write_set(tmp_path / "default", one, two)
    found.switch(one)
    (found.directory / f"states/3-{TAG}.squashfs").write_bytes(b"new")
    again = make_state(3, EINOPS, sha256="d" * 64, parent=1)
    assert found.settle(found.active(TAG), again).number == found.active_number(TAG) == 2
    assert list(found.numbers()) == [1, 2]
    assert (found.directory / f"states/2-{TAG}.squashfs").read_bytes() == b"new"  # whatever became of the old one


def test_the_same_packages_after_another_state_are_a_new_state(tmp_path: Path) -> None:
    one = make_state(1, EINOPS, sha256="c" * 64)
    two = make_state(2, EINOPS, sha256="d" * 64, parent=1)
    found = write_set(tmp_path / "default", one, two)
    (found.directory / f"states/3-{TAG}.squashfs").write_bytes(b"")
    three = make_state(3, EINOPS, sha256="c" * 64, parent=2)
    assert found.settle(two, three).number == found.active_number(TAG) == 3  # `undo` returns to 2, not before 1


@pytest.mark.parametrize(("fails", "sha256", "left"), [("remove", "c" * 64, 1), ("symlink", "d" * 64, 0)])
def test_of_a_state_that_is_not_taken_nothing_stays_or_the_next_change_removes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, sha256: str, left: int
) -> None:
    one, two = make_state(1, EINOPS, sha256="c" * 64), make_state(2, EINOPS, sha256=sha256)
    found = write_set(tmp_path / "default", one)
    (found.directory / f"states/2-{TAG}.squashfs").write_bytes(b"")

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(type(found.tree), fails, fail)
        with pytest.raises(OSError, match="Input/output"):
            found.settle(found.active(TAG), two)
    assert len(list((found.directory / "states").glob("2-*"))) == left
    with found.locked(print):
        assert (list(found.numbers()), found.active_number(TAG)) == ([1], 1)
        assert list((found.directory / "states").glob("2-*")) == []


def test_who_may_only_read_a_shared_set_is_told_whom_to_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = open_set("PyTorch", SetChoice("", str(tmp_path)), {})
    make_set(found, None)
    monkeypatch.setattr("hpcmod.packages.sets.os.access", lambda *_: False)
    owner = user_name(os.geteuid())
    for change in (lambda: make_set(found, None), lambda: found.locked(print).__enter__()):
        with pytest.raises(LackingError, match=rf"belong to {owner} and group .* \(drwx") as caught:
            change()
        assert f"Ask {owner}" in caught.value.cure
    assert sorted(path.name for path in found.directory.iterdir()) == ["states"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_shared_set_where_nobody_may_write_has_a_cure_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(LackingError, match="closed") as caught:
        make_set(open_set("PyTorch", SetChoice("", str(tmp_path / "closed/new")), {}), None)
    assert "--shared DIRECTORY" in caught.value.cure
