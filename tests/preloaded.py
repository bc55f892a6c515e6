"""Processes of `eb` and `hpcmod` that start with their imports done, since importing takes most of their time.

A server process does the imports of both. For each call it forks a copy, which has the arguments, environment, working
directory, umask and output of that call, and exits as a new process would; so does the `eb` that an `hpcmod` starts.
If the environment sets a variable that matters during the imports, the call starts a new Python.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import logging
import os
import pkgutil
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

CHECKOUT = Path(__file__).resolve().parent.parent
EASYBUILD, HPCMOD = "easybuild", "hpcmod"

IMPORTED = """
bz2 concurrent.futures configparser csv curses difflib email.parser glob hashlib http.client importlib.metadata
inspect ipaddress jinja2 logging.handlers lzma optparse pkg_resources plistlib pycodestyle queue random shutil ssl
tarfile tempfile tomllib urllib.request xml.sax yaml zipfile zstandard
click hpcmod.core.cli.main hpcmod.catalogue.publishing.publish hpcmod.catalogue.visible.notices hpcmod.compat.compat
hpcmod.compat.fit hpcmod.catalogue.cli.install hpcmod.catalogue.cli.publish hpcmod.catalogue.cli.find
hpcmod.modules.shared_prefix hpcmod.modules.store hpcmod.modules.user_layer hpcmod.machine.machine
hpcmod.images.inspect.contents hpcmod.packages.changing hpcmod.packages.shipped
"""
"""Modules that `eb` and `hpcmod publish` import."""

PLUGINS = "toolchains tools.job tools.module_naming_scheme tools.package.package_naming_scheme tools.repository"
"""Packages of EasyBuild whose modules it imports at each start."""

EARLY = ("PYTHON", "FANCYLOG", "XDG_CONFIG_")
"""Prefixes of variables that Python reads as it starts, or EasyBuild while it is imported."""
USUAL = {"PYTHONOPTIMIZE": "0", "FANCYLOGGER_IGNORE_MPI4PY": "1"}
"""Those of the server process."""


@cache
def _server(python: str) -> socket.socket:
    """Start the server process; it exits when the socket closes, so at the latest when the tests end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        argv = [python, "-c", f"from tests.preloaded import serve; serve({theirs.fileno()})"]
        # when imported, EasyBuild looks for its configuration in the home directory
        environ = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
        server = subprocess.Popen(
            argv,
            env={**environ, **USUAL},
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
    atexit.register(lambda: (ours.close(), server.wait()))
    return ours


def write_back_later() -> None:
    """Replace os.fsync in this process: what tests write need not survive a crash of the machine, and each call waits
    for all that other tests have written.
    """
    os.fsync = os.fstat  # type: ignore[assignment]  # which also fails for a file that is not open


def serve(file: int) -> None:
    """Import what both programs import, and fork for each call that a socket brings, until it closes."""
    sys.path.remove("")
    write_back_later()
    _import()
    gc.collect()
    gc.freeze()
    calls = socket.socket(fileno=file)
    while True:
        text, files, _, _ = socket.recv_fds(calls, 1 << 20, 3)
        if not text:
            return
        if os.fork() == 0:
            calls.close()
            _run(json.loads(text), *files)
        for each in files:
            os.close(each)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _import() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in IMPORTED.split():
            with contextlib.suppress(ImportError):  # the set of modules depends on the Python version
                importlib.import_module(name)
        from tests.faults.spare import import_easybuild

        import_easybuild()
        importlib.import_module("easybuild.easyblocks.generic.containermodule")
        _import_plugins()
    _fill_caches()


def _import_plugins() -> None:
    """Import what EasyBuild searches for at each start, and let it log as with `python -O`, the default of `eb`."""
    fancylogger = importlib.import_module("easybuild.base.fancylogger")
    logging.setLoggerClass(fancylogger.FancyLogger)
    for name in PLUGINS.split():
        package = importlib.import_module(f"easybuild.{name}")
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(found.name)
    logging.setLoggerClass(logging.Logger)
    fancylogger._getCallingClassName = lambda depth: fancylogger.OPTIMIZED_ANSWER  # otherwise it reads all sources


def _fill_caches() -> None:
    """Read the site profiles, list EasyBuild's toolchains, and compile the templates: programs read these once."""
    import jinja2
    from easybuild.tools.toolchain.utilities import search_toolchain

    from hpcmod.core.resources import module_templates, runscript_files
    from hpcmod.machine import load_site
    from hpcmod.modules.text import modulefile, runscript

    search_toolchain("")
    load_site(None, {})
    for module, templates in ((runscript, runscript_files()), (modulefile, module_templates())):
        environment = module._environment(tuple(templates.items()))
        for name in environment.list_templates(extensions=["j2"]):
            with contextlib.suppress(jinja2.TemplateAssertionError):  # a template with filters of another renderer
                environment.get_template(name)


def _run(call: Mapping[str, Any], out: int, err: int, status: int) -> NoReturn:
    """Run a call in a child process, and report its process ID and then its exit status, each on a line."""
    child = os.fork()
    if child:
        os.write(status, b"%d\n" % child)
        os.close(out)
        os.close(err)
        os.write(status, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        os._exit(0)
    os.close(status)
    for file, stream in ((out, 1), (err, 2)):
        os.dup2(file, stream)
        os.close(file)
    from tests.faults.spare import become, end_with, fork_spares, run_easybuild

    os.umask(call["umask"])
    if call["program"] == HPCMOD and {"install", "publish"} & set(call["argv"]) and _has_usual_eb(call["environment"]):
        fork_spares()
    become(call["argv"], call["environment"], call["directory"])
    time.tzset()
    if call["program"] == EASYBUILD:
        sys.path.insert(0, call["directory"])
        run_easybuild()
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    from hpcmod.core.cli.main import main

    end_with(main)


def _has_usual_eb(environ: Mapping[str, str]) -> bool:
    """Return whether `eb` is the program that tests.stack.write_eb wrote."""
    return (shutil.which("eb", path=environ["PATH"]) or "").endswith("/programs/eb")


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
    own = {name: value for name, value in env.items() if name.startswith(EARLY)}
    if own.items() - USUAL.items():
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
