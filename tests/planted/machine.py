"""Four virtual nodes on which faults are planted, and functions that run the commands there."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.e2e.conftest import EASYCONFIG, OF_LUMIS_PAGE, Jobs, installed, must
from tests.planted.plants import BENCH, CHECK, VERIFY_NET, Plant, node
from tests.stack import CHECKOUT, Cluster, Done, Stack, start_cluster, stop_cluster

HERE = Path(__file__).parent
PARTITION = "small-g"
PORT = "23457"

CHECKED = """
name = "checked"
extends = "generic"
[network]
interfaces = ["hsn0"]
[binds]
required = ["{top}/bound/data"]
[caches]
node_local = "{top}/local"
[nodes]
default = "node"
[nodes.node]
cores = {cores}
partitions = ["small", "standard"]
[job]
exclusive = ["standard"]
"""

PLAIN = """
name = "plain"
extends = "generic"
[network]
interfaces = ["hsn0"]
[environment]
GLOO_SOCKET_IFNAME = "hsn0"
"""

CLOCK = "import os, time\nreal = time.time\ntime.time = lambda: real() + float(os.environ['AHEAD'])\n"

LISTEN = """
first=$(scontrol show hostnames | head -n1)
srun --overlap -N1 -n1 -w $first python3 -c "{code}" & holder=$!
sleep 2
MASTER_PORT={port} "$@"
status=$?
kill $holder
wait
exit $status
"""
HOLD = "import socket, time; s = socket.socket(); s.bind(('', {port})); s.listen(); time.sleep(90)"


def plant_on_nodes(top: Path, path: str) -> dict[str, str]:
    """Put a python3 that plants faults for `hpcmod check` first on PATH, and return the environment that it needs.

    The caller adds FAULTS, which lists them: "nid002=full:/tmp:1m nid003=mask:0".
    """
    for name in ("bin", "clock", "bound/data", "local/mine"):
        (top / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "python3", top / "bin")
    (top / "clock" / "sitecustomize.py").write_text(CLOCK)
    site = top / "checked.toml"
    site.write_text(CHECKED.format(top=top, cores=os.cpu_count()))
    own = {"PATH": f"{top / 'bin'}:{path}", "HPCMOD_SITE": str(site), "TOP": str(top)}
    return {**own, "PLANT_PROGRAM": str(HERE / "fault.sh")}


def change_image(image: Path, directory: Path) -> None:
    """Write damaged versions of an image: with changed bytes, of another size, or empty."""
    directory.mkdir()
    data = bytearray(image.read_bytes())
    places = {"first": 100, "middle": len(data) // 2, "last": len(data) - 1}
    for name, at in places.items():
        data[at] ^= 1
        (directory / name).write_bytes(data)
        data[at] ^= 1
    size = len(data)
    (directory / "shorter").write_bytes(data[:-4096])
    (directory / "longer").write_bytes(data + bytes(4096))
    (directory / "empty").write_bytes(b"")
    (directory / "text").write_bytes(b"<html>404 Not Found</html>")
    (directory / "swapped").write_bytes(data[size // 2 :] + data[: size // 2])


@dataclass(frozen=True)
class Planted:
    """The machine with its modules, and a directory for planted faults."""

    stack: Stack
    cluster: Cluster
    top: Path

    @cached_property
    def tiny(self) -> Jobs:
        """Jobs with a small image."""
        top = self.top / "tiny"
        top.mkdir()
        easyconfig = top / f"{OF_LUMIS_PAGE}.eb"
        easyconfig.write_text(EASYCONFIG)
        return installed(self.stack, top, self.cluster, easyconfig, self.stack.tiny_sif)

    @cached_property
    def torch(self) -> Jobs:
        """Jobs with an image that has PyTorch."""
        top = self.top / "torch"
        top.mkdir()
        (top / "plain.toml").write_text(PLAIN)
        easyconfig = CHECKOUT / "easyconfigs/p/PyTorch/PyTorch-2.13.0-cpu-singularity.eb"
        return installed(self.stack, top, self.cluster, easyconfig, self.stack.torch_sif)

    @cached_property
    def image(self) -> str:
        """Path of the small image."""
        path = must(self.tiny("bash", "-c", "module load PyTorch && echo $SIF")).stdout.strip()
        change_image(Path(path), self.top / "images")
        return path

    def jobs(self, name: str) -> Jobs:
        """Return jobs with their own directory."""
        jobs = replace(self.torch, directory=self.top / "jobs" / name)
        (jobs.directory / "caches").mkdir(parents=True)
        return jobs

    def run(self, plant: Plant) -> dict[str, Any]:
        """Plant a fault, and return the command's JSON report, with `exit_code`."""
        run = {CHECK: self._check, VERIFY_NET: self._verify_net, BENCH: self._bench}.get(plant.command, self._why)
        return run(plant)

    def _check(self, plant: Plant) -> dict[str, Any]:
        image = self.image
        names = {"top": str(self.top / "nodes"), "image": image, "folder": str(Path(image).parent)}
        path = self.stack.environment(Path.home())["PATH"]
        own = plant_on_nodes(self.top / "nodes", path)
        if not (self.top / "nodes" / "images").exists():
            (self.top / "nodes" / "images").symlink_to(self.top / "images")
        own["FAULTS"] = " ".join(plant.faults).format(**names)
        name, _, value = plant.settings.format(**names).partition("=")
        words = ("hpcmod", "check", "PyTorch", "-N", str(plant.nodes), "--json", *(plant.words or ("-p", "small")))
        return _read(self.tiny(*words, seconds=280, **own, **({name: value} if name else {})))  # its step: up to 120 s

    def _on_ranks(self, plant: Plant) -> dict[str, str]:
        """Return the environment for the container runtime's shim, which plants a fault."""
        settings = plant.settings
        if not (settings or plant.fault):
            return {}
        rank = "all" if plant.rank is None else str(plant.rank)
        shims = self.top / "shims"
        shims.mkdir(exist_ok=True)
        for name in ("apptainer", "singularity"):
            shutil.copy(HERE / "runtime", shims / name)
        path = f"{shims}:{self.stack.environment(Path.home())['PATH']}"
        own = {"PLANT_RANK": rank, "PLANT_SET": settings, "PLANT_FAULT": plant.fault, "PATH": path}
        return {**own, "PLANT_PROGRAM": str(HERE / "fault.sh"), "TOP": str(self.top)}

    def _verify_net(self, plant: Plant) -> dict[str, Any]:
        jobs = self.jobs(plant.name)
        place = ("-N", str(plant.nodes), "-p", PARTITION, "-t", "5")
        words = [str(self.program), "verify-net", "PyTorch", "--ranks-per-node", str(plant.each), "--timeout", "15"]
        words += ["--json", *plant.words]
        if plant.fault == "port":
            script = LISTEN.format(code=HOLD.format(port=PORT), port=PORT)
            return _read(jobs("salloc", *place, f"--ntasks-per-node={plant.each}", "bash", "-c", script, "-", *words))
        return _read(jobs(*words, *place, **self._on_ranks(plant)))

    def _bench(self, plant: Plant) -> dict[str, Any]:
        jobs = self.jobs(plant.name)
        place = ("-N", str(plant.nodes), "-p", "small", "-t", "5", "--ranks-per-node", str(plant.each))
        words = (self.program, "bench", "PyTorch", "--json", *place, *plant.words)
        site = str(self.torch.site.parent / "plain.toml")
        own = {**self._on_ranks(plant), "HPCMOD_SITE": site, "XDG_STATE_HOME": str(jobs.directory)}
        return _read(jobs(*words, seconds=280, **own))  # less than the job's time limit

    @property
    def program(self) -> Path:
        """Path of hpcmod."""
        return self.stack.python.parent / "hpcmod"

    def submit(self, jobs: Jobs, shape: Plant, programs: Sequence[dict[str, object]]) -> str:
        """Submit a job with rank.py, and return its ID."""
        settings = shape.settings.format(local=self.cluster.dir / "local")
        if shape.kind == "bind":
            self._make_bound()
        name, _, value = settings.partition("=")
        (jobs.directory / "train.py").write_text((HERE / "rank.py").read_text())
        place = [
            "-N",
            str(shape.nodes),
            "-p",
            PARTITION,
            "--gpus",
            str(shape.each),
            "--env",
            "TORCH_FR_BUFFER_SIZE=100",
        ]
        own = {name: value} if name else {}
        return jobs.submit(*place, "--", "train.py", *(json.dumps(one) for one in programs), **own)

    def _make_bound(self) -> None:
        """Make directories in the nodes' own storage: bound-N is missing on node N only."""
        for own in range(1, 5):
            for bad in range(1, 5):
                directory = self.cluster.dir / "nodes" / node(own) / f"bound-{bad}"
                if bad != own:
                    directory.mkdir(exist_ok=True)
                    (directory / "data").write_text("data")

    def _why(self, plant: Plant) -> dict[str, Any]:
        jobs = self.jobs(plant.name)
        number = self.submit(jobs, plant, [{"name": plant.name, **plant.program}])
        try:
            if not plant.live:
                jobs.wait(number)
                return self.explain(jobs, number)
            self._wait_until_started(jobs, number, plant.nodes * plant.each)
            return self.explain(jobs, number)
        finally:
            jobs("scancel", number)
            jobs.wait(number)

    def _wait_until_started(self, jobs: Jobs, number: str, ranks: int) -> None:
        while jobs.output(number).count("started") < ranks:
            time.sleep(0.2)
            if jobs.state(number) not in ("PENDING", "RUNNING"):
                raise RuntimeError(jobs.output(number))
        time.sleep(2)  # ranks that do not wait must reach the next collective

    def explain(self, jobs: Jobs, *words: str) -> dict[str, Any]:
        """Return the JSON report of `hpcmod why`."""
        path = f"{self.stack.root / 'tools' / 'py-spy' / 'bin'}:{os.environ['PATH']}"
        return _read(jobs(self.program, "why", "--json", *words, PATH=path))

    def run_together(self, plants: Sequence[Plant]) -> Iterator[tuple[Plant, dict[str, Any]]]:
        """Plant faults one after another in one job, and yield the report of `hpcmod why` on the logs of each."""
        jobs = self.jobs(plants[0].name)
        programs = [{"name": plant.name, **plant.program} for plant in plants]
        number = self.submit(jobs, plants[0], [*programs, {"name": "last", "fault": "none"}])
        jobs.wait(number, seconds=600)
        for plant in plants:
            logs = sorted(path.name for path in jobs.directory.glob(f"{plant.name}[-_]*"))
            yield plant, self.explain(jobs, *logs) if logs else {"stderr": jobs.output(number)}


def _read(done: Done) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    return {**values, "exit_code": done.returncode, "stderr": done.stderr[-2000:]}


@contextmanager
def start_machine(stack: Stack, top: Path) -> Iterator[Planted]:
    """Start four virtual nodes like those of a large machine."""
    options = ("-n", "4", "-c", "288", "-s", "4", "-g", "8", "-t", "14000")
    cluster = start_cluster(stack, f"planted-{os.getpid()}", *options)
    try:
        yield Planted(stack, cluster, top)
    finally:
        stop_cluster(cluster)
