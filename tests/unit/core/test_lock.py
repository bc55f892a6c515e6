from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from hpcmod.core import lock
from hpcmod.core.errors import BusyError
from hpcmod.core.lock import Holder, hold, is_held, read_holder

pytestmark = pytest.mark.slow

Start = Callable[..., "subprocess.Popen[str]"]

HOLD = """
import sys, time
from pathlib import Path
from typing import Any
from hpcmod.core.lock import hold
with hold(Path(sys.argv[1]), limit=None, tell=print, on_stale=lambda: None):
    print("inside", flush=True)
    time.sleep(float(sys.argv[2]))
"""

# Acquires the lock repeatedly, and exits while holding it if asked to; "inside" exists while a process holds it.
CONTEND = """
import os, sys
from pathlib import Path
from typing import Any
from hpcmod.core.lock import hold
path, inside, dies = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "dies"
for turn in range(3):
    with hold(path, limit=None, tell=lambda line: None, on_stale=inside.unlink):
        os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
        if dies and turn == 1:
            os._exit(9)
        inside.unlink()
print("done")
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "POLL", 0.01)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".locks" / "a.lock"


@pytest.fixture
def start(path: Path) -> Iterator[Start]:
    """Start a process that holds the lock for some seconds; return it once it does."""
    started = []

    def start_holder(seconds: float = 60.0) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", HOLD, str(path), str(seconds)]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "inside\n"
        return process

    yield start_holder
    for process in started:
        process.kill()
        process.communicate()


def plant(path: Path, *, silent_for: float = 0.0, **changes: object) -> Holder:
    """Write the lock file of another process."""
    holder = replace(Holder.me(), **changes)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(holder)))
    then = time.time() - silent_for
    os.utime(path, (then, then))
    return holder


def never() -> None:
    raise AssertionError("nothing was stale")


def refused(path: Path, match: str = "is held by", **options: Any) -> BusyError:
    """Require that a lock cannot be acquired; return the error."""
    given = {"limit": 0.0, "tell": lambda _: None, "on_stale": never, **options}
    with pytest.raises(BusyError, match=match) as caught, hold(path, **given):
        pytest.fail("two inside")
    return caught.value


def test_a_free_lock_is_acquired_at_once_and_names_its_holder(path: Path) -> None:
    with hold(path, limit=0.0, tell=pytest.fail, on_stale=never) as waited:
        assert not waited
        holder = read_holder(path)
        assert holder is not None
        assert (holder.host, holder.pid) == (socket.gethostname(), os.getpid())
        assert not holder.is_dead()


def test_a_lock_is_released_at_the_end_and_after_an_error(path: Path) -> None:
    with pytest.raises(ValueError, match="bad"), hold(path, limit=0.0, tell=pytest.fail, on_stale=never):
        raise ValueError("bad")
    assert read_holder(path) is None
    with hold(path, limit=0.0, tell=pytest.fail, on_stale=never):
        pass
    assert read_holder(path) is None


@pytest.mark.parametrize("is_reaped", [True, False])
def test_the_lock_of_a_dead_process_is_cleared_and_what_it_left_too(path: Path, start: Start, is_reaped: bool) -> None:
    dead = start()
    dead.kill()
    os.waitid(os.P_PID, dead.pid, os.WEXITED | (0 if is_reaped else os.WNOWAIT))
    told: list[str] = []
    cleared: list[Path] = []
    with hold(path, limit=0.0, tell=told.append, on_stale=lambda: cleared.append(path)) as waited:
        assert not waited
        assert cleared == [path]
        assert [line.startswith(f"removing the lock of process {dead.pid} of ") for line in told] == [True]


def test_a_later_process_of_the_same_number_is_not_the_holder(path: Path) -> None:
    assert plant(path, started="1").is_dead()


def test_waits_for_a_live_holder_and_reports_it_once(path: Path, start: Start) -> None:
    process = start(0.5)
    told: list[str] = []
    began = time.monotonic()
    with hold(path, limit=30.0, tell=told.append, on_stale=never) as waited:
        assert waited
    assert time.monotonic() - began > 0.2
    assert len(told) == 1
    assert re.fullmatch(rf"waiting for process {process.pid} of \S+ on \S+, since .+", told[0])


def test_a_waiting_process_can_check_and_give_up(path: Path, start: Start) -> None:
    start()
    looks: list[None] = []

    def look() -> None:
        looks.append(None)
        if len(looks) == 3:
            raise KeyError("enough")

    with (
        pytest.raises(KeyError),
        hold(path, limit=None, tell=lambda _: None, on_stale=never, on_wait=look),
    ):
        pytest.fail("it is held by another")
    assert len(looks) == 3


def test_a_lock_can_be_read_by_others_regardless_of_the_umask(path: Path) -> None:
    before = os.umask(0o077)
    try:
        with hold(path, limit=0.0, tell=pytest.fail, on_stale=never):
            assert path.stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(before)


def test_the_limit_ends_the_wait_with_who_holds_the_lock(path: Path, start: Start) -> None:
    error = refused(path, f"{path} is held by process {start().pid} ", limit=0.1)
    assert error.exit_code == 6
    assert "--wait-on-lock-limit" in error.cure
    assert read_holder(path) is not None


ELSEWHERE = [
    pytest.param({"host": "elsewhere", "machine": "another-boot/1/1"}, id="another host"),
    pytest.param({"machine": "another-boot/1/1"}, id="another host of this name, or an earlier boot"),
    pytest.param({"machine": ""}, id="unknown"),
    pytest.param({"machine": Holder.me().machine[:-1] + "x"}, id="another namespace of this machine"),
]
"""Holders unknown to this machine's kernel; none has the ID of a process that exists here."""


@pytest.mark.parametrize("changes", ELSEWHERE)
@pytest.mark.parametrize("clock", [-86_400, 0, 86_400])
def test_a_holder_elsewhere_is_never_considered_dead(
    path: Path, changes: dict[str, str], clock: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "SILENCE", 0.1)
    plant(path, pid=4_000_000, silent_for=clock, **changes)
    error = refused(path, r"no heartbeat for \d+ s", limit=None)
    assert (error.exit_code, f"rm {path}" in error.cure) == (6, True)
    assert path.exists()


@pytest.mark.parametrize("clock", [-86_400, 86_400])
def test_a_holder_elsewhere_is_alive_regardless_of_its_clock(
    path: Path, clock: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "SILENCE", 0.3)
    plant(path, host="elsewhere", machine="x", silent_for=clock)
    beats = iter(range(100))

    def beat() -> None:
        then = time.time() - clock + next(beats)
        os.utime(path, (then, then))
        time.sleep(0.02)

    assert "no heartbeat" not in refused(path, limit=1.0, on_wait=beat).message


def test_a_holder_that_the_kernel_hides_is_not_dead(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with hidepid=2: /proc does not show processes of other users, and signals are refused."""

    def refuse(pid: int, sent: int) -> None:
        raise PermissionError

    holder = plant(path, pid=1)
    monkeypatch.setattr(os, "kill", refuse)
    monkeypatch.setattr(lock, "_start_of", lambda pid: "")
    assert not holder.is_dead()


def test_a_stopped_holder_keeps_its_lock(path: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "SILENCE", 0.1)
    process = start()
    process.send_signal(signal.SIGSTOP)
    refused(path, limit=0.5)
    process.send_signal(signal.SIGCONT)


def test_a_lock_removed_manually_and_taken_by_another_process_is_kept(path: Path, start: Start) -> None:
    with hold(path, limit=0.0, tell=pytest.fail, on_stale=never):
        path.unlink()
        other = start()
    holder = read_holder(path)
    assert holder is not None
    assert holder.pid == other.pid


def test_a_dead_lock_taken_over_by_another_process_is_not_taken_over_again(path: Path, start: Start) -> None:
    plant(path, pid=4_000_000)
    seen = lock._look(path)
    assert seen is not None
    path.unlink()
    start()
    assert lock._take(path, dead=seen) is None
    assert path.exists()


def test_a_held_lock_is_touched_as_a_heartbeat(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "HEARTBEAT", 0.02)
    with hold(path, limit=0.0, tell=pytest.fail, on_stale=never):
        os.utime(path, (0, 0))
        limit = time.monotonic() + 5
        while path.stat().st_mtime == 0:
            assert time.monotonic() < limit
            time.sleep(0.01)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("12345", id="a number"),
        pytest.param("[]", id="a list"),
        pytest.param('{"host": "a"}', id="fields missing"),
        pytest.param("\0\xff", id="noise"),
        pytest.param("[" * 100_000, id="nested deeply"),
        pytest.param("[" * 4_000, id="nested deeply, and short"),
        pytest.param("{" + " " * (1 << 20) + "}", id="large"),
        pytest.param(json.dumps({**asdict(Holder.me()), "pid": "\ud800"}), id="a process number of surrogates"),
        pytest.param(json.dumps({**asdict(Holder.me()), "user": "\ud800"}), id="surrogates"),
        pytest.param(json.dumps({**asdict(Holder.me()), "pid": 0}), id="a process group"),
    ],
)
def test_a_foreign_file_in_place_of_a_lock_is_kept_and_reported(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    assert f"rm {path}" in refused(path, str(path)).cure
    assert path.read_text() == text


@pytest.mark.parametrize("hosts", [1, 2])
def test_never_two_of_six_processes_hold_the_lock_even_if_some_die(path: Path, tmp_path: Path, hosts: int) -> None:
    """On one machine with one or two host names: `unshare --uts` gives half of them another, like containers."""
    inside = tmp_path / "inside"
    ways = ["dies" if number % 3 == 0 else "lives" for number in range(6)]
    rename = ["unshare", "--user", "--map-root-user", "--uts", "sh", "-c", 'hostname other; exec "$@"', "sh"]
    processes = [
        subprocess.Popen(
            [
                *rename * (hosts == 2 and number % 2),
                *(sys.executable, "-c", CONTEND, str(path), str(inside), way),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, way in enumerate(ways)
    ]
    limit = time.monotonic() + 300  # only to detect a hang: six processes can be slow on a busy machine
    while None in [process.poll() for process in processes] and time.monotonic() < limit:
        time.sleep(0.01)
    for process in processes:
        process.kill()
    said = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [9 if way == "dies" else 0 for way in ways], said
    with hold(path, limit=0.0, tell=lambda line: None, on_stale=inside.unlink):  # the last one may have died
        assert not inside.exists()


def test_no_other_process_takes_the_lock_of_a_dead_one_without_clearing_up(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process acquires the lock as soon as its name is free."""
    plant(path, pid=4_000_000)
    left = path.with_name("left")
    left.touch()
    unlink = Path.unlink

    def unlink_and_lose(self: Path, **how: bool) -> None:
        unlink(self, **how)
        if self.name == path.name and left.exists():
            plant(path)
            pytest.fail(f"{self} was free, and what the dead process left was not cleared up")

    monkeypatch.setattr(Path, "unlink", unlink_and_lose)
    with hold(path, limit=0.0, tell=lambda line: None, on_stale=left.unlink):
        assert not left.exists()


def test_nothing_stays_next_to_the_lock(path: Path) -> None:
    plant(path, pid=4_000_000)
    with hold(path, limit=0.0, tell=lambda line: None, on_stale=lambda: None):
        assert [file.name for file in path.parent.iterdir()] == ["a.lock"]
    assert list(path.parent.iterdir()) == []


NOT_A_FILE: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "link": lambda path: path.symlink_to(path.with_name("elsewhere")),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "huge": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
    "directory": Path.mkdir,
}


@pytest.mark.parametrize("make", NOT_A_FILE.values(), ids=NOT_A_FILE)
def test_reports_at_once_if_a_lock_is_not_a_file(path: Path, make: Callable[[Path], object]) -> None:
    path.parent.mkdir()
    make(path)
    with pytest.raises(BusyError, match=f"{path} is not an hpcmod lock file"):
        read_holder(path)
    refused(path, ".", limit=None, tell=pytest.fail)
    assert [file.name for file in path.parent.iterdir()] == ["a.lock"]


def test_a_planted_temporary_file_does_not_become_the_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user replaces our temporary file after it is written and before it is linked."""
    path.parent.mkdir()
    planted = path.with_name("planted")
    planted.write_text("{}")
    link = os.link

    def exchange(source: str, target: str, **how: object) -> None:
        for torn in path.parent.glob(".a.lock*" if planted.exists() else "none"):
            planted.replace(torn)
        link(source, target, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "link", exchange)
    with hold(path, limit=0.0, tell=pytest.fail, on_stale=never):
        holder = read_holder(path)
        assert holder is not None
        assert holder.pid == os.getpid()


def test_a_full_disk_is_reported_with_the_name_of_the_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the lock, not the descriptor that was passed to the system call."""

    def fail(*args: object, **_: object) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), str(args[0]))

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(OSError, match="quota") as caught, hold(path, limit=None, tell=print, on_stale=lambda: None):
        pass
    assert caught.value.filename == str(path)


def test_without_space_for_its_text_a_lock_is_held_and_gets_it_later(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr("hpcmod.core.lock.HEARTBEAT", 0.01)
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", fail)
        error = errno.EIO
        with pytest.raises(OSError, match="error") as caught, hold(path, tell=pytest.fail):
            pass
        assert caught.value.filename == str(path)
        error = errno.ENOSPC
        held = ExitStack()
        held.enter_context(hold(path, tell=pytest.fail))
        assert (path.read_bytes(), is_held(path)) == (b"", True)
        os.utime(path, (0, time.time() - 100))
        assert re.search(r"empty, as on a full disk; \S+ touched it \d+ s ago", refused(path, str(path)).message)
    with held:
        limit = time.monotonic() + 5
        while not path.stat().st_size:
            assert time.monotonic() < limit
            time.sleep(0.01)
        assert read_holder(path) is not None
    assert not path.exists()


def test_a_lock_with_a_name_as_long_as_linux_takes_can_be_held_waited_for_and_tidied(path: Path) -> None:
    longest = path.with_name("l" * 255)
    with hold(longest, limit=0.0, tell=pytest.fail, on_stale=never):
        refused(longest)
    assert list(path.parent.iterdir()) == []


def test_a_directory_of_locks_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/locks").symlink_to(tmp_path / "home")
    path = tmp_path / "shared/locks/x"
    with (
        pytest.raises(OSError, match="symbolic link"),
        hold(path, limit=None, tell=print, on_stale=lambda: None, below=tmp_path / "shared"),
    ):
        pass
    assert list((tmp_path / "home").iterdir()) == []


def test_a_lock_stays_where_it_was_taken_while_its_directory_is_exchanged(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    path = tmp_path / "shared/locks/x"
    (tmp_path / "shared").mkdir()
    with hold(path, limit=None, tell=print, on_stale=lambda: None, below=tmp_path / "shared"):
        assert read_holder(path) is not None
        refused(path, re.escape(f"{path} is held by"), below=tmp_path / "shared")
        path.parent.rename(tmp_path / "shared/former")
        path.parent.symlink_to(tmp_path / "home")
        (tmp_path / "home/x").write_text("text")
    assert (tmp_path / "home/x").read_text() == "text"
    assert list((tmp_path / "shared/former").iterdir()) == []


def test_a_lock_that_only_another_user_may_remove_is_reported_as_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sticky/x.lock"
    path.parent.mkdir(mode=0o1777)
    path.parent.chmod(0o1777)
    path.write_text("nonsense")
    with pytest.raises(BusyError) as mine:
        read_holder(path)
    assert f"rm {path}" in mine.value.cure
    monkeypatch.setattr("hpcmod.core.fs.ownership.os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(BusyError) as theirs:
        read_holder(path)
    assert f"may remove it from {path.parent}" in theirs.value.cure
    assert "rm " not in theirs.value.cure
