from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hpcmod import lock
from hpcmod.errors import BusyError
from hpcmod.lock import Holder, hold, read_holder, tidy

Start = Callable[..., "subprocess.Popen[str]"]

HOLD = """
import sys, time
from pathlib import Path
from hpcmod.lock import hold
with hold(Path(sys.argv[1]), limit=None, tell=print, on_stale=lambda: None):
    print("inside", flush=True)
    time.sleep(float(sys.argv[2]))
"""

# Takes the lock again and again, and dies inside it once if told so; "inside" exists while somebody is.
CONTEND = """
import os, sys
from pathlib import Path
from hpcmod.lock import hold
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
    """Starts a process that holds the lock for so many seconds, and returns it once it does."""
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
    """Write the lock of a process that is not ours."""
    holder = replace(Holder.me(), **changes)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(holder)))
    then = time.time() - silent_for
    os.utime(path, (then, then))
    return holder


def never() -> None:
    raise AssertionError("nothing was stale")


def test_a_free_lock_is_had_at_once_and_names_its_holder(path: Path) -> None:
    with hold(path, limit=0.0, tell=pytest.fail, on_stale=never) as waited:
        assert not waited
        holder = read_holder(path)
        assert holder is not None
        assert (holder.host, holder.pid) == (socket.gethostname(), os.getpid())
        assert not holder.is_dead()


def test_a_lock_is_given_back_at_the_end_and_after_a_fault(path: Path) -> None:
    with pytest.raises(ValueError, match="bad"), hold(path, limit=0.0, tell=pytest.fail, on_stale=never):
        raise ValueError("bad")
    assert read_holder(path) is None
    with hold(path, limit=0.0, tell=pytest.fail, on_stale=never):
        pass
    assert read_holder(path) is None


def test_the_lock_of_a_dead_process_is_cleared_and_what_it_left_too(path: Path, start: Start) -> None:
    dead = start()
    dead.kill()
    dead.wait()
    told: list[str] = []
    cleared: list[Path] = []
    with hold(path, limit=0.0, tell=told.append, on_stale=lambda: cleared.append(path)) as waited:
        assert not waited
        assert cleared == [path]
        assert [line.startswith(f"clearing the lock of process {dead.pid} of ") for line in told] == [True]


def test_a_process_that_is_killed_but_not_yet_waited_for_is_dead(path: Path, start: Start) -> None:
    zombie = start()
    zombie.kill()
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    cleared: list[Path] = []
    with hold(path, limit=1.0, tell=lambda line: None, on_stale=lambda: cleared.append(path)):
        assert cleared == [path]


def test_a_later_process_of_the_same_number_is_not_the_holder(path: Path) -> None:
    plant(path, started="1@another-boot")
    cleared: list[Path] = []
    with hold(path, limit=0.0, tell=lambda line: None, on_stale=lambda: cleared.append(path)):
        assert cleared == [path]


@pytest.mark.slow
def test_a_live_holder_is_waited_for_and_told_once(path: Path, start: Start) -> None:
    process = start(0.5)
    told: list[str] = []
    began = time.monotonic()
    with hold(path, limit=30.0, tell=told.append, on_stale=never) as waited:
        assert waited
    assert time.monotonic() - began > 0.2
    assert len(told) == 1
    assert re.fullmatch(rf"waiting for process {process.pid} of \S+ on \S+, since .+", told[0])


def test_who_waits_can_look_around_and_give_up(path: Path, start: Start) -> None:
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


def test_a_lock_can_be_read_by_others_whatever_the_umask(path: Path) -> None:
    before = os.umask(0o077)
    try:
        with hold(path, limit=0.0, tell=pytest.fail, on_stale=never):
            assert path.stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(before)


def test_the_limit_ends_the_wait_with_who_holds_the_lock(path: Path, start: Start) -> None:
    process = start()
    with (
        pytest.raises(BusyError, match=f"{path} is held by process {process.pid} ") as caught,
        hold(path, limit=0.1, tell=lambda line: None, on_stale=never),
    ):
        pytest.fail("two inside")
    assert caught.value.exit_code == 6
    assert "--wait-on-lock-limit" in caught.value.cure
    assert read_holder(path) is not None


def test_a_silent_holder_on_another_host_is_not_waited_for_and_the_cure_names_the_lock(path: Path) -> None:
    plant(path, host="elsewhere", silent_for=lock.SILENCE + 30)
    with (
        pytest.raises(BusyError, match=r"on elsewhere.* nothing was heard for 9\d s") as caught,
        hold(path, limit=None, tell=lambda line: None, on_stale=never),
    ):
        pytest.fail("two inside")
    assert caught.value.exit_code == 6
    assert f"rm {path}" in caught.value.cure


def test_a_holder_on_another_host_that_is_heard_of_is_waited_for(path: Path) -> None:
    plant(path, host="elsewhere", silent_for=lock.SILENCE - 30)
    told: list[str] = []
    with (
        pytest.raises(BusyError, match="is held by"),
        hold(path, limit=0.1, tell=told.append, on_stale=never),
    ):
        pytest.fail("two inside")
    assert len(told) == 1


@pytest.mark.slow
def test_a_holder_on_another_host_that_falls_silent_while_we_wait_ends_the_wait(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "SILENCE", 0.3)
    plant(path, host="elsewhere")
    with (
        pytest.raises(BusyError, match="nothing was heard"),
        hold(path, limit=3.0, tell=lambda line: None, on_stale=never),
    ):
        pytest.fail("two inside")


def test_a_held_lock_is_touched_so_that_other_hosts_hear_of_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    ],
)
def test_a_file_that_is_no_lock_of_ours_is_left_alone_and_named(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    with (
        pytest.raises(BusyError, match=str(path)) as caught,
        hold(path, limit=0.0, tell=lambda line: None, on_stale=never),
    ):
        pytest.fail("two inside")
    assert f"rm {path}" in caught.value.cure
    assert path.read_text() == text


@pytest.mark.parametrize("kind", ["fifo", "link to a device", "huge"])
def test_what_somebody_planted_as_a_lock_is_an_error_at_once(path: Path, kind: str) -> None:
    path.parent.mkdir()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(BusyError, match="not one of our locks"), hold(path, limit=0.0, tell=print, on_stale=never):
        pytest.fail("inside")


@pytest.mark.parametrize("kind", ["fifo", "link"])
def test_what_somebody_planted_as_a_guard_is_not_opened(path: Path, tmp_path: Path, kind: str) -> None:
    path.parent.mkdir()
    guard = path.with_name("a.lock.guard")
    os.mkfifo(guard) if kind == "fifo" else guard.symlink_to(tmp_path / "new")
    with hold(path, limit=0.0, tell=pytest.fail, on_stale=never):
        pass
    assert not (tmp_path / "new").exists()


def test_no_lock_is_written_through_a_planted_link(path: Path, tmp_path: Path) -> None:
    thesis = tmp_path / "thesis"
    thesis.write_text("text")
    path.parent.mkdir()
    for suffix in ("", f".{os.getpid()}", f".{os.getpid()}.now", f".{os.getpid()}.{threading.get_native_id()}"):
        path.with_name(f"a.lock.{socket.gethostname()}{suffix}").symlink_to(thesis)
    with hold(path, limit=0.0, tell=pytest.fail, on_stale=never):
        assert thesis.read_text() == "text"


def test_a_lock_that_was_removed_and_taken_by_another_stays_the_others(path: Path) -> None:
    with hold(path, limit=0.0, tell=pytest.fail, on_stale=never):
        path.unlink()
        other = plant(path)
    assert read_holder(path) == other


@pytest.mark.slow
def test_of_eight_processes_never_two_are_inside_even_when_some_die_there(path: Path, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    ways = ["dies" if number % 3 == 0 else "lives" for number in range(8)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CONTEND, str(path), str(inside), way],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for way in ways
    ]
    limit = time.monotonic() + 60
    while None in [process.poll() for process in processes] and time.monotonic() < limit:
        time.sleep(0.01)
    for process in processes:
        process.kill()
    said = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [9 if way == "dies" else 0 for way in ways], said
    with hold(path, limit=0.0, tell=lambda line: None, on_stale=inside.unlink):  # the last one may have died
        assert not inside.exists()


def test_nothing_stays_beside_the_lock_but_its_guard(path: Path) -> None:
    with hold(path, limit=0.0, tell=pytest.fail, on_stale=never):
        pass
    assert [file.name for file in path.parent.iterdir()] == ["a.lock.guard"]


def test_a_lock_with_a_name_as_long_as_linux_takes_can_be_held_waited_for_and_tidied(path: Path) -> None:
    longest = path.with_name("l" * 255)
    with (
        hold(longest, limit=0.0, tell=pytest.fail, on_stale=never),
        pytest.raises(BusyError),
        hold(longest, limit=0.0, tell=lambda line: None, on_stale=never),
    ):
        pytest.fail("two inside")
    tidy(longest)
    assert list(path.parent.iterdir()) == []


def test_tidying_leaves_a_lock_that_is_held_and_takes_its_guard(path: Path) -> None:
    with hold(path, limit=0.0, tell=pytest.fail, on_stale=never):
        tidy(path)
        assert [file.name for file in path.parent.iterdir()] == ["a.lock"]


@pytest.mark.slow
def test_whoever_waits_at_a_guard_that_is_removed_meanwhile_goes_to_the_new_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One looks at a dead process's lock when another tidies up and a third comes: it must wait for the first."""
    plant(path, host=socket.gethostname(), pid=999_999_999)
    looks, go, inside, most = threading.Event(), threading.Event(), [], []
    is_dead = Holder.is_dead

    def slow(holder: Holder) -> bool:
        dead = is_dead(holder)
        if dead and threading.current_thread().name == "first":
            looks.set()
            go.wait(30)
        return dead

    def work() -> None:
        with hold(path, limit=30, tell=lambda line: None, on_stale=lambda: None):
            inside.append(threading.current_thread().name)
            most.append(len(inside))
            time.sleep(0.3)
            inside.remove(threading.current_thread().name)

    monkeypatch.setattr(Holder, "is_dead", slow)
    threads = [threading.Thread(target=work, name=name) for name in ("first", "third")]
    threads[0].start()
    looks.wait(30)
    second = threading.Thread(target=tidy, args=(path,))
    second.start()
    threads[1].start()
    time.sleep(0.2)
    go.set()
    for thread in (*threads, second):
        thread.join(30)
    assert most == [1, 1]
