"""--launcher ray with a fake Ray whose nodes are processes of this machine."""

from __future__ import annotations

import json
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runscripts.fake_ray import make_fake_ray
from tests.unit.runscripts.scripts import DISTRIBUTED, SYSTEM_PATH, Rank, Scripts, make_program, task

pytestmark = pytest.mark.slow

PROGRAM = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(6))
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
    """A short path, because it contains Ray's sockets; both nodes share it."""
    started: list[Started] = field(default_factory=list)

    def start(self, node: int, *options: str, program: tuple[str, ...] = ("train.py", "stay"), **env: str) -> Started:
        """Start the task of a node."""
        own = {"HPCMOD_CACHE_ROOT": str(self.caches), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "12345", **env}
        process = subprocess.Popen(
            [self.scripts.root / "runscripts" / DISTRIBUTED, "--launcher", "ray", *options, *program],
            env={**self.env, **task(node, (1, 1), SLURM_JOB_ID="1"), **own},
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def call(self, node: int) -> list[Any]:
        """Return the options of a node, its RAY_ADDRESS and its VLLM_HOST_IP."""
        told: list[Any] = json.loads((self.directory / "state" / f"node-{node}").read_text())
        return told


@pytest.fixture
def ray(scripts: Scripts, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RayCluster]:
    fake = make_fake_ray(tmp_path, getattr(request, "param", "2.60.0"))
    make_program(tmp_path / "bin" / "python", f'#!/bin/bash\nexec {sys.executable} "$@"\n')
    (tmp_path / "train.py").write_text(PROGRAM)
    caches = Path("/tmp") / secrets.token_hex(3)
    caches.mkdir(mode=0o700)
    env = {**fake, "PATH": f"{fake['PATH']}:{SYSTEM_PATH}", "USER": "alice", "HPCMOD_KEEP_ENV": "PYTHONPATH"}
    cluster = RayCluster(scripts, tmp_path, {**env, "HOME": str(tmp_path)}, caches)
    with ExitStack() as ending:
        ending.callback(shutil.rmtree, caches)
        yield cluster
        (tmp_path / "state" / "ended").touch()
        for process in cluster.started:
            process.kill()
            process.communicate()


def ended(process: Started) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_a_program_runs_once_on_the_first_node_and_its_status_counts(ray: RayCluster) -> None:
    gpus = {"ROCR_VISIBLE_DEVICES": "2,5", "SLURM_CPUS_PER_TASK": "1", "HPCMOD_RAY_START": "--resources={} --x=y"}
    worker = ray.start(1, RAY_ADDRESS="nid099:6379", **gpus)
    status, out, err = ended(ray.start(0, program=("train.py", "a b"), RAY_ADDRESS="nid099:6379", **gpus))
    assert (status, out) == (7, "program ['a b'] 127.0.0.1:12345 False\n"), err
    assert ended(worker)[:2] == (0, "")
    places = set()
    for node in (0, 1):
        options, address, vllm = ray.call(node)
        assert {"--num-cpus=1", "--num-gpus=2", "--resources={}", "--x=y"} <= set(options)
        assert (address, vllm) == ("127.0.0.1:12345", "127.0.0.1")
        places |= {option for option in options if option.startswith("--temp-dir=")}
    assert len(places) == 2  # although both nodes share the directory of their caches
    assert not [*ray.caches.glob("ray-*")]
    assert (ray.directory / ".ray" / "auth_token").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 5), (signal.SIGUSR1, 6)])
def test_a_signal_reaches_the_program_whose_status_counts(ray: RayCluster, number: int, status: int) -> None:
    worker, head = ray.start(1), ray.start(0)
    assert head.stdout and head.stdout.readline().startswith("program")
    time.sleep(0.1)
    head.send_signal(number)
    assert [ended(each)[0] for each in (head, worker)] == [status, 0]
    assert not [*ray.caches.glob("ray-*")]


def test_a_program_that_ray_did_not_start_is_a_failure(ray: RayCluster) -> None:
    ray.start(1)
    assert ended(ray.start(0, FAKE_RAY_FAILS="0"))[0] == 1


@pytest.mark.parametrize("ray", ["2.51.0"], indirect=True)
def test_an_older_ray_is_refused_by_its_release(ray: RayCluster) -> None:
    status, _, err = ended(ray.start(0))
    assert status == 7 and "this image has Ray 2.51" in err and "'ray>=2.52'" in err


@pytest.mark.parametrize("ray", ["2.54.0"], indirect=True)
def test_nodes_that_share_a_directory_need_a_ray_with_one_for_each(ray: RayCluster) -> None:
    first = ray.start(1)
    while not [*ray.caches.glob("ray-*")]:
        assert first.poll() is None
        time.sleep(0.02)
    status, _, err = ended(ray.start(0))
    assert status == 7 and "Set HPCMOD_CACHE_ROOT to a directory that nodes do not share" in err


def test_a_command_runs_without_python(ray: RayCluster) -> None:
    ray.start(1)
    done = ended(ray.start(0, "--no-python", program=("bash", "-c", "echo $RAY_ADDRESS $1; exit 3", "x", "y")))
    assert done[:2] == (3, "127.0.0.1:12345 y\n")


def test_an_image_without_ray_is_named(ray: RayCluster) -> None:
    (ray.directory / "bin" / "ray").unlink()
    status, _, err = ended(ray.start(0))
    assert status == 7 and "this image has no Ray" in err


def test_options_that_do_not_fit_are_refused(rank: Rank) -> None:
    one, two, three = (task(0, (1, 1), SLURM_JOB_ID=number) for number in "123")
    assert "--no-python needs --launcher ray" in rank(one, "--no-python", "x.py").stderr
    assert "--ranks-per-node is for launchers" in rank(two, "--launcher=ray", "--ranks-per-node=2", "x.py").stderr
    wait = {**three, "HPCMOD_RAY_WAIT": "soon"}
    assert "HPCMOD_RAY_WAIT is 'soon'" in rank(wait, "--launcher=ray", "x.py").stderr
