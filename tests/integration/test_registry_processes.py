"""Processes that share a cache fetch each blob once; after a kill or a full disk, the next run continues."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcmod.core.lock import read_holder
from hpcmod.images.cache import Cache
from hpcmod.images.web.client import _CHUNK
from tests.fault_proxy import Fault, Proxy, run_proxy
from tests.integration.conftest import moments
from tests.integration.test_disk_full import SmallDisk, disk  # noqa: F401 - a fixture
from tests.registry import Registry
from tests.stack import CHECKOUT

NOISE = random.Random(13)  # noqa: S311 - noise for a test, the same each time
LAYERS = [NOISE.randbytes(size) for size in (2_000_000, 1_000_000, 3_000_000, 500_000, 1_500_000)]
SUMS = [hashlib.sha256(layer).hexdigest() for layer in LAYERS]
POINTS = 5
RATE = 6_000_000  # bytes per second and connection, slow enough to hit a given point in time
MIB = 1 << 20
ON_THE_WAY = 4 * 4 * _CHUNK
"""Bytes that a killed process may lose: for four connections, an incomplete chunk and data in the sockets."""


@pytest.fixture
def proxy(registry: Registry) -> Iterator[Proxy]:
    registry.push_image("shared/image", LAYERS)
    with run_proxy(registry.host) as running:
        yield running


def command(proxy: Proxy, cache: Path) -> list[str]:
    script = CHECKOUT / "tests" / "integration" / "fetch_image.py"
    return [sys.executable, str(script), f"docker://{proxy.host}/shared/image:1", str(cache)]


def start(proxy: Proxy, cache: Path) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(command(proxy, cache), stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def run(proxy: Proxy, cache: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(proxy, cache), capture_output=True, text=True, timeout=120, check=False)


def locks(cache: Path) -> list[str]:
    """Return the locks of live processes; a process killed after completing its blob may leave its lock behind."""
    held = (path for path in (cache / "locks").glob("*") if path.suffix != ".guard")
    return [path.name for path in held if (holder := read_holder(path)) and not holder.is_dead()]


def test_eight_concurrent_processes_fetch_each_blob_once(proxy: Proxy, tmp_path: Path) -> None:
    proxy.rate = RATE
    processes = [start(proxy, tmp_path / "cache") for _ in range(8)]
    done = [process.communicate(timeout=120) for process in processes]
    assert [out.split() for out, _ in done] == [SUMS] * 8
    asked = [asked.path for asked in proxy.blobs()]
    layers = [path for path in asked if any(digits in path for digits in SUMS)]
    assert sorted(layers) == sorted(set(layers))
    assert len(layers) == len(LAYERS)
    assert proxy.sent_twice() == 0
    assert [err for _, err in done if "waiting for process" in err]
    assert locks(tmp_path / "cache") == []


def test_a_fetch_killed_anywhere_resumes_and_repeats_at_most_the_last_chunk(proxy: Proxy, tmp_path: Path) -> None:
    proxy.rate = RATE
    began = time.monotonic()
    assert run(proxy, tmp_path / "first").stdout.split() == SUMS
    length = time.monotonic() - began
    killed = resumed = twice = 0
    for number, moment in enumerate(moments(POINTS)):
        for attempt in range(3):  # if the run finished first, the machine is less busy than during the measurement
            cache = tmp_path / f"cache-{number}-{attempt}"
            proxy.sent.clear()
            proxy.rate = RATE
            began = time.monotonic()
            process = start(proxy, cache)
            try:
                process.wait(timeout=moment * length)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                killed += 1
                break
            finally:
                process.communicate()
            length = time.monotonic() - began
        left = {path.name: path.stat().st_size for path in (cache / "partial").glob("*")}
        whole = {path.name for path in (cache / "blobs" / "sha256").glob("*")}
        resumed += any(left.values())
        asked, proxy.rate = len(proxy.asked), 0
        done = run(proxy, cache)
        assert done.stdout.split() == SUMS, done.stderr
        again = {request.path[-64:]: request.start for request in proxy.asked[asked:] if "/blobs/" in request.path}
        assert not whole & set(again)
        assert {name: again[name] for name in set(SUMS) & set(again) if again[name] != left.get(name, 0)} == {}
        assert proxy.sent_twice() <= ON_THE_WAY
        twice = max(twice, proxy.sent_twice())
        assert list((cache / "partial").iterdir()) == []
        assert locks(cache) == []
    print(f"{killed} of {POINTS} killed, {resumed} had something to go on from; at most {twice} bytes came twice")
    assert killed > POINTS // 2
    assert resumed


def test_ctrl_c_leaves_existing_files_and_the_next_run_continues(proxy: Proxy, tmp_path: Path) -> None:
    proxy.rate = 2_000_000
    process = start(proxy, tmp_path / "cache")
    until = time.monotonic() + 30
    while sum(end - begin for _, begin, end in proxy.sent) < 2 * MIB and time.monotonic() < until:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=30)
    left = sum(path.stat().st_size for path in (tmp_path / "cache" / "partial").glob("*"))
    assert left > MIB
    assert locks(tmp_path / "cache") == []
    proxy.rate = 0
    assert run(proxy, tmp_path / "cache").stdout.split() == SUMS
    assert proxy.sent_twice() <= ON_THE_WAY


def test_a_waiting_process_sees_progress_and_takes_over_from_a_dead_one(proxy: Proxy, tmp_path: Path) -> None:
    proxy.faults = [Fault(SUMS[4], stall_at=500_000)]
    first = start(proxy, tmp_path / "cache")
    until = time.monotonic() + 30
    while not any(SUMS[4] in path for path, _, _ in proxy.sent) and time.monotonic() < until:
        time.sleep(0.01)
    second = start(proxy, tmp_path / "cache")
    assert second.stderr is not None
    waits = second.stderr.readline()
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    out, err = second.communicate(timeout=60)
    assert out.split() == SUMS, err
    assert f"waiting for process {first.pid}" in waits
    assert f"removing the lock of process {first.pid}" in err
    assert [asked.start for asked in proxy.blobs() if SUMS[4] in asked.path][1] > 0


def test_missing_space_is_reported_before_any_blob_is_fetched(
    proxy: Proxy,
    disk: SmallDisk,  # noqa: F811
) -> None:
    disk.leave_free(5 * MIB)
    done = disk(*command(proxy, disk.place / "cache"))
    assert done.returncode == 5
    assert "8000000 bytes needed" in done.stderr
    assert "free" in done.stderr
    assert "HPCMOD_CACHE=DIRECTORY" in done.stderr
    assert not [asked for asked in proxy.blobs() if any(digits in asked.path for digits in SUMS)]
    disk.leave_free(10 * MIB)
    assert disk(*command(proxy, disk.place / "cache")).stdout.split() == SUMS


def test_a_disk_that_fills_up_is_one_error_and_space_is_enough_to_continue(
    proxy: Proxy,
    disk: SmallDisk,  # noqa: F811
) -> None:
    disk.leave_free(12 * MIB)
    proxy.rate = 4_000_000
    argv = disk.as_user(*command(proxy, disk.place / "cache"))
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 30
    while sum(end - begin for _, begin, end in proxy.sent) < MIB and time.monotonic() < until:
        time.sleep(0.01)
    disk("sh", "-c", 'exec cat /dev/zero >"$1"', "sh", str(disk.place / "filler"))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 5, err
    assert "No space left on device" in err
    assert "hpcmod cache gc" in err
    assert "Traceback" not in err
    disk("rm", str(disk.place / "filler"))
    proxy.rate = 0
    assert disk(*command(proxy, disk.place / "cache")).stdout.split() == SUMS


@pytest.mark.parametrize("umask", [0o077, 0o022])
def test_a_directory_of_a_group_is_shared_regardless_of_the_umask(proxy: Proxy, tmp_path: Path, umask: int) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2770)
    argv = ["bash", "-c", f'umask {umask:o}; exec "$@"', "bash", *command(proxy, shared)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == SUMS, done.stderr
    for directory in ("blobs", "blobs/sha256", "partial", "locks"):
        assert (shared / directory).stat().st_mode & 0o7777 == 0o2770
    modes = {path.stat().st_mode & 0o777 for path in (shared / "blobs" / "sha256").iterdir()}
    assert modes == {0o660}
    assert Cache(shared).shared
