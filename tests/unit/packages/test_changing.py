from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, CheckFailedError, LackingError, NotFoundError
from hpcmod.core.values.facts import Provenance
from hpcmod.images.squashfs.reader import Squashfs
from hpcmod.modules.installed import Installed
from hpcmod.modules.values.install_record import InstalledImage, InstallRecord, OwnPackages
from hpcmod.modules.values.place import SetChoice
from hpcmod.packages.builder import Builder
from hpcmod.packages.changing import collect, make_change, plan_change, read_target, undo_change, use
from hpcmod.packages.sets import PackageSet, make_set
from hpcmod.packages.values.lockfile import Lock, LockedState
from hpcmod.packages.values.plan import PackageChange
from hpcmod.packages.values.requirement import Requirements
from tests.package_states import EINOPS, NEEDY, OTHER_TAG, SHA256, TAG, TARGET, make_state, write_set

RECORD = InstallRecord(
    image=InstalledImage("/images/torch.sif", SHA256),
    packages=TARGET.packages,
    provenance=Provenance(TARGET.reference, "", SHA256, 1, "", ""),
    own_packages=OwnPackages("PyTorch", TAG, "/user-software/venv/pytorch", TARGET.python),
)


LOCK = Lock(LockedState(("needy==1.0",)), (f"needy==1.0 --hash=sha256:{'b' * 64}",))


def installed(record: InstallRecord) -> Installed:
    return Installed("PyTorch/2.7.1", Path("/m"), Path("/r"), record)


def no_talk(line: str) -> None:
    raise AssertionError(line)


def test_the_target_comes_from_the_record_of_the_installation() -> None:
    assert read_target(installed(RECORD)) == TARGET
    with pytest.raises(LackingError, match="no Python"):
        read_target(installed(replace(RECORD, own_packages=None)))


def test_undo_follows_the_parents_and_ends_without_packages(tmp_path: Path, builder: Builder) -> None:
    one, two = make_state(1, EINOPS), make_state(2, EINOPS, NEEDY, parent=1)
    found = write_set(tmp_path / "default", one, two)
    assert undo_change(TARGET, found, builder) == (two, one)
    before, empty = undo_change(TARGET, found, builder)
    assert (before, empty.number, empty.locked, found.active(TAG)) == (one, 3, (), empty)
    with pytest.raises(NotFoundError, match="nothing to undo"):
        undo_change(TARGET, found, builder)
    assert list(builder.temporary.iterdir()) == []
    with (found.directory / f"states/3-{TAG}.squashfs").open("rb") as file:
        packed = Squashfs(file, 0, empty.size)
        assert packed.listdir("/venv/pytorch/bin") == ["activate", "pip", "pip3", "python", "python3", "python3.12"]


def test_undo_returns_to_what_was_active_before_a_state_was_chosen(tmp_path: Path, builder: Builder) -> None:
    one, two, four = make_state(1, EINOPS), make_state(2, EINOPS, parent=1), make_state(4, NEEDY, parent=1)
    found = write_set(tmp_path / "default", one, two, four)
    for number in (2, 2, 1):
        use(TARGET, found, number, no_talk)
    assert [undo_change(TARGET, found, builder)[1] for _ in "123"] == [two, four, one]
    use(TARGET, found, 2, no_talk)
    collect(found, keep=1, tell=no_talk, dry_run=False)
    assert undo_change(TARGET, found, builder)[1] == one, "state 1 was active before, and it is the parent"
    use(TARGET, found, 4, no_talk)
    use(TARGET, found, 1, no_talk)
    found.remove(4, TAG)
    assert undo_change(TARGET, found, builder)[1].is_empty, "another state may get the number 4"


def test_undo_returns_to_what_was_active_before_an_old_state_was_rebuilt(tmp_path: Path, builder: Builder) -> None:
    one, two = make_state(1, EINOPS), make_state(2, NEEDY, parent=1)
    found = write_set(tmp_path / "default", one, two)
    (found.directory / f"states/3-{TAG}.squashfs").touch()
    found.settle(two, make_state(3, EINOPS, parent=1))
    assert [undo_change(TARGET, found, builder)[1] for _ in "12"] == [two, one]


def test_without_packages_modules_see_no_state(tmp_path: Path, builder: Builder) -> None:
    """It would hide what the user has installed beside the image."""
    found = write_set(tmp_path / "default", make_state(1, EINOPS))
    link = found.directory / f"active-{TAG}.squashfs"
    for empty in (
        lambda: undo_change(TARGET, found, builder)[1],
        lambda: make_change(TARGET, found, PackageChange(dropped=("einops",), action="drop einops"), builder)[1],
    ):
        assert empty() == found.active(TAG)
        assert (link.is_symlink(), found.is_seen(TAG), found.active_numbers() & {1}) == (False, False, set())
        use(TARGET, found, 1, no_talk)
        assert (link.is_symlink(), found.is_seen(TAG), found.active_number(TAG)) == (True, True, 1)
    edited = make_state(9, action="edit")
    found.switch(edited)
    assert found.is_seen(TAG), "it may have other files"


def test_undo_says_so_if_the_state_before_was_removed(tmp_path: Path, builder: Builder) -> None:
    found = write_set(tmp_path / "default", make_state(2, EINOPS, parent=1))
    with pytest.raises(NotFoundError, match="state 1 not found"):
        undo_change(TARGET, found, builder)


def test_only_states_for_this_image_can_be_used(tmp_path: Path) -> None:
    one, other = make_state(1, EINOPS), make_state(2, NEEDY, tag=OTHER_TAG)
    found = write_set(tmp_path / "default", one, make_state(3), other)
    assert use(TARGET, found, 1, no_talk) == one
    with pytest.raises(BadInputError, match="was made for PyTorch"):
        use(TARGET, found, 2, no_talk)
    assert found.active(TAG) == one


def test_old_states_are_removed_except_active_ones_and_their_parents(tmp_path: Path) -> None:
    states = [make_state(1, tag=OTHER_TAG), *(make_state(number, parent=number - 1) for number in (2, 3, 4, 5, 6))]
    found = write_set(tmp_path / "default", *states)
    found.switch(states[3])
    assert collect(found, keep=1, tell=no_talk, dry_run=True) == [(2, 4096), (5, 4096)]
    assert collect(found, keep=1, tell=no_talk, dry_run=False) == [(2, 4096), (5, 4096)]
    assert list(found.numbers()) == [1, 3, 4, 6]
    assert len(list((found.directory / "states").iterdir())) == 8
    (found.directory / f"states/4-{TAG}.json").write_text("{")
    assert collect(found, keep=0, tell=no_talk, dry_run=False) == [], "any may be the one before the damaged one"
    found.tree.symlink(f"active-{TAG}.squashfs", "gone")
    assert collect(found, keep=0, tell=no_talk, dry_run=False) == []


def test_a_state_in_use_can_still_be_read_after_it_was_removed(tmp_path: Path) -> None:
    found = write_set(tmp_path / "default", make_state(1), make_state(2), make_state(3))
    with (found.directory / f"states/1-{TAG}.squashfs").open("rb") as running:
        collect(found, keep=0, tell=no_talk, dry_run=False)
        assert len(running.read()) == 4096


def test_a_change_that_fails_leaves_the_set_as_it_was(tmp_path: Path, builder: Builder) -> None:
    found = write_set(tmp_path / "default", make_state(1, EINOPS))
    names = sorted((found.directory / "states").iterdir())
    with pytest.raises(CheckFailedError):
        make_change(TARGET, found, PackageChange(added=Requirements(("x",)), action="add x"), builder)
    assert found.active(TAG) == make_state(1, EINOPS)
    assert sorted((found.directory / "states").iterdir()) == names
    assert list(builder.temporary.iterdir()) == []


def test_a_first_change_that_fails_leaves_no_set(tmp_path: Path, builder: Builder) -> None:
    found = PackageSet("PyTorch", SetChoice("x"), tmp_path / "x")
    make_set(found, None)
    with pytest.raises(CheckFailedError):
        make_change(TARGET, found, PackageChange(added=Requirements(("x",)), action="add x"), builder)
    assert list(found.directory.iterdir()) == []  # with `states`, a wrapper would not say that there is no set


def test_a_lock_replaces_everything(tmp_path: Path) -> None:
    found = write_set(tmp_path / "default", make_state(1, EINOPS))
    plan = plan_change(TARGET, found, PackageChange(Requirements(LOCK.state.requirements), locked=LOCK.lines))
    assert (plan.requirements, plan.lines) == (("needy==1.0",), LOCK.lines)
    assert "einops==0.8.1" not in plan.constraints


def test_a_package_that_was_not_added_cannot_be_dropped(tmp_path: Path) -> None:
    found = write_set(tmp_path / "default", replace(make_state(1, EINOPS, NEEDY), requirements=("needy",)))
    with pytest.raises(BadInputError, match="another package"):
        plan_change(TARGET, found, PackageChange(dropped=("einops",)))
