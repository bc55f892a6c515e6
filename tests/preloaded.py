"""Processes of `eb` and `hpcmod` that start with their imports done, since importing takes a third of their time.

A server process imports what both import anyway, except EasyBuild, which reads its environment on import. For each call
it forks a copy, which has the arguments, environment, working directory, umask and output of that call, and exits as a
new process would. With HPCMOD_THOROUGH=1, or if the environment sets a variable of Python, each call starts a new
Python.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

EASYBUILD, HPCMOD = "easybuild", "hpcmod"

SERVER = """
import contextlib, gc, importlib, json, os, runpy, socket, sys, time, warnings
warnings.simplefilter("ignore")
for name in sys.argv[2].split():
    with contextlib.suppress(ImportError):  # the set of modules depends on the Python version
        importlib.import_module(name)
warnings.resetwarnings()
gc.collect()
gc.freeze()
calls = socket.socket(fileno=int(sys.argv[1]))
while True:
    text, files, _, _ = socket.recv_fds(calls, 1 << 20, 3)
    if not text:
        os._exit(0)
    if os.fork() == 0:
        break
    for file in files:
        os.close(file)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
calls.close()
out, err, status = files
child = os.fork()
if child:
    os.write(status, b"%d\\n" % child)
    os.close(out)
    os.close(err)
    os.write(status, b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os._exit(0)
os.close(status)
os.dup2(out, 1)
os.dup2(err, 2)
os.close(out)
os.close(err)
call = json.loads(text)
os.chdir(call["directory"])
os.umask(call["umask"])
os.environ.clear()
os.environ.update(call["environment"])
time.tzset()
sys.argv = call["argv"]
program = call["program"]
del calls, child, err, files, name, out, status, text
if program == "easybuild":
    sys.path[0] = os.getcwd()
    runpy.run_module("easybuild.main", run_name="__main__", alter_sys=True)
else:
    sys.path[0] = os.path.dirname(sys.argv[0])
    from hpcmod.cli.main import main
    sys.exit(main())
"""

IMPORTED = """
bz2 concurrent.futures configparser csv curses difflib email.parser glob hashlib http.client importlib.metadata
inspect ipaddress jinja2 logging.handlers lzma optparse pkg_resources plistlib pycodestyle queue random shutil ssl
tarfile tempfile tomllib urllib.request xml.sax yaml zipfile
click hpcmod.cli.main hpcmod.catalogue.publishing.publish hpcmod.catalogue.visible.notices hpcmod.check.compat
hpcmod.check.fit hpcmod.cli.install.install hpcmod.cli.publish.publish hpcmod.cli.use.find hpcmod.install.shared_prefix
hpcmod.install.store hpcmod.install.user_layer hpcmod.machine
"""
"""Modules that `eb` and `hpcmod publish` import."""


@cache
def _server(python: str) -> socket.socket:
    """Start the server process; it exits when the socket closes, so at the latest when the tests end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        argv = [python, "-c", SERVER, str(theirs.fileno()), IMPORTED]
        environ = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "FANCYLOGGER_IGNORE_MPI4PY": "1"}
        server = subprocess.Popen(argv, env=environ, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
    atexit.register(lambda: (ours.close(), server.wait()))
    return ours


def call(
    python: Path,
    program: str,
    argv: list[str],
    env: Mapping[str, str],
    cwd: Path,
    *,
    umask: int | None = None,
    joined: bool = False,
    timeout: float = 600,
) -> subprocess.CompletedProcess[str] | None:
    """Run a program to its end, with stderr `joined` to stdout or separate; None if it needs a new Python."""
    own = {name: value for name, value in env.items() if name.startswith("PYTHON")}
    if os.environ.get("HPCMOD_THOROUGH") == "1" or own not in ({}, {"PYTHONOPTIMIZE": "0"}):
        return None
    if umask is None:
        umask = os.umask(0)
        os.umask(umask)
    asked = {"program": program, "argv": argv, "environment": dict(env), "directory": str(cwd), "umask": umask}
    pipes = [os.pipe() for _ in range(2 if joined else 3)]
    reads, writes = [one for one, _ in pipes], [other for _, other in pipes]
    try:
        text = json.dumps(asked).encode()
        socket.send_fds(_server(str(python)), [text], writes if len(writes) == 3 else [writes[0], *writes])
    finally:
        for file in writes:
            os.close(file)
    told = _read(reads, argv, timeout)
    *_, status = told.pop().split()
    output = [text.decode().replace("\r\n", "\n").replace("\r", "\n") for text in told]
    return subprocess.CompletedProcess(argv, int(status), output[0], output[1] if len(output) == 2 else "")


def _read(files: list[int], argv: list[str], timeout: float) -> list[bytes]:
    """Read all pipes to their end; kill the process, whose ID begins the data of the last pipe, if it takes too
    long.
    """
    end, told = time.monotonic() + timeout, dict.fromkeys(files, b"")
    with selectors.DefaultSelector() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(1):
                data = os.read(key.fd, 1 << 16)
                told[key.fd] += data
                if not data:
                    selector.unregister(key.fd)
                    os.close(key.fd)
            if time.monotonic() > end:
                os.kill(int(told[files[-1]].split()[0]), signal.SIGKILL)
                raise subprocess.TimeoutExpired(argv, timeout)
    return [told[file] for file in files]
