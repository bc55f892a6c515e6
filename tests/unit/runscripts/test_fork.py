"""Ranks forked from one Python (--spawn) behave like ranks that start their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hpcmod.modules.values.plan import RunscriptSettings
from tests.stack import until
from tests.unit.runscripts.fork_programs import PROGRAMS, Program
from tests.unit.runscripts.scripts import DISTRIBUTED, SYSTEM_PATH, Scripts, task

pytestmark = pytest.mark.slow

PRELOADED = "xmlrpc.client"
"""A module that no program here imports: if it is imported, the process was forked."""


Started = subprocess.Popen[bytes]
Ended = tuple[int, str, str]


@dataclass(frozen=True)
class Node:
    """One node with the ranks of a step: tasks as Slurm starts them."""

    scripts: Scripts
    directory: Path
    on_host: bool = False
    """Whether to start one "container" for all ranks, which here is just the run script."""

    @contextmanager
    def start(
        self,
        program: Program,
        *options: str,
        ranks: int = 2,
        each: Callable[[int], dict[str, str]] = lambda _: {},
        **env: str,
    ) -> Iterator[list[Started]]:
        """Start the ranks; at the end, kill those that still run."""
        file = self.directory / "train.py"
        file.write_text(program.text)
        target = [] if {"-c"} & {*program.before} or not program.text else [str(file)]
        words = [*program.before, *target, *program.after]
        own = {"PATH": python_path(), "USER": "alice", "HPCMOD_CACHE_ROOT": str(self.directory / "caches")}
        shared = {**own, "MASTER_PORT": "20000", "LANG": "C.UTF-8", **dict(program.env), **env}
        scripts = self.scripts.root / "runscripts"
        first = [scripts / "one-per-node"] if self.on_host else []
        argv = [*first, scripts / DISTRIBUTED, *options, *(["--"] if options else []), *words]
        started = [
            subprocess.Popen(
                argv,
                env={**shared, **task(rank, (ranks,)), **each(rank)},
                cwd=self.directory,
                start_new_session=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for rank in range(ranks)
        ]
        try:
            yield started
        finally:
            for process in started:
                process.kill()
                process.communicate()

    def __call__(self, program: Program, *options: str, ranks: int = 2, **env: str) -> list[Ended]:
        """Run to completion; return status, stdout and stderr of each rank."""
        with self.start(program, *options, ranks=ranks, **env) as started:
            return ends(started, program.stdin)


def ends(started: list[Started], stdin: str = "") -> list[Ended]:
    """Wait for all ranks concurrently, because the first one ends last."""

    def wait(rank: Started) -> Ended:
        out, err = rank.communicate(stdin.encode(), timeout=60)
        return rank.returncode, out.decode(errors="backslashreplace"), err.decode()

    with ThreadPoolExecutor(len(started)) as pool:
        return list(pool.map(wait, started))


def python_path() -> str:
    return f"{Path(sys.executable).parent}:{SYSTEM_PATH}"


@pytest.fixture
def node(settings: RunscriptSettings, tmp_path: Path) -> Node:
    (tmp_path / "work").mkdir()
    return Node(Scripts(tmp_path).write(settings), tmp_path / "work")


def cleaned(ended: list[Ended]) -> list[Ended]:
    """Replace what differs between any two runs: addresses and times."""
    varying = re.compile(r"0x[0-9a-f]+|\d+\.?\d* [un]?sec|in \d+\.\d+s")
    return [(status, varying.sub("#", out), varying.sub("#", err)) for status, out, err in ended]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_forked_program_equals_a_plain_one(node: Node, name: str) -> None:
    plain = node(PROGRAMS[name])
    forked = node(PROGRAMS[name], "--spawn", "--preload", PRELOADED)
    assert not any("plain start" in err for _, _, err in forked), forked
    assert cleaned(forked) == cleaned(plain)


def test_a_program_in_one_container_per_node_equals_a_plain_one(node: Node) -> None:
    plain = node(PROGRAMS["environment"])
    shared = replace(node, on_host=True)(PROGRAMS["environment"], "--preload", PRELOADED)
    assert not any("plain start" in err for _, _, err in shared), shared
    assert cleaned(shared) == cleaned(plain)
    timed = replace(node, on_host=True)(PROGRAMS["environment"], HPCMOD_TIMING="1")
    assert "not with one-per-node: HPCMOD_TIMING, HPCMOD_PROFILE_RANK, --launcher" in timed[0][2]


WHO_FORKED = Program("import sys\nprint('forked' if 'xmlrpc.client' in sys.modules else 'plain')\n")


def test_ranks_are_forked_on_request_only(node: Node) -> None:
    assert [out for _, out, _ in node(WHO_FORKED, "--spawn", "--preload", PRELOADED)] == ["forked\n"] * 2
    assert [out for _, out, _ in node(WHO_FORKED)] == ["plain\n"] * 2


@pytest.mark.parametrize("on_host", [False, True])
def test_a_single_rank_of_a_node_starts_plainly_without_a_word(node: Node, on_host: bool) -> None:
    """There is nothing to share: the parent and its fork would only cost time and memory."""
    ended = replace(node, on_host=on_host)(WHO_FORKED, "--spawn", "--preload", PRELOADED, ranks=1)
    assert ended == [(0, "plain\n", "")]


def test_a_module_that_starts_threads_is_named_and_ranks_start_plainly(node: Node) -> None:
    (node.directory / "busy.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(9,)).start()\n"
    )
    ended = node(WHO_FORKED, "--spawn", "--preload", f"{PRELOADED},busy", PYTHONPATH=str(node.directory))
    assert [(status, out) for status, out, _ in ended] == [(0, "plain\n")] * 2
    assert "plain start: importing busy does not allow a fork: it starts 1 threads" in ended[0][2]


PATIENT = Program("""
import os, signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: os.write(1, bytes([85, 83, 82, 49, 10])))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(21 + int(os.environ["RANK"])))
print(os.getpid(), os.getppid(), flush=True)
while True:
    time.sleep(0.05)
""")


@contextmanager
def patient(node: Node) -> Iterator[tuple[list[Started], list[int], int]]:
    """Start two forked ranks that wait; yield the tasks, the process IDs of the ranks, and that of their parent."""
    with node.start(PATIENT, "--spawn", "--preload", PRELOADED) as tasks:
        pairs = [[int(word) for word in task.stdout.readline().split()] for task in tasks if task.stdout]
        ranks, parents = zip(*pairs)
        assert len({*parents}) == 1 and parents[0] not in {task.pid for task in tasks}
        yield tasks, list(ranks), parents[0]
        assert until(lambda: not any(is_running(process) for process in (*ranks, parents[0])))


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_signal_to_a_task_reaches_its_rank_once(node: Node) -> None:
    with patient(node) as (tasks, _, _):
        tasks[1].send_signal(signal.SIGUSR1)
        assert tasks[1].stdout and tasks[1].stdout.readline() == b"USR1\n"
        for task in tasks:
            task.send_signal(signal.SIGTERM)
        assert ends(tasks) == [(21, "", ""), (22, "", "")]


def test_a_signal_to_all_processes_reaches_each_rank_once(node: Node) -> None:
    """As Slurm sends it with proctrack/linuxproc: to tasks, ranks and their parent."""
    with patient(node) as (tasks, ranks, parent):
        for process in (*ranks, parent, *(task.pid for task in tasks)):
            os.kill(process, signal.SIGUSR1)
        time.sleep(0.3)  # enough time for a second one to arrive
        for task in tasks:
            task.terminate()
        assert ends(tasks) == [(21, "USR1\n", ""), (22, "USR1\n", "")]


@pytest.mark.parametrize(
    ("victim", "statuses", "says"),
    [
        pytest.param("rank 1", (21, -9), "", id="a rank"),
        pytest.param("parent", (-9, -9), "has ended: ending this rank with it", id="the parent"),
    ],
)
def test_nothing_is_left_after_a_kill(node: Node, victim: str, statuses: tuple[int, int], says: str) -> None:
    with patient(node) as (tasks, ranks, parent):
        os.kill({"rank 1": ranks[1], "parent": parent}[victim], 9)
        if statuses[0] == 21:
            assert until(lambda: not is_running(ranks[1]))
            assert is_running(ranks[0])
            tasks[0].terminate()
        ended = ends(tasks)
        assert tuple(status for status, _, _ in ended) == statuses
        assert says in ended[1][2]


def test_a_rank_that_fails_ends_at_once_and_the_first_one_waits_for_others(node: Node) -> None:
    program = Program("import os, sys, time\nme = int(os.environ['RANK'])\ntime.sleep(0.5 * me)\nsys.exit(4 * me)\n")
    assert [status for status, _, _ in node(program, "--spawn", "--preload", PRELOADED, ranks=3)] == [0, 4, 8]


def test_a_signal_to_all_processes_during_the_imports_reaches_the_ranks(node: Node) -> None:
    """The parent receives it, too, before its ranks exist."""
    (node.directory / "slow.py").write_text("import time\nopen('importing', 'w').close()\ntime.sleep(0.5)\n")
    program = Program("import time\ntime.sleep(20)\n")
    with node.start(program, "--spawn", "--preload", "slow", PYTHONPATH=str(node.directory)) as tasks:
        while not (node.directory / "importing").exists():
            time.sleep(0.01)
        children = Path(f"/proc/{tasks[0].pid}/task/{tasks[0].pid}/children").read_text().split()
        for process in (*map(int, children), *(task.pid for task in tasks)):
            os.kill(process, signal.SIGTERM)
        assert [status for status, _, _ in ends(tasks)] == [-signal.SIGTERM] * 2


@pytest.mark.parametrize("seconds", [0.0, 0.2])
def test_the_first_task_stays_for_others_when_it_is_signalled_again(node: Node, seconds: float) -> None:
    """The runtime forwards a signal that Slurm sent to all processes, so a task receives it twice."""
    slow = "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.5), sys.exit(31)))"
    program = Program(f"""
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_DFL)
if os.environ["RANK"] == "1":
    {slow}
print("ready", flush=True)
for _ in range(600):  # one long sleep would not end by a signal that comes just before it
    time.sleep(0.1)
""")
    with node.start(program, "--spawn", "--preload", PRELOADED) as tasks:
        for task in tasks:
            assert task.stdout and task.stdout.readline() == b"ready\n"
        for task in tasks:
            task.terminate()
        time.sleep(seconds)
        tasks[0].terminate()
        assert [status for status, _, _ in ends(tasks)] == [-signal.SIGTERM, 31]


def test_ranks_have_random_numbers_of_their_own(node: Node) -> None:
    program = Program(
        "import random, multiprocessing as m\nprint(random.random(), m.current_process().authkey.hex())\n"
    )
    ended = node(program, "--spawn", "--preload", "random,multiprocessing")
    assert all(status == 0 for status, _, _ in ended)
    first, second = (out.split() for _, out, _ in ended)
    assert first[0] != second[0] and first[1] != second[1]


@pytest.mark.parametrize(
    ("program", "options", "reason"),
    [
        pytest.param(
            Program("import os\n"), (), "nothing to import before the fork was found in", id="nothing to import"
        ),
        pytest.param(Program("import mpi4py\n"), (), "mpi4py uses MPI", id="MPI"),
        pytest.param(
            Program("1\n"), ("--preload", "opened"), "opened does not allow a fork: it opens socket:", id="socket"
        ),
    ],
)
def test_ranks_start_plainly_and_the_first_says_why(
    node: Node, program: Program, options: tuple[str, ...], reason: str
) -> None:
    (node.directory / "opened.py").write_text("import socket\nkept = socket.socket()\n")
    ended = node(program, "--spawn", *options, PYTHONPATH=str(node.directory))
    assert sum("plain start:" in err for _, _, err in ended) == 1
    assert "plain start: " in ended[0][2] and reason in ended[0][2]


def test_variables_that_libraries_read_must_be_equal(node: Node) -> None:
    program = Program("import os, sys\nprint('xmlrpc.client' in sys.modules, os.environ['OMP_NUM_THREADS'])\n")
    with node.start(
        program, "--spawn", "--preload", PRELOADED, each=lambda rank: {"OMP_NUM_THREADS": str(rank)}
    ) as tasks:
        ended = ends(tasks)
    assert [out for _, out, _ in ended] == ["True 0\n", "False 1\n"]
    assert "plain start: ranks of this node have different values of OMP_NUM_THREADS" in ended[1][2]
