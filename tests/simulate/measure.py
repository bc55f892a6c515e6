"""Measure what starting ranks costs on one node, and how long it takes on 1 to 8 virtual nodes of dev/cluster.

All virtual nodes share the cores of this machine. CPU time is that of this process's cgroup, so other programs are not
counted, but they make the measured wall times longer.
"""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hpcmod.model.plan import RunscriptSettings
from hpcmod.render.runscript import RUNSCRIPTS, render_runscript
from hpcmod.resources import runscript_templates
from tests.bench.measure import must
from tests.stack import CHECKOUT, Cluster, find_stack, read_stack, start_cluster, stop_cluster

_SIF = "SIFSIMULATION"
NODES = (1, 2, 4, 8)
RANKS = 2
"""Ranks per virtual node: 16 Python processes with torch need 4 GB."""

_PROGRAM = """\
import os, sys, time
import torch
open(f"{sys.argv[1]}/ready-{os.environ['RANK']}", "w").close()
while not os.path.exists(f"{sys.argv[1]}/go"):
    time.sleep(0.02)
"""

RANKS_OF_ONE = {"plain": (1, 4, 16), "fork": (2, 8), "one-per-node": (2, 8)}
"""Numbers of ranks on the one node that calibrates the model; 16 only show what more ranks than cores cost."""

MOST_BUSY = 0.3
"""Cores that other programs may use: their time is counted where no cgroup separates them."""

WAYS = ("plain", "sbcast", "tree", "fork", "one-per-node")
STAGED = ("sbcast", "tree")


@dataclass(frozen=True)
class Cost:
    """Wall time in seconds, and CPU seconds of all processes together."""

    wall: float
    cpu: float


def cpu_seconds() -> float:
    """Return the CPU seconds of this process's cgroup so far; if that is the root, those of the whole machine."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "cpuacct":
            return int(Path(f"/sys/fs/cgroup/cpuacct{path}/cpuacct.usage").read_text()) / 1e9
        if not controllers and (stat := Path(f"/sys/fs/cgroup{path}/cpu.stat")).exists():
            return int(stat.read_text().split()[1]) / 1e6
    raise SystemExit("no cgroup counts the CPU time of this process")


def busy_cores() -> float:
    """Return the average number of cores in use over the next two seconds."""
    used = cpu_seconds()
    time.sleep(2)
    return (cpu_seconds() - used) / 2


class Bench:
    """Starts ranks on a cluster as a job does, with a rendered set of run scripts."""

    def __init__(self, cluster: Cluster, work: Path) -> None:
        self._cluster, self._work, self._scripts = cluster, work, work / "scripts"
        self._stack, self._local, self._count = cluster.stack, cluster.dir / "local", 0
        self._scripts.mkdir()
        for name in RUNSCRIPTS:
            settings = RunscriptSettings("simulation/1", _SIF)
            path = self._scripts / name
            path.write_text(render_runscript(name, settings, templates=runscript_templates()))
            path.chmod(0o755)
        (work / "train.py").write_text(_PROGRAM)
        (work / "nothing.py").write_text("import sys\n")

    def step(self, ranks: int) -> Cost:
        """Measure an empty step on one node."""
        return self._run([*_srun(1, ranks), "true"])

    def containers(self, ranks: int) -> Cost:
        """Measure a step with a container for each rank."""
        return self._run([*_srun(1, ranks), *self._container(), str(self._stack.torch_sif), "true"])

    def pythons(self, ranks: int) -> Cost:
        """Measure a step with an empty Python program."""
        program = ("/runscripts/conda-python-distributed", str(self._work / "nothing.py"))
        return self._run([*_srun(1, ranks), *self._container(), str(self._stack.torch_sif), *program])

    def stage(self, way: str, image: Path) -> tuple[Cost, float]:
        """Measure staging to one node; also return the CPU seconds of the node where the script runs."""
        script = f"TIMEFORMAT='%U %S'; time {self._stage(way)} >{self._work}/staged 2>&1"
        argv = ["salloc", "--quiet", "--nodes=1", "bash", "-c", f"exec 2>{self._work}/times; {script}"]
        cost = self._run(argv, image)
        return cost, sum(map(float, (self._work / "times").read_text().split()[-2:]))

    def start(self, way: str, nodes: int, ranks: int) -> Cost:
        """Start ranks that import torch; return the cost until the last one is ready."""
        self._count += 1
        place = self._work / f"{way}-{self._count}"
        place.mkdir()
        spawn = ("--spawn",) if way == "fork" else ()
        first = (str(self._scripts / "one-per-node"),) if way == "one-per-node" else ()
        program = ("/runscripts/conda-python-distributed", *spawn, str(self._work / "train.py"), str(place))
        step = (*_srun(nodes, ranks), *first, *self._container())
        argv = [*step, str(self._stack.torch_sif), *program]
        if way in STAGED:
            script = f'staged=$({self._stage(way)}) && eval "$staged" && exec {" ".join((*step, "$SIF", *program))}'
            argv = ["salloc", "--quiet", f"--nodes={nodes}", f"--ntasks-per-node={ranks}", "bash", "-c", script]
        began, used = time.perf_counter(), cpu_seconds()
        line = [str(CHECKOUT / "dev" / "cluster"), "exec", str(self._cluster.dir), *argv]
        env = {**self._stack.environment(Path.home()), **self._environment(self._stack.torch_sif)}
        job = subprocess.Popen(line, env=env, cwd=self._work, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while len(list(place.glob("ready-*"))) < nodes * ranks:
            time.sleep(0.01)
            if job.poll() is not None:
                raise SystemExit(f"{way}: a rank exited early")
        cost = Cost(time.perf_counter() - began, cpu_seconds() - used)
        (place / "go").touch()
        job.wait()
        return cost

    def bytes_of_start(self) -> int:
        """Return how many bytes of the image the start of one rank reads if the page cache has none of them."""
        image = self._stack.torch_sif
        must(["dd", f"if={image}", "iflag=nocache", "count=0", "status=none"])
        self.start("plain", 1, 1)
        return int(must(["fincore", "--bytes", "--noheadings", "--output", "RES", image]).stdout)

    def calls_of_container(self) -> int:
        """Return the number of system calls with a path below the image, the working directory or the home
        directory.
        """
        log, image = self._work / "calls-of-container", self._stack.torch_sif
        # with a seccomp filter, strace does not stop squashfuse, which serves the files of the traced processes
        trace = ["strace", "-f", "--seccomp-bpf", "-qq", "-e", "trace=%file", "-e", "signal=none", "-o", str(log)]
        must([*trace, *self._container(), image, "true"])
        paths = tuple(f'"{path}' for path in (image, self._work, Path.home()))
        return sum(any(path in line for path in paths) for line in log.read_text(errors="replace").splitlines())

    def calls_of_python(self) -> int:
        """Return the number of system calls with a path that importing torch makes."""
        log, go, pid = (self._work / name for name in ("calls", "started", "pid"))
        code = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid()))"
        code += f"\nwhile not os.path.exists({str(go)!r}): time.sleep(0.02)\nimport torch"
        program = ("/runscripts/conda-python-distributed", "-c", code)
        argv = [*self._container(), str(self._stack.torch_sif), *program]
        env = {**self._stack.environment(Path.home()), **self._environment(self._stack.torch_sif)}
        env["HPCMOD_CACHE_ROOT"] = str(self._work)
        python = subprocess.Popen(argv, env=env, cwd=self._work, stdin=subprocess.DEVNULL)
        while not pid.exists() or not pid.read_text():
            time.sleep(0.02)
        trace = ("strace", "-f", "-qq", "-e", "trace=%file", "-e", "signal=none", "-o", str(log), "-p", pid.read_text())
        tracer = subprocess.Popen(trace)
        while f"{go}" not in (log.read_text() if log.exists() else ""):
            time.sleep(0.02)
        go.touch()
        python.wait()
        tracer.wait()
        return sum(str(go) not in line for line in log.read_text(errors="replace").splitlines())

    def _run(self, argv: Sequence[str], image: Path | None = None) -> Cost:
        began, used = time.perf_counter(), cpu_seconds()
        done = self._cluster(*argv, **self._environment(image or self._stack.torch_sif))
        if done.returncode:
            raise SystemExit(f"{' '.join(argv)}\n{done.stdout}{done.stderr}")
        return Cost(time.perf_counter() - began, cpu_seconds() - used)

    def _stage(self, way: str) -> str:
        by = " --by tree" if way == "tree" else ""
        return f"{self._scripts}/stage-image{by} {self._local}"

    def _container(self) -> tuple[str, ...]:
        binds = (f"{self._scripts}:/runscripts", str(self._work), str(self._local))
        return (str(self._stack.apptainer), "exec", *(word for bind in binds for word in ("--bind", bind)))

    def _environment(self, image: Path) -> dict[str, str]:
        own = {"RUNSCRIPTS": str(self._scripts), "SIF": str(image), _SIF: str(image), "LC_ALL": "C"}
        return {**own, "HPCMOD_CACHE_ROOT": str(self._local), "APPTAINER_QUIET": "1"}


def _srun(nodes: int, ranks: int) -> tuple[str, ...]:
    return ("srun", f"--nodes={nodes}", f"--ntasks-per-node={ranks}", "--mpi=none")


@dataclass
class _Found:
    """Measurements so far, by name; points by method and number of nodes."""

    single: dict[str, list[Cost]] = field(default_factory=dict)
    senders: dict[str, list[float]] = field(default_factory=dict)
    points: dict[tuple[str, int], list[Cost]] = field(default_factory=dict)
    background: list[float] = field(default_factory=list)


def _measure_round(bench: Bench, image: Path, small: Path, ways: Sequence[str], found: _Found) -> None:
    """Measure everything once, in random order: a machine that becomes slower or faster affects all alike."""
    found.background.append(busy_cores())
    work = list(_list_work(bench, image, small, ways, found))
    random.Random(len(found.background)).shuffle(work)  # noqa: S311 - no secret
    for measure_one in work:
        measure_one()


def _list_work(
    bench: Bench, image: Path, small: Path, ways: Sequence[str], found: _Found
) -> Iterator[Callable[[], None]]:
    def single(name: str, run: Callable[[], Cost]) -> Callable[[], None]:
        return lambda: found.single.setdefault(name, []).append(run())

    def stage(name: str, way: str, file: Path) -> None:
        cost, sender = bench.stage(way, file)
        found.single.setdefault(name, []).append(cost)
        found.senders.setdefault(name, []).append(sender)

    for ranks in (1, 2, 8):
        yield single(f"step-{ranks}", partial(bench.step, ranks))
        yield single(f"container-{ranks}", partial(bench.containers, ranks))
        yield single(f"python-{ranks}", partial(bench.pythons, ranks))
    for way in ways:
        for ranks in RANKS_OF_ONE.get(way, ()):
            yield single(f"{way}-{ranks}", partial(bench.start, way, 1, ranks))
        for name, file in (("small", small), ("image", image)) if way in STAGED else ():
            yield partial(stage, f"{way}-{name}", way, file)
        for nodes in NODES:
            start = partial(bench.start, way, nodes, RANKS)
            yield lambda way=way, nodes=nodes, start=start: found.points.setdefault((way, nodes), []).append(start())  # type: ignore[misc]


def _render(found: _Found) -> Iterator[str]:
    """Yield lines of TOML: each round of all measurements."""
    yield "[single]"
    for name, costs in sorted(found.single.items(), key=_number):
        yield f'"{name}" = {{ wall = {_list(cost.wall for cost in costs)}, cpu = {_list(cost.cpu for cost in costs)} }}'
    yield "[sender]"
    for name, seconds in sorted(found.senders.items(), key=_number):
        yield f'"{name}" = {_list(seconds)}'
    for (way, nodes), costs in sorted(found.points.items(), key=lambda point: (point[0][1], WAYS.index(point[0][0]))):
        yield f'[[points]]\nway = "{way}"\nnodes = {nodes}\nranks = {RANKS}'
        yield f"wall = {_list(cost.wall for cost in costs)}\ncpu = {_list(cost.cpu for cost in costs)}"


def _number(item: tuple[str, object]) -> tuple[str, int]:
    name, _, ranks = item[0].rpartition("-")
    return name, int(ranks) if ranks.isdecimal() else 0


def _list(seconds: Iterable[float]) -> str:
    return f"[{', '.join(f'{each:.3f}' for each in seconds)}]"


def measure(
    minutes: float, ways: Sequence[str] = WAYS, *, most_busy: float = MOST_BUSY, say: Callable[[str], object] = print
) -> str:
    """Return a file like measured.toml, of as many rounds of all measurements as fit into the time, at least one.

    Stop if more than `most_busy` cores are in use by other programs.
    """
    stack = read_stack(find_stack())
    if stack is None:
        raise SystemExit("no test stack: run dev/stack")
    if (busy := busy_cores()) > most_busy:
        raise SystemExit(f"other programs use {busy:.2f} cores, whose time would be counted: end them, or --busy")
    began, found = time.monotonic(), _Found()
    cluster = start_cluster(stack, f"simulate-{os.getpid()}", "-n", str(max(NODES)), "-c", "16")
    try:
        with tempfile.TemporaryDirectory(prefix="hpcmod-simulate-", dir=stack.root) as work:
            bench = Bench(cluster, Path(work))
            bench.start("plain", max(NODES), RANKS)  # so that the page cache has the image, and this machine its memory
            image, small = stack.torch_sif, stack.tiny_sif
            calls = f"container_calls = {bench.calls_of_container()}\npython_calls = {bench.calls_of_python()}"
            first = time.monotonic()
            while True:
                _measure_round(bench, image, small, ways, found)
                rounds, now = len(found.background), time.monotonic()
                say(
                    f"round {rounds}: {(now - began) / 60:.1f} minutes, {found.background[-1]:.2f} cores busy before it"
                )
                if now + (now - first) / rounds - began > 60 * minutes:
                    break
            start_bytes = bench.bytes_of_start()
    finally:
        stop_cluster(cluster)
    head = [
        f"# Written by `python -m tests.simulate renew`, on the virtual nodes of dev/cluster, in {rounds} rounds.",
        "# Each list: one value per round. [single]: on one node. background: cores in use before the round.",
        f'date = "{time.strftime("%Y-%m-%d", time.gmtime())}"\ncores = {os.cpu_count()}',
        f"background = [{', '.join(f'{cores:.2f}' for cores in found.background)}]",
        f"image_bytes = {image.stat().st_size}\nsmall_bytes = {small.stat().st_size}",
        f"{calls}\n[cold]\nstart_bytes = {start_bytes}",
    ]
    return "\n".join([*head, *_render(found), ""])
