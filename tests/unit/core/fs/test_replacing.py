from __future__ import annotations

import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from hpcmod.core.errors import VerificationError
from hpcmod.core.fs import replacing as replacing_module
from hpcmod.core.fs.replacing import replacing, replacing_directory, scratch
from hpcmod.core.fs.temporary import PRIVATE


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_block_that_raises_gives_nothing_its_final_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "a") as partial:
        partial.write_text("half")
        raise KeyboardInterrupt
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


@pytest.fixture(params=["exchanged", "renamed twice"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to replace a directory: with an atomic exchange, and without, as on Lustre."""
    if request.param == "renamed twice":
        monkeypatch.setattr(replacing_module, "_exchange", lambda one, other: False)
    return str(request.param)


def write_pages(directory: Path, text: str) -> None:
    with replacing_directory(directory, lambda old: None) as partial:
        for name in "ab":
            (partial / name).write_text(text)


def test_a_directory_is_replaced_completely(tmp_path: Path, way: str) -> None:
    for text in ("first", "second"):
        write_pages(tmp_path / "site", text)
        assert [path.read_text() for path in (tmp_path / "site").iterdir()] == [text, text]
        assert names(tmp_path) == ["site"]


def test_an_unfinished_directory_leaves_the_old_one(tmp_path: Path, way: str) -> None:
    write_pages(tmp_path / "site", "first")
    with pytest.raises(KeyboardInterrupt), replacing_directory(tmp_path / "site") as partial:
        (partial / "a").write_text("half")
        raise KeyboardInterrupt
    assert (tmp_path / "site" / "a").read_text() == "first"
    assert names(tmp_path) == ["site"]


def test_a_directory_that_nothing_has_checked_is_not_replaced(tmp_path: Path, way: str) -> None:
    (tmp_path / "site").mkdir()
    with replacing_directory(tmp_path / "site") as partial:
        (partial / "a").write_text("first")
    with pytest.raises(OSError, match="exists and is not empty") as caught, replacing_directory(tmp_path / "site"):
        pass
    assert caught.value.filename == str(tmp_path / "site")
    assert (tmp_path / "site/a").read_text() == "first"
    assert names(tmp_path) == ["site"]


@pytest.mark.slow
def test_a_reader_always_finds_a_directory_during_an_exchange(tmp_path: Path) -> None:
    write_pages(tmp_path / "site", "0")
    stop = threading.Event()
    misses: list[int] = []

    def look() -> None:
        while not stop.is_set():
            misses.extend([1] * (not (tmp_path / "site").is_dir()))

    thread = threading.Thread(target=look)
    thread.start()
    for number in range(60):
        write_pages(tmp_path / "site", str(number))
    stop.set()
    thread.join()
    assert misses == []


def test_a_private_temporary_file_gets_its_name_at_the_end(tmp_path: Path) -> None:
    with replacing(tmp_path / "a") as partial:
        assert partial.name == "a"
        partial.write_text("new")
        (private,) = tmp_path.iterdir()
        assert stat.S_IMODE(private.stat().st_mode) == PRIVATE
    assert (tmp_path / "a").read_text() == "new"
    assert names(tmp_path) == ["a"]


def test_a_planted_link_at_the_final_name_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "thesis").write_text("text")
    (tmp_path / "a").symlink_to("thesis")
    with replacing(tmp_path / "a") as partial:
        partial.write_text("new")
    assert (tmp_path / "thesis").read_text() == "text"
    assert not (tmp_path / "a").is_symlink()


def test_the_way_to_the_private_directory_cannot_be_exchanged_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "shared").mkdir()
    with replacing(tmp_path / "shared/a") as partial:
        (private,) = (tmp_path / "shared").iterdir()
        private.rename(tmp_path / "shared/moved")
        private.symlink_to(tmp_path / "home")
        (tmp_path / "shared").rename(tmp_path / "before")
        (tmp_path / "shared").symlink_to(tmp_path / "home")
        partial.write_text("new")
    assert names(tmp_path / "home") == []
    assert (tmp_path / "before/a").read_text() == "new"


def test_programs_that_are_started_find_the_temporary_name(tmp_path: Path) -> None:
    with replacing(tmp_path / "a") as partial:
        subprocess.run(["sh", "-c", 'echo new >"$1"', "sh", partial], check=True)
    assert (tmp_path / "a").read_text() == "new\n"


def test_errors_name_the_final_path(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing, replacing(tmp_path / "a") as partial:
        partial.read_text()
    assert missing.value.filename == str(tmp_path / "a")
    with pytest.raises(VerificationError) as wrong, replacing(tmp_path / "a") as partial:
        raise VerificationError(f"{partial}: damaged", f"Remove {partial}.")
    assert str(wrong.value) == f"{tmp_path}/a: damaged\nRemove {tmp_path}/a."


def test_resumable_files_are_kept_after_an_error_and_reused(tmp_path: Path) -> None:
    for text, left in (("", []), ("half", [f".a.hpcmod-part+{os.getuid()}"])):
        with pytest.raises(KeyboardInterrupt), scratch(tmp_path / "a", resumable=True) as made:
            if text:
                made.path.write_text(text)
            raise KeyboardInterrupt
        assert names(tmp_path) == left
    with scratch(tmp_path / "a", resumable=True) as made:
        assert made.path.read_text() == "half"
        made.put()
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("planted", ["link", "fifo", "file"])
def test_leftovers_that_others_could_have_written_are_not_resumed(tmp_path: Path, planted: str) -> None:
    name = tmp_path / f".a.hpcmod-part+{os.getuid()}"
    (tmp_path / "home").mkdir()
    (tmp_path / "home/a").write_text("thesis")
    {"link": lambda: name.symlink_to("home"), "fifo": lambda: os.mkfifo(name), "file": name.touch}[planted]()
    with scratch(tmp_path / "a", resumable=True) as made:
        assert not made.path.exists()
    assert (tmp_path / "home/a").read_text() == "thesis"
    assert names(tmp_path) == ["home"]


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o2770, 0o1777])
def test_a_directory_that_another_user_renamed_is_not_used_and_keeps_its_files(tmp_path: Path, mode: int) -> None:
    """A member of the group may rename a directory that they cannot write to."""
    renamed = tmp_path / f".a.hpcmod-part+{os.getuid()}"
    renamed.mkdir()
    (renamed / "a").write_text("thesis")
    renamed.chmod(mode)
    with scratch(tmp_path / "a", resumable=True) as made:
        assert not made.path.exists()
        made.path.write_text("new")
        made.put()
    moved, final = names(tmp_path)
    assert final == "a"
    assert (tmp_path / moved / "a").read_text() == "thesis"


@pytest.fixture
def btrfs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that directories are on btrfs: a list has what was there when the directory was opened or rewound."""
    listed: dict[int, list[str]] = {}
    opened, rewound, names = os.open, os.lseek, os.listdir

    def remember(descriptor: int) -> int:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            listed[descriptor] = names(f"/proc/self/fd/{descriptor}")
        return descriptor

    def rewind(descriptor: int, offset: int, whence: int) -> int:
        return rewound(remember(descriptor), offset, whence)

    monkeypatch.setattr(os, "open", lambda *args, **options: remember(opened(*args, **options)))
    monkeypatch.setattr(os, "lseek", rewind)
    monkeypatch.setattr(os, "listdir", lambda place: list(listed[place]) if isinstance(place, int) else names(place))


def test_a_failure_on_btrfs_leaves_nothing(btrfs: None, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="full"), scratch(tmp_path / "final") as made:
        made.path.write_text("a part")
        raise ValueError("full")
    assert list(tmp_path.iterdir()) == []
