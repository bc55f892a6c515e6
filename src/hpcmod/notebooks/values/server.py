"""A Jupyter server in a container: the program that starts it, and how a user's browser reaches it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from hpcmod.core.values.text import away_from_here
from hpcmod.jobs.values.allocation import LOGIN_VARIABLE, NODE_VARIABLE

KINDS = {"lab": ("jupyterlab", "lab"), "notebook": ("notebook", "tree")}
"""By option: the Python module of the server, which is also the name of its package, and the path of its page."""

_SERVER = '''"""Start a Jupyter server on a free port of this node. Written by `hpcmod jupyter`.

Arguments: the server's Python module, `local` to listen on the loopback interface only, `tied` to end with stdin.
"""
import os
import signal
import socket
import sys


def find_address():
    """Return the address at which the login node reaches this node."""
    for name in (os.environ.get("NODE_VARIABLE"), socket.gethostname()):
        try:
            address = socket.gethostbyname(name) if name else "127.0.0.1"
        except OSError:
            continue
        if not address.startswith("127."):
            return address
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
            route.connect((os.environ.get("LOGIN_VARIABLE", ""), 9))  # sends nothing
            return route.getsockname()[0]
    except OSError:
        return "0.0.0.0"


signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
module, where = sys.argv[1:3]
server = os.getpid()
if sys.argv[3:] == ["tied"]:
    if os.fork() == 0:  # hpcmod has the other end of stdin: it ends when that is killed
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while os.read(0, 1):
            pass
        if os.getppid() == server:
            os.kill(server, signal.SIGTERM)
        os._exit(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
address = "127.0.0.1" if where == "local" else find_address()
with socket.socket() as free:
    free.bind((address, 0))
    port = free.getsockname()[1]
place = os.path.dirname(os.path.abspath(__file__))
os.environ["JUPYTER_RUNTIME_DIR"] = os.path.join(place, "runtime")
os.environ["JUPYTER_TOKEN_FILE"] = os.path.join(place, "token")
options = ["--no-browser", "-y", f"--ip={address}", f"--port={port}", "--port-retries=50"]
os.execv(sys.executable, [sys.executable, "-c", "RUN_MODULE", module, *options])
'''

_RUN_MODULE = (  # the server has a handler for Ctrl-C of its own, once it is imported
    "import runpy, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)

SERVER = (
    _SERVER.replace("NODE_VARIABLE", NODE_VARIABLE)
    .replace("LOGIN_VARIABLE", LOGIN_VARIABLE)
    .replace('"RUN_MODULE"', repr(away_from_here(_RUN_MODULE)))
)
"""Python program that runs in the container. The token is in a file, because others see a program's arguments."""


@dataclass(frozen=True)
class Server:
    """A running Jupyter server."""

    address: str
    """IP address that it listens on."""
    port: int


def parse_server(text: str) -> Server | None:
    """Parse the file in which a Jupyter server says where it listens; None if it is incomplete."""
    try:
        values = json.loads(text)
        return Server(str(values["hostname"]), int(values["port"]))
    except (ValueError, KeyError, TypeError):
        return None


def make_ssh_command(server: Server, *, node: str, login: str) -> tuple[str, ...]:
    """Return the command that forwards a port of the user's computer to a server.

    `node`: Name of the server's node, as the login node resolves it.
    `login`: USER@HOST of the login node.
    """
    target = "localhost" if server.address.startswith("127.") else node or server.address
    return ("ssh", "-N", "-L", f"{server.port}:{target}:{server.port}", login)


def make_url(server: Server, *, token: str, kind: str) -> str:
    """Return the address to open in the user's browser once the port is forwarded.

    `kind`: One of KINDS.
    """
    return f"http://localhost:{server.port}/{KINDS[kind][1]}?token={token}"
