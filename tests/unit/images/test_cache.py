from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpcmod.core.errors import BadInputError, BusyError, HpcmodError, LackingError, NoSpaceError
from hpcmod.core.fs.temporary import temporary_name
from hpcmod.images import cache as cache_module
from hpcmod.images.cache import Cache, CacheEntry
from tests.locks import write_dead_lock

pytestmark = pytest.mark.slow

CONTENT = b"a blob"
DIGEST = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
DAY = 86_400.0


def digest(number: int) -> str:
    return f"sha256:{number:064x}"


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def fill(cache: Cache, number: int, size: int, used: float) -> None:
    """Store a blob whose contents do not matter."""
    cache.prepare()
    cache.path(digest(number)).write_bytes(bytes(size))
    os.utime(cache.path(digest(number)), (used, used))


def test_stored_blobs_are_found_and_loaded(cache: Cache) -> None:
    assert cache.find(DIGEST, len(CONTENT)) is None
    cache.store(DIGEST, CONTENT)
    assert cache.find(DIGEST, len(CONTENT)) == cache.path(DIGEST)
    assert cache.load(DIGEST, 100) == CONTENT
    assert cache.load(DIGEST, len(CONTENT) - 1) is None
    assert cache.load(DIGEST, 100) == CONTENT
    assert not cache.partial(DIGEST).exists()


def test_the_users_own_cache_is_for_the_user_alone(cache: Cache) -> None:
    cache.store(DIGEST, CONTENT)
    assert cache.directory.stat().st_mode & 0o777 == 0o700
    assert cache.path(DIGEST).stat().st_mode & 0o777 == 0o600
    assert not cache.shared


def test_a_damaged_blob_is_not_used_but_removed(cache: Cache) -> None:
    cache.store(DIGEST, CONTENT)
    assert cache.find(DIGEST, 5) is None, "of another size"
    assert not cache.path(DIGEST).exists()
    cache.store(DIGEST, CONTENT)
    cache.path(DIGEST).write_bytes(CONTENT[::-1])
    assert cache.load(DIGEST, 100) is None
    assert not cache.path(DIGEST).exists()


@pytest.mark.parametrize(
    "text",
    [
        *("", DIGEST[7:], DIGEST[:-1], f"{DIGEST}0", DIGEST.upper(), DIGEST.replace("256", "512")),
        *(f"{DIGEST}\n", "sha256:" + "../" * 21 + "x", "sha256:" + "\u0660" * 64),
    ],
)
def test_only_a_digest_names_a_file(cache: Cache, text: str) -> None:
    with pytest.raises(BadInputError, match="is not a valid digest"):
        cache.path(text)


def test_using_a_blob_is_noted(cache: Cache) -> None:
    cache.store(DIGEST, CONTENT)
    for use in (lambda: cache.find(DIGEST, len(CONTENT)), lambda: cache.load(DIGEST, 100)):
        os.utime(cache.path(DIGEST), (1, 1))
        use()
        assert cache.entries()[0].used > time.time() - 100


def test_a_lock_excludes_others_but_can_be_read(cache: Cache) -> None:
    watched = threading.Event()
    told: list[str] = []

    def wait() -> None:
        with cache.lock(DIGEST, tell=told.append, on_wait=watched.set) as waited:
            told.append(f"waited: {waited}")

    other = threading.Thread(target=wait)
    with cache.lock(DIGEST) as waited:
        assert not waited
        other.start()
        assert watched.wait(10)
        with pytest.raises(BusyError), cache.lock(DIGEST, limit=0):
            pass
    other.join()
    assert told[-1] == "waited: True"
    assert told[0].startswith("waiting for process")


def test_lists_complete_partial_and_busy_entries(cache: Cache) -> None:
    fill(cache, 1, 10, 100.0)
    fill(cache, 2, 20, 50.0)
    cache.partial(digest(3)).write_bytes(b"abc")
    for name in ("notes.txt", "a" * 63, "A" * 64, f"{'a' * 64}.json"):
        cache.path(DIGEST).with_name(name).write_text("of somebody")
    with cache.lock(digest(3)):
        found = cache.entries()
    assert found[0] == CacheEntry(digest(2), 20, 50.0, True, False)
    assert found[1] == CacheEntry(digest(1), 10, 100.0, True, False)
    assert (found[2].digest, found[2].size, found[2].whole, found[2].busy) == (digest(3), 3, False, True)
    assert len(found) == 3


def test_an_empty_cache_has_no_entries_and_is_not_made(cache: Cache) -> None:
    assert cache.entries() == []
    assert not cache.directory.exists()


def test_removing_a_blob_removes_all_its_files(cache: Cache) -> None:
    fill(cache, 1, 10, 0.0)
    cache.partial(digest(1)).write_bytes(b"abc")
    assert cache.remove(digest(1)) == 13
    assert [path for path in cache.directory.rglob("*") if path.is_file()] == []
    assert cache.remove(digest(1)) == 0


def test_a_whole_blob_can_go_though_a_lock_of_it_was_left_on_another_host(cache: Cache) -> None:
    fill(cache, 1, 10, 0.0)
    holder = {"host": "elsewhere", "pid": 1, "started": "?", "user": "somebody", "since": "long ago"}
    (cache.directory / "locks" / digest(1)[7:]).write_text(json.dumps(holder))
    assert not cache.entries()[0].busy
    assert cache.remove(digest(1)) == 10


def test_a_blob_being_fetched_is_not_removed(cache: Cache) -> None:
    cache.prepare()
    cache.partial(digest(1)).write_bytes(b"abc")
    with cache.lock(digest(1)):
        with pytest.raises(BusyError):
            cache.remove(digest(1))
        assert cache.gc(now=time.time() + DAY, oldest=0.0) == []
    assert [entry.digest for entry in cache.gc(now=time.time() + DAY, oldest=0.0)] == [digest(1)]


@pytest.mark.parametrize(
    ("oldest", "most", "gone"),
    [
        *((None, None, []), (10.0, None, [1, 2]), (30.0, None, [])),
        *((None, 60, []), (None, 59, [1]), (None, 49, [1, 2]), (None, 0, [1, 2, 3])),
        *((20.0, 30, [1, 2]), (20.0, 50, [1])),
    ],
)
def test_the_longest_unused_go_first(cache: Cache, oldest: float | None, most: int | None, gone: list[int]) -> None:
    for number, used in ((1, 70.0), (2, 85.0), (3, 95.0)):
        fill(cache, number, number * 10, used)
    planned = cache.gc(now=100.0, oldest=oldest, most=most, dry_run=True)
    assert len(cache.entries()) == 3
    assert cache.gc(now=100.0, oldest=oldest, most=most) == planned
    assert [entry.digest for entry in planned] == [digest(number) for number in gone]
    assert [entry.digest for entry in cache.entries()] == [digest(n) for n in (1, 2, 3) if n not in gone]


def test_a_full_disk_is_reported_with_a_cure(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache_module, "write_all_at", full)
    with pytest.raises(NoSpaceError, match="No space left") as caught:
        cache.store(DIGEST, CONTENT)
    assert "HPCMOD_CACHE" in caught.value.cure
    assert "hpcmod cache gc" in caught.value.cure


def test_a_place_that_cannot_be_a_cache_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LackingError, match="file"):
        Cache(tmp_path / "file" / "cache").store(DIGEST, CONTENT)


@pytest.mark.parametrize("torn", ["", "not json", "[]", '{"host": 1}'])
def test_a_lock_that_cannot_be_read_counts_as_busy_and_is_an_error_with_a_cure(cache: Cache, torn: str) -> None:
    cache.prepare()
    cache.partial(digest(1)).write_bytes(b"abc")
    (cache.directory / "locks" / digest(1)[7:]).write_text(torn)
    assert cache.entries()[0].busy
    with pytest.raises(BusyError, match="not an hpcmod lock file"):
        cache.remove(digest(1))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["blobs/sha256", "partial", "locks", "blobs", "."]),
            st.sampled_from([DIGEST[7:], digest(1)[7:], "x", f"{DIGEST[7:]}.guard", "sha256"]),
            st.none() | st.binary(max_size=8),
        ),
        max_size=6,
    )
)
def test_any_cache_content_gives_our_error_only(tmp_path_factory: pytest.TempPathFactory, files) -> None:  # type: ignore[no-untyped-def]
    cache = Cache(tmp_path_factory.mktemp("cache"))
    for directory, name, content in files:
        place = cache.directory / directory / name
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.mkdir() if content is None else place.write_bytes(content)
        except OSError:
            continue
    uses = [
        cache.entries,
        lambda: cache.find(DIGEST, 6),
        lambda: cache.load(DIGEST, 100),
        lambda: cache.store(DIGEST, CONTENT),
        lambda: cache.gc(now=1e12, oldest=0.0),
        lambda: cache.remove(DIGEST),
    ]
    for use in uses:
        try:
            use()
        except HpcmodError as err:
            assert err.message


def plant(path: Path, kind: str, home: Path) -> None:
    """Create at a path what another user with write permission could put there."""
    home.mkdir(exist_ok=True)
    (home / "thesis").write_text("text")
    if kind == "link":
        path.symlink_to(home / "thesis")
    elif kind == "hard link":
        path.hardlink_to(home / "thesis")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
        (path / "full").touch()
    else:
        path.mkdir(mode=0o000)


KINDS = ["link", "hard link", "fifo", "directory", "closed directory"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["partial", "path"])
def test_a_file_planted_in_place_of_a_blob_is_moved_away(cache: Cache, tmp_path: Path, kind: str, place: str) -> None:
    cache.prepare()
    plant(getattr(cache, place)(DIGEST), kind, tmp_path / "home")
    mode = (tmp_path / "home/thesis").stat().st_mode
    assert cache.load(DIGEST, 100) is None
    cache.store(DIGEST, CONTENT)
    assert cache.find(DIGEST, len(CONTENT))
    assert cache.load(DIGEST, 100) == CONTENT
    assert ((tmp_path / "home/thesis").read_text(), (tmp_path / "home/thesis").stat().st_mode) == ("text", mode)


@pytest.mark.parametrize("place", ["blobs", "blobs/sha256", "partial"])
def test_no_link_in_place_of_a_directory_is_followed(cache: Cache, tmp_path: Path, place: str) -> None:
    cache.prepare()
    other = tmp_path / "other"
    other.mkdir()
    (other / ("a" * 64)).touch()
    (cache.directory / place).rename(tmp_path / "moved")
    (cache.directory / place).symlink_to(other)
    for act in (
        lambda: cache.gc(now=time.time() + DAY, oldest=0.0),
        lambda: cache.store(DIGEST, CONTENT),
        lambda: cache.remove("sha256:" + "a" * 64),
    ):
        with pytest.raises(LackingError, match="symbolic link"):
            act()
    assert [path.name for path in other.iterdir()] == ["a" * 64]


def test_the_mode_is_set_on_the_written_file_even_if_another_has_its_name_now(cache: Cache, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    with cache.lock(DIGEST):
        cache.directory.chmod(0o2770)
        file = cache.open_partial(DIGEST)
        cache.partial(DIGEST).unlink()
        cache.partial(DIGEST).symlink_to(secret)
        cache.keep(DIGEST, file)
        os.close(file)
    assert secret.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("place", ["", "partial"])
@pytest.mark.parametrize("mode", [0o770, 0o777, 0o1777, 0o2770, 0o2777, 0o755])
def test_others_may_change_the_contents_of_a_directory_that_they_may_write(cache: Cache, mode: int, place: str) -> None:
    cache.prepare()
    (cache.directory / place).chmod(mode)
    with cache.lock(DIGEST):
        file = cache.open_partial(DIGEST)
        assert cache.others_may_change(file) == (mode != 0o755)
        os.close(file)


def test_gc_removes_locks_and_temporary_files_of_ended_processes(cache: Cache) -> None:
    fill(cache, 1, 10, used=0)
    ended = temporary_name("x").replace(f"-{os.getpid()}-", f"-{2**22 + 1}-")  # above the highest possible process ID
    left = [cache.directory / name / ended for name in ("blobs/sha256", "partial", "locks")]
    for path in left:
        path.touch()
    left.append(cache.directory / "locks" / ("a" * 64))
    write_dead_lock(left[-1])
    cache.gc(now=DAY, dry_run=True)
    assert all(path.exists() for path in left)
    cache.gc(now=DAY)
    assert not [path for path in left if path.exists()]
    assert cache.path(digest(1)).exists()


def test_a_private_file_that_others_put_into_a_shared_cache_stays_private(tmp_path: Path) -> None:
    directory = tmp_path / "shared"
    directory.mkdir()
    directory.chmod(0o2770)
    cache = Cache(directory)
    cache.prepare()
    diary = cache.partial(DIGEST)
    diary.write_text("secret")
    diary.chmod(0o600)
    with diary.open("rb") as file:
        os.close(cache.open_partial(DIGEST))
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
    assert diary.stat().st_size == 0


@pytest.mark.parametrize("error", [errno.EIO, errno.EDQUOT, errno.ESTALE, errno.EPERM])
def test_a_blob_that_cannot_be_removed_keeps_its_name_and_gc_fails_unless_it_is_another_users(
    cache: Cache, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    fill(cache, 1, 10, used=0)

    def fail(name: str, **_: int) -> None:
        raise OSError(error, os.strerror(error), name)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", fail)
        if error == errno.EPERM:
            assert cache.gc(now=DAY, oldest=0) == []
        else:
            with pytest.raises(HpcmodError, match=os.strerror(error)):
                cache.gc(now=DAY, oldest=0)
    assert [path.name for path in cache.path(digest(1)).parent.iterdir()] == [cache.path(digest(1)).name]
    assert len(cache.gc(now=DAY, oldest=0)) == 1
