"""Ranks forked from one Python (--spawn): equal to ranks that each start their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcmod.model.plan import RunscriptSettings
from tests.unit.runscripts.fork_programs import MORE, PROGRAMS, Program
from tests.unit.runscripts.scripts import DISTRIBUTED, SYSTEM_PATH, Scripts, task

pytestmark = pytest.mark.slow

THOROUGH = os.environ.get("HPCMOD_THOROUGH") == "1"
PRELOADED = "xmlrpc.client"
"""A module that no program here imports, so its presence shows a fork."""


Started = subprocess.Popen[bytes]
Ended = tuple[int, str, str]


@dataclass(frozen=True)
class Node:
    """One node with ranks of one step: tasks as Slurm would start them."""

    scripts: Scripts
    directory: Path

    @contextmanager
    def start(self, program: Program, *options: str, ranks: int = 2, **env: str) -> Iterator[list[Started]]:
        """Start the ranks; at the end, kill what is left of them."""
        file = self.directory / "train.py"
        file.write_text(program.text)
        target = [] if {"-c"} & {*program.before} or not program.text else [str(file)]
        words = [*program.before, *target, *program.after]
        own = {"PATH": python_path(), "USER": "alice", "HPCMOD_CACHE_ROOT": str(self.directory / "caches")}
        shared = {**own, "MASTER_PORT": "20000", "LANG": "C.UTF-8", **dict(program.env), **env}
        argv = [self.scripts.root / "runscripts" / DISTRIBUTED, *options, *(["--"] if options else []), *words]
        started = [
            subprocess.Popen(
                argv,
                env={**shared, **task(rank, (ranks,))},
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
            for each in started:
                each.kill()
                each.communicate()

    def __call__(self, program: Program, *options: str, ranks: int = 2, **env: str) -> list[Ended]:
        """Run to the end; return status, stdout and stderr of each rank."""
        with self.start(program, *options, ranks=ranks, **env) as started:
            return ends(started, program.stdin)


def ends(started: list[Started], stdin: str = "") -> list[Ended]:
    """Wait for all ranks at the same time: the first one ends last."""

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


CASES = {**PROGRAMS, **(MORE if THOROUGH else {})}


@pytest.mark.parametrize("name", CASES)
def test_a_forked_program_equals_a_plain_one(node: Node, name: str) -> None:
    plain = node(CASES[name])
    forked = node(CASES[name], "--spawn", "--preload", PRELOADED)
    assert not any("plain start" in err for _, _, err in forked), forked
    assert cleaned(forked) == cleaned(plain)


WHO_FORKED = Program("import sys\nprint('forked' if 'xmlrpc.client' in sys.modules else 'plain')\n")


def test_ranks_are_forked_on_request_only(node: Node) -> None:
    assert [out for _, out, _ in node(WHO_FORKED, "--spawn", "--preload", PRELOADED)] == ["forked\n"] * 2
    assert [out for _, out, _ in node(WHO_FORKED)] == ["plain\n"] * 2


def test_a_module_that_starts_threads_is_named_and_ranks_start_plainly(node: Node) -> None:
    (node.directory / "busy.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(9,)).start()\n"
    )
    ended = node(WHO_FORKED, "--spawn", "--preload", f"{PRELOADED},busy", PYTHONPATH=str(node.directory))
    assert [(status, out) for status, out, _ in ended] == [(0, "plain\n")] * 2
    assert "plain start: importing busy does not allow a fork: it starts 1 threads" in ended[0][2]
