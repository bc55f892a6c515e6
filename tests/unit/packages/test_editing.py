"""Editing without a container; tests/integration/test_user_packages.py edits with the real pip."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.errors import BusyError, NotFoundError
from hpcmod.images.squashfs.pack import pack_directory, unpack
from hpcmod.packages import building
from hpcmod.packages.builder import Builder
from hpcmod.packages.changing import collect, make_change
from hpcmod.packages.editing import begin_edit, discard_edit, pack_edit
from hpcmod.packages.sets import PackageSet, find_edit
from hpcmod.packages.values.plan import PackageChange
from tests.package_states import EINOPS, TAG, TARGET, make_state, write_set
from tests.unit.packages.values.test_conda import PART


def write_venv(venv: Path, **packages: bool) -> None:
    """Write a virtual environment with packages in version 1.0; True marks packages that the user requested."""
    site = venv / "lib/python3.12/site-packages"
    for name, requested in packages.items():
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
        if requested:
            (info / "REQUESTED").touch()


@pytest.fixture(autouse=True)
def no_modules_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_compile", lambda *_: None)


@pytest.fixture
def found(tmp_path: Path) -> PackageSet:
    """A set whose active state has one package, with its compiled modules."""
    top = tmp_path / "files"
    write_venv(top / "venv/pytorch", einops=True)
    site = top / "venv/pytorch/lib/python3.12/site-packages"
    (site / "__pycache__").mkdir()
    (site / "__pycache__/einops.pyc").write_text("")
    packed = io.BytesIO()
    pack_directory(top, packed, compression="gzip", mtime=0)
    made = write_set(tmp_path / "default", make_state(1, EINOPS))
    (made.directory / f"states/1-{TAG}.squashfs").write_bytes(packed.getvalue())
    return made


def names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir())


def test_the_active_state_becomes_writable_without_compiled_modules(found: PackageSet, builder: Builder) -> None:
    edit = begin_edit(TARGET, found, builder)
    assert (edit.base, edit.user) == (1, "alice")
    info = "venv/pytorch/lib/python3.12/site-packages/einops-1.0.dist-info"
    assert names(edit.files) == ["constraints.txt", f"{info}/METADATA", f"{info}/REQUESTED"]
    assert "torch==2.7.1+rocm6.2.4\n" in (edit.files / "constraints.txt").read_text()
    (edit.files / "mine").touch()
    assert begin_edit(TARGET, found, builder) == edit
    assert (edit.files / "mine").exists()


def test_without_packages_it_begins_with_an_empty_environment(tmp_path: Path, builder: Builder) -> None:
    empty = write_set(tmp_path / "empty")
    edit = begin_edit(TARGET, empty, builder)
    assert edit.base is None
    assert (edit.files / "venv/pytorch/pyvenv.cfg").is_file()


def test_it_becomes_one_file_with_the_packages_installed_now(
    tmp_path: Path, found: PackageSet, builder: Builder
) -> None:
    edit = begin_edit(TARGET, found, builder)
    write_venv(edit.files / "venv/pytorch", new=True, needed=False)
    (edit.files / "notes").write_text("mine")
    done = pack_edit(TARGET, found, builder)
    state = found.active(TAG)
    assert state == done.state
    assert state is not None and (state.number, state.parent, state.origin.action) == (2, 1, "edit")
    assert state.requirements == ("einops", "new")
    assert [one.pin for one in state.locked] == ["einops==1.0", "needed==1.0", "new==1.0"]
    assert find_edit(found, TAG) is None
    assert not (found.directory / f"edit-{TAG}").exists()
    (tmp_path / "out").mkdir()
    with found.tree.open_file(f"states/2-{TAG}.squashfs") as file:
        unpack(file, tmp_path / "out")
    assert (tmp_path / "out/notes").read_text() == "mine"
    assert "constraints.txt" not in names(tmp_path / "out")


def test_meanwhile_nothing_else_changes_the_packages(found: PackageSet, builder: Builder) -> None:
    begin_edit(TARGET, found, builder)
    with pytest.raises(BusyError, match="being edited"):
        make_change(TARGET, found, PackageChange(dropped=("einops",)), builder)
    discard_edit(found, TAG, print)
    assert make_change(TARGET, found, PackageChange(dropped=("einops",)), builder)[1].number == 2
    with pytest.raises(NotFoundError, match="no such directory"):
        pack_edit(TARGET, found, builder)


def killed(monkeypatch: pytest.MonkeyPatch, function: str, work: Callable[..., object], *args: object) -> bool:
    """Return whether some work in a child process ends by calling a function, as if it were killed there."""
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(f"hpcmod.{function}", lambda *_, **__: os._exit(9))
        work(*args)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_a_kill_while_it_is_removed_leaves_no_part_that_could_be_packed(
    found: PackageSet, builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_edit(TARGET, found, builder)
    assert killed(monkeypatch, "core.fs.tree.Tree.remove_all", discard_edit, found, TAG, print)
    assert find_edit(found, TAG) is None
    assert list(found.directory.glob(".edit-*"))
    make_change(TARGET, found, PackageChange(dropped=("einops",)), builder)
    assert sorted(path.name for path in found.directory.iterdir()) == [f".none-active-{TAG}.squashfs", "states"]


def test_what_was_packed_already_makes_no_second_state(
    found: PackageSet, builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_edit(TARGET, found, builder)
    with monkeypatch.context() as patch:
        patch.setattr("hpcmod.core.fs.tree.Tree.rename", lambda *_: os.open("/nonexistent", os.O_RDONLY))
        with pytest.raises(FileNotFoundError):
            pack_edit(TARGET, found, builder)
    assert found.active_number(TAG) == 2
    done = pack_edit(TARGET, found, builder)
    assert done.state is not None and done.state.number == 2
    assert list(found.numbers()) == [1, 2]
    assert find_edit(found, TAG) is None


@pytest.mark.parametrize("name", ["", "user-software"])
def test_a_link_that_another_member_planted_is_not_followed(
    tmp_path: Path, found: PackageSet, builder: Builder, name: str
) -> None:
    (tmp_path / "private").mkdir()
    edit = found.directory / f"edit-{TAG}"
    if name:
        edit.mkdir()
    (edit / name if name else edit).symlink_to(tmp_path / "private")
    for change in (pack_edit, begin_edit):
        with pytest.raises(BusyError, match="another user"):
            change(TARGET, found, builder)
    assert found.active_number(TAG) == 1


def test_a_damaged_record_does_not_block_the_set(found: PackageSet, builder: Builder) -> None:
    edit = begin_edit(TARGET, found, builder)
    (edit.directory / "edit.json").write_text("{")
    assert collect(found, keep=0, tell=print, dry_run=True) == []
    assert pack_edit(TARGET, found, builder).state is not None


@pytest.mark.parametrize("name", ["unpack", "pack_layer"])
def test_a_kill_leaves_what_was_there(
    found: PackageSet, builder: Builder, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name == "pack_layer":
        begin_edit(TARGET, found, builder)
    work = begin_edit if name == "unpack" else pack_edit
    assert killed(monkeypatch, f"packages.editing.{name}", work, TARGET, found, builder)
    assert found.active_number(TAG) == 1
    assert (find_edit(found, TAG) is None) == (name == "unpack")
    begin_edit(TARGET, found, builder)
    assert pack_edit(TARGET, found, builder).state is not None
    assert sorted(path.name for path in found.directory.iterdir()) == [f"active-{TAG}.squashfs", "states"]
    assert list(builder.temporary.iterdir()) == []


def test_python_packages_of_conda_stay_condas_when_a_state_is_packed(found: PackageSet, builder: Builder) -> None:
    """They are not mistaken for packages that pip installed during the edit."""
    state = found.active(TAG)
    assert state is not None
    found.add(replace(state, conda=PART))
    edit = begin_edit(TARGET, found, builder)
    venv = edit.files / "venv/pytorch"
    info = "lib/python3.12/site-packages/pure-1.0.dist-info"
    (venv / info).mkdir()
    (venv / info / "METADATA").write_text("Metadata-Version: 2.1\nName: pure\nVersion: 1.0\n")
    (venv / "conda-meta").mkdir()
    (venv / "conda-meta/pure-1.0-0.json").write_text(json.dumps({"files": ["bin/x", f"{info}/METADATA", 1]}))
    (venv / "conda-meta/damaged-1.0-0.json").write_text("{")
    packed = pack_edit(TARGET, found, builder).state
    assert packed is not None
    assert [one.name for one in packed.locked] == ["einops"]
    assert packed.conda == PART
