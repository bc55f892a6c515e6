"""--launcher ray with a fake Ray whose nodes are processes of this machine; tests/e2e/test_ray.py runs a real one."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.unit.runscripts.fake_ray import make_fake_ray
from tests.unit.runscripts.scripts import DISTRIBUTED, SYSTEM_PATH, Rank, Scripts, make_program, task

pytestmark = pytest.mark.slow

THOROUGH = os.environ.get("HPCMOD_THOROUGH") == "1"
PROGRAM = """
import os, signal, sys, time
def stop(*_):
    sys.exit(5)
signal.signal(signal.SIGTERM, stop)
print("program", sys.argv[1:], os.environ["RAY_ADDRESS"], "RANK" in os.environ, flush=True)
if sys.argv[1:] == ["stay"]:
    time.sleep(600)
sys.exit(7)
"""

Started = subprocess.Popen[str]


@dataclass
class RayCluster:
    """Two nodes with one task each."""

    scripts: Scripts
    directory: Path
    env: dict[str, str]
    caches: Path
    """A short path, because it contains Ray's sockets."""
    port: int
    started: list[Started] = field(default_factory=list)

    def start(self, node: int, *options: str, program: tuple[str, ...] = ("train.py", "stay"), **env: str) -> Started:
        """Start the task of a node."""
        root = self.caches / str(node)
        root.mkdir(exist_ok=True)
        own = {"HPCMOD_CACHE_ROOT": str(root), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port), **env}
        argv = [self.scripts.root / "runscripts" / DISTRIBUTED, "--launcher", "ray", *options, *program]
        process = subprocess.Popen(
            argv,
            env={**self.env, **task(node, (1, 1), SLURM_JOB_ID="1"), **own},
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def calls(self) -> list[tuple[str, dict[str, str], bool, str | None]]:
        """Return the calls of the fake, the head first."""
        text = (self.directory / "state" / "calls").read_text()
        return sorted((tuple(json.loads(line)) for line in text.splitlines()), key=lambda call: "head" not in call[1])

    def processes(self) -> list[int]:
        """Return the process IDs of this cluster that are still running."""
        mark, found = f"FAKE_RAY={self.env['FAKE_RAY']}".encode(), []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
            except OSError:
                continue
        return found


@pytest.fixture
def ray(scripts: Scripts, tmp_path: Path) -> Iterator[RayCluster]:
    fake = make_fake_ray(tmp_path)
    make_program(tmp_path / "bin" / "python", f'#!/bin/bash\nexec {sys.executable} "$@"\n')
    (tmp_path / "train.py").write_text(PROGRAM)
    caches = Path("/tmp") / secrets.token_hex(3)
    caches.mkdir(mode=0o700)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = {**fake, "PATH": f"{fake['PATH']}:{SYSTEM_PATH}", "USER": "alice", "HPCMOD_KEEP_ENV": "PYTHONPATH"}
    cluster = RayCluster(scripts, tmp_path, {**env, "RAY_AUTH_MODE": "disabled"}, caches, port)
    with ExitStack() as ending:
        ending.callback(shutil.rmtree, caches)
        yield cluster
        for process in cluster.started:
            process.kill()
            process.communicate()
        for left in cluster.processes():
            os.kill(left, signal.SIGKILL)


def ended(process: Started) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def wait_until_gone(cluster: RayCluster) -> None:
    until = time.monotonic() + 30
    while cluster.processes():
        assert time.monotonic() < until, cluster.processes()
        time.sleep(0.02)


def test_a_program_runs_once_on_the_first_node_and_its_status_counts(ray: RayCluster) -> None:
    gpus = {"ROCR_VISIBLE_DEVICES": "2,5", "SLURM_CPUS_PER_TASK": "1", "HPCMOD_RAY_START": "--resources={} --x=y"}
    worker = ray.start(1, RAY_ADDRESS="nid099:6379", **gpus)
    status, out, err = ended(ray.start(0, program=("train.py", "a b"), RAY_ADDRESS="nid099:6379", **gpus))
    (_, head, inherited, vllm), (_, other, _, _) = ray.calls()
    address = f"127.0.0.1:{head['port']}"
    assert (status, out) == (7, f"program ['a b'] {address} False\n"), err
    assert ended(worker)[:2] == (0, "")
    ports = {name: number for name, number in head.items() if name.endswith("port")}
    assert len({number for number in ports.values() if number != "0"}) == len([n for n in ports.values() if n != "0"])
    node = {"block": "", "node-ip-address": "127.0.0.1", "num-cpus": "1", "num-gpus": "2", "resources": "{}", "x": "y"}
    place = f"{ray.caches}/0/hpcmod-ray-{os.getuid()}-1-0-0"
    assert {name: value for name, value in head.items() if name not in ports} == {**node, "head": "", "temp-dir": place}
    assert {name: value for name, value in other.items() if name not in ports} == {**node, "address": address}
    assert not inherited and vllm == "127.0.0.1"
    assert not ray.processes() and not [*ray.caches.glob("*/hpcmod-ray*")]


def test_a_node_that_does_not_come_is_named(ray: RayCluster) -> None:
    status, out, err = ended(ray.start(0, HPCMOD_RAY_WAIT="1"))
    assert (status, out) == (1, "")
    assert "after 1 s, nid002 has not reached this node. To wait longer: export HPCMOD_RAY_WAIT=2" in err
    assert not ray.processes()


@pytest.mark.parametrize("victim", [0, 1] if THOROUGH else [0])
def test_nothing_is_left_when_a_task_is_killed(ray: RayCluster, victim: int) -> None:
    tasks = [ray.start(0), ray.start(1)]
    assert tasks[0].stdout and tasks[0].stdout.readline().startswith("program")
    tasks[victim].kill()
    if victim:
        assert tasks[0].stderr
        assert any("nid002 has ended without a message. The program goes on" in line for line in tasks[0].stderr)
        tasks[0].terminate()
        assert ended(tasks[0])[0] == 5
    else:
        status, _, err = ended(tasks[1])
        assert status == 1 and "nid001, the first node, has ended" in err
    wait_until_gone(ray)


def test_options_that_do_not_fit_are_refused(rank: Rank) -> None:
    one, two, three = (task(0, (1, 1), SLURM_JOB_ID=number) for number in "123")
    assert "--no-python needs --launcher ray" in rank(one, "--no-python", "x.py").stderr
    assert "--ranks-per-node is for launchers" in rank(two, "--launcher=ray", "--ranks-per-node=2", "x.py").stderr
    wait = {**three, "HPCMOD_RAY_WAIT": "soon"}
    assert "HPCMOD_RAY_WAIT is 'soon'" in rank(wait, "--launcher=ray", "x.py").stderr


if THOROUGH:

    def test_a_signal_reaches_the_program_whose_status_counts(ray: RayCluster) -> None:
        tasks = [ray.start(0), ray.start(1)]
        assert tasks[0].stdout and tasks[0].stdout.readline().startswith("program")
        tasks[0].terminate()
        assert [ended(each)[0] for each in tasks] == [5, 0]
        assert not ray.processes()

    def test_a_signal_before_the_program_ends_all_nodes(ray: RayCluster) -> None:
        head = ray.start(0)
        while not (ray.directory / "state" / "calls").exists():
            time.sleep(0.02)
        head.terminate()
        assert ended(head)[0] == -signal.SIGTERM
        assert not ray.processes()

    def test_a_command_runs_without_python(ray: RayCluster) -> None:
        ray.start(1)
        words = ("--no-python",)
        done = ended(ray.start(0, *words, program=("bash", "-c", "echo $RAY_ADDRESS $1; exit 3", "x", "y")))
        assert done[0] == 3 and done[1].endswith(" y\n")

    @pytest.mark.parametrize("node", [0, 1])
    def test_the_last_words_of_ray_are_printed(ray: RayCluster, node: int) -> None:
        ray.start(1, FAKE_RAY_FAILS=str(node))
        status, _, err = ended(ray.start(0, FAKE_RAY_FAILS=str(node)))
        assert status == 1 and "the fake cannot start" in err and f"nid00{node + 1}" in err

    def test_a_node_with_another_token_is_refused(ray: RayCluster) -> None:
        tokens = {"RAY_AUTH_MODE": "token", "HPCMOD_RAY_WAIT": "2"}
        worker = ray.start(1, **{"RAY_AUTH_TOKEN": "a", **tokens})
        head = ray.start(0, **{"RAY_AUTH_TOKEN": "b", **tokens})
        status, _, err = ended(worker)
        assert status == 1 and "not the same token" in err
        assert ended(head)[0] == 1

    def test_a_program_at_the_port_of_the_head_is_recognized(ray: RayCluster) -> None:
        tokens = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a", "HPCMOD_RAY_WAIT": "5"}
        worker = ray.start(1, **tokens)
        with socket.create_server(("127.0.0.1", ray.port)) as listener:
            connection, _ = listener.accept()
            connection.sendall(b'{"nonce": "1"}\n{"proof": "2", "address": "127.0.0.1:9"}\n')
            status, _, err = ended(worker)
            connection.close()
        assert status == 1 and "belongs to another program. Set MASTER_PORT" in err

    def test_a_directory_of_several_nodes_is_refused(ray: RayCluster) -> None:
        ray.start(1, HPCMOD_CACHE_ROOT=str(ray.caches))
        status, _, err = ended(ray.start(0, HPCMOD_CACHE_ROOT=str(ray.caches)))
        assert status == 1 and "is shared by several nodes. Set HPCMOD_CACHE_ROOT to a node-local directory" in err

    def test_an_image_without_ray_is_named(ray: RayCluster) -> None:
        (ray.directory / "bin" / "ray").unlink()
        status, _, err = ended(ray.start(0))
        assert status == 1 and "this image has no Ray" in err
