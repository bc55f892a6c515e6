"""Start `eb` in processes that have already imported EasyBuild: on its own, `eb` takes seconds, mostly for imports.

Each hpcmod process forks a few spare processes before it begins. When it starts `eb`, a spare becomes that process: a
child of hpcmod with the given environment, working directory and streams, that is notified if hpcmod dies, like a
normally started `eb`.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import logging
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NoReturn

MOST = 3
"""Maximum number of `eb` calls per run that use a spare; further ones start Python."""

_PR_SET_PDEATHSIG = 1

_kept: set[int] = set()
"""File descriptors that importing EasyBuild opened."""


def import_easybuild() -> None:
    """Import EasyBuild, and undo the side effects of the import on other programs."""
    before = _open_files()
    import easybuild.main

    del easybuild, sys.modules["easybuild.main"]  # `eb` runs it as __main__
    logging.setLoggerClass(logging.Logger)
    _kept.update(_open_files() - before)


def has_easybuild() -> bool:
    """Return whether `import_easybuild` was called."""
    return "easybuild" in sys.modules


def close_files() -> None:
    """Close all files except the three streams and those of EasyBuild."""
    for file in _open_files() - {0, 1, 2} - _kept:
        os.close(file)


def _open_files() -> set[int]:
    listed = list(Path("/proc/self/fd").iterdir())
    return {int(path.name) for path in listed if path.is_symlink()}  # without the descriptor that listed them


def fork_spares() -> None:
    """Fork the spare processes, and make this process use them instead of starting `eb`."""
    spares: list[tuple[int, socket.socket]] = []
    for _ in range(MOST):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        child = os.fork()
        if not child:
            for _, other in spares:
                other.close()
            ours.close()
            _wait(theirs)
        theirs.close()
        spares.append((child, ours))
    _Popen.spares = spares
    subprocess.Popen = _Popen  # type: ignore[misc]


class _Popen(subprocess.Popen):  # type: ignore[type-arg]
    """Starts programs; an `eb` that is tied to this process starts in a spare."""

    spares: ClassVar[list[tuple[int, socket.socket]]] = []

    def _execute_child(self, args: Any, executable: Any, *rest: Any) -> None:
        _, _, _, cwd, env = rest[:5]
        tied = isinstance(args, list) and len(args) > 7 and args[1:4] == ["-I", "-S", "-c"]
        if not (tied and Path(args[7]).name == "eb" and self.spares):
            super()._execute_child(args, executable, *rest)  # type: ignore[misc]
            return
        child, ours = self.spares.pop(0)
        streams = rest[8:14]  # read and write ends of the pipes for stdin, stdout and stderr
        given = [streams[0], streams[3], streams[5]]
        files = [number if file == -1 else file for number, file in enumerate(given)]
        umask = os.umask(0)
        os.umask(umask)
        asked = {"argv": args[8:], "env": dict(env), "cwd": str(cwd or Path.cwd()), "session": bool(rest[19])}
        asked |= {"umask": umask, "tie": int(args[6])}
        with ours:
            socket.send_fds(ours, [json.dumps(asked).encode()], files)
        self.pid, self._child_created = child, True
        self._close_pipe_fds(*streams)  # type: ignore[attr-defined]


def _wait(calls: socket.socket) -> None:
    """Wait for a call of `eb`, and run it in this process; exit if the calling process ends."""
    parent = os.getppid()
    text, files, _, _ = socket.recv_fds(calls, 1 << 20, 3)
    if not text:
        os._exit(0)
    call = json.loads(text)
    calls.close()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, call["tie"], 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)
    if call["session"]:
        os.setsid()
    os.umask(call["umask"])
    for number, file in enumerate(files):
        os.dup2(file, number)
    close_files()
    become(call["argv"], call["env"], call["cwd"])
    run_easybuild()


def run_easybuild() -> NoReturn:
    """Run `eb` with the arguments and environment of this process, which imported EasyBuild with others."""
    from easybuild.tools import build_log, environment

    logging.setLoggerClass(build_log.EasyBuildLog)
    environment.ORIG_OS_ENVIRON.clear()
    environment.ORIG_OS_ENVIRON.update(os.environ)
    tempfile.tempdir = None
    end_with(lambda: runpy._run_module_as_main("easybuild.main"))  # type: ignore[attr-defined]  # as `python -m` does


def become(argv: list[str], env: dict[str, str], cwd: str) -> None:
    """Take on arguments, environment and working directory, and count this process's calls from now on."""
    for name in set(os.environ) - set(env):
        del os.environ[name]
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = argv
    arm: Any = getattr(ctypes.CDLL(None), "fault_arm", None)
    if arm is not None:
        arm()


def end_with(program: Callable[[], object]) -> NoReturn:
    """Run a program, and end this process as Python does, but without freeing each object, which copies all memory."""
    status: object = 0
    try:
        status = program()
    except SystemExit as end:
        status = end.code
    if not isinstance(status, (int, type(None))):
        sys.exit(status)
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status or 0)
