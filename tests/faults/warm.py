"""Run hpcmod many times: each run is forked from a process that has already imported it, which saves four fifths of the
time.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.faults.inject import LIMIT, STUCK, Ran
from tests.faults.spare import become, close_files, end_with, fork_spares, has_easybuild, import_easybuild

CHECKOUT = Path(__file__).resolve().parents[2]


class Warm:
    """A process that forks for each run."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server

    def run(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> Ran:
        """Run hpcmod with all arguments but the first, in its own session; stdout and stderr together."""
        if self._server.stdin is None or self._server.stdout is None:
            raise AssertionError("the server has no pipes")
        self._server.stdin.write(json.dumps([list(argv), dict(env), str(cwd)]) + "\n")
        self._server.stdin.flush()
        return Ran(*json.loads(self._server.stdout.readline()))


@contextlib.contextmanager
def warmed(python: Path, env: Mapping[str, str], library: Path | None, *, easybuild: bool = False) -> Iterator[Warm]:
    """Start the process.

    `library`: A library to preload into it.
    `easybuild`: Whether to import EasyBuild too.
    """
    argv = [str(python), "-c", f"from tests.faults.warm import serve; serve({easybuild})"]
    preload = {} if library is None else {"LD_PRELOAD": str(library)}
    with subprocess.Popen(
        argv, env={**env, **preload}, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        yield Warm(server)
        server.communicate()


def serve(easybuild: bool) -> None:
    """Fork for each line of stdin, and answer with status and output; the child runs the command."""
    sys.path.remove("")
    _import_all()
    if easybuild:
        import_easybuild()
    gc.freeze()
    for line in sys.stdin:
        argv, env, cwd = json.loads(line)
        ours, theirs = os.pipe()
        child = os.fork()
        if not child:
            _become(theirs, argv, env, cwd)
        os.close(theirs)
        print(json.dumps(_wait(child, ours)), flush=True)


def _import_all() -> None:
    """Import every module of hpcmod, and what they import later."""
    import jinja2
    import requests
    import zstandard

    import hpcmod

    del jinja2, requests, zstandard
    for found in pkgutil.walk_packages(hpcmod.__path__, "hpcmod."):
        with contextlib.suppress(ImportError):  # some need EasyBuild's own Python
            importlib.import_module(found.name)


def _wait(child: int, pipe: int) -> tuple[int, str]:
    """Wait until all processes of a run have ended, and return status and output; kill them if it takes too long."""
    output, end = b"", time.monotonic() + LIMIT
    with os.fdopen(pipe, "rb", buffering=0) as file:
        while select.select([file], [], [], max(0.0, end - time.monotonic()))[0]:
            block = file.read(1 << 16)
            if not block:
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                return status, output.decode(errors="replace")
            output += block
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return STUCK, output.decode(errors="replace")


def _become(pipe: int, argv: list[str], env: dict[str, str], cwd: str) -> None:
    """Take on the command's environment, directory and streams, as if it had been started, and run it."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (pipe, 1), (pipe, 2)):
        os.dup2(source, target)
    close_files()
    if has_easybuild():
        fork_spares()
    become(argv, env, cwd)
    from hpcmod.core.cli.main import main

    end_with(main)
