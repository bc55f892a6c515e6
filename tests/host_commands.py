"""A running host-command helper, and clients of it: the stub in a container, or an attacker."""

from __future__ import annotations

import array
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcmod.core.resources import runscript_files
from hpcmod.machine.values.tables import HostCommands
from tests.unit.runscripts.scripts import SYSTEM_PATH, make_program

RULES = HostCommands()

SHOW = f"""#!{sys.executable}
import json, os, sys
json.dump({{"argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ),
    "open": sorted(os.listdir("/proc/self/fd"), key=int)[:-1], "group": os.getpgrp()}}, sys.stdout)
"""

SLEEP = f"""#!{sys.executable}
import signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(41))
print("ready", flush=True)
for _ in range(300):  # one long sleep would not end by a signal that comes just before it
    time.sleep(0.1)
"""


@dataclass(frozen=True)
class Helper:
    """A running helper; a sleeping process plays the container."""

    directory: Path
    container: subprocess.Popen[bytes]
    top: Path

    def stub(self, *words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a program in the container would."""
        command = [str(self.directory / words[0]), *words[1:]]
        given = {"PATH": SYSTEM_PATH, **env}
        return subprocess.run(command, env=given, cwd=cwd or self.top, capture_output=True, text=True, timeout=30)

    def start(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        command = [str(self.directory / words[0]), *words[1:]]
        env = {"PATH": SYSTEM_PATH}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=env, cwd=self.top, stdout=pipe, stderr=pipe, text=True, **options)

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(20)
        connection.connect(str(self.directory / "socket"))
        return connection

    def ask(self, data: bytes, descriptors: int | list[int] = 4) -> dict[str, Any]:
        """Send bytes and file descriptors, and return the reply; empty if the connection was closed."""
        here, null = os.open(self.top, os.O_RDONLY), os.open(os.devnull, os.O_RDWR)
        numbers = descriptors if isinstance(descriptors, list) else ([null] * 20 + [here])[21 - descriptors :]
        with self.connect() as connection:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", numbers))]
            try:
                sent = connection.sendmsg([data], rights if numbers else [])
                connection.sendall(data[sent:])
            except BrokenPipeError:
                pass  # refused before everything was sent
            os.close(here)
            os.close(null)
            with connection.makefile("rb") as file:
                line = file.readline()
        return dict(json.loads(line)) if line else {}

    def request(self, descriptors: int | list[int] = 4, **changed: object) -> dict[str, Any]:
        """Send a request that is valid except for these values."""
        return self.ask(framed({**self.valid, **changed}), descriptors)

    @property
    def valid(self) -> dict[str, object]:
        return {"command": "touch", "arguments": [self.mark.name], "directory": str(self.top), "environment": {}}

    @property
    def mark(self) -> Path:
        """A file that exists only if a command ran that should not have."""
        return self.top / "ran"


def framed(request: object) -> bytes:
    data = request if isinstance(request, bytes) else json.dumps(request).encode()
    return struct.pack(">I", len(data)) + data


@contextmanager
def started(top: Path, rules: HostCommands = RULES, **env: str) -> Iterator[Helper]:
    programs = {"touch": "/usr/bin/touch", "show": make_program(top / "bin/show", SHOW)}
    programs["sleeper"] = make_program(top / "bin/sleeper", SLEEP)
    programs["cat"], programs["sh"], programs["tty"] = Path("/bin/cat"), Path("/bin/sh"), Path("/usr/bin/tty")
    helper = make_program(top / "libexec/host-commands", runscript_files()["libexec/host-commands"])
    client = make_program(top / "libexec/host-command", runscript_files()["libexec/host-command"])
    container = subprocess.Popen(["sleep", "600"])
    patterns = (" ".join(rules.environment), " ".join(rules.refused_options))
    words = [
        str(container.pid),
        str(top),
        str(client),
        *patterns,
        *(f"{name}={path}" for name, path in programs.items()),
    ]
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(helper), *words],
        env={"PATH": SYSTEM_PATH, "HPCMOD_HOST_COMMANDS": "1", **env},
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    try:
        yield Helper(Path(done.stdout.strip()), container, top)
    finally:
        container.kill()
        container.wait()
