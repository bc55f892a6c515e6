"""A fake of Ray for one machine: it records its calls, and starts processes that do nothing."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.unit.runscripts.scripts import make_program

# Nodes are files in a directory. A "raylet" is a child in its own session, which ends only with its parent.
PROGRAM = f"""#!{sys.executable} -S
import ctypes, json, os, pathlib, signal, socket, subprocess, sys, time
state = pathlib.Path(os.environ["FAKE_RAY"])
options = dict(word[2:].partition("=")[::2] for word in sys.argv[2:])
with open(state / "calls", "a") as calls:
    call = [sys.argv[1], options, "RAY_ADDRESS" in os.environ, os.environ.get("VLLM_HOST_IP")]
    calls.write(json.dumps(call) + chr(10))
if os.environ.get("FAKE_RAY_FAILS") == os.environ["SLURM_NODEID"]:
    sys.exit("the fake cannot start")
raylet = subprocess.Popen(["sleep", "600"], start_new_session=True,
                          preexec_fn=lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL))
(state / ("node-" + os.environ["SLURM_NODEID"])).touch()
if "head" in options:
    listener = socket.create_server((options["node-ip-address"], int(options["port"])))
signal.sigwait([signal.SIGTERM])
"""
MODULE = """
import os, pathlib
def init(address, **options): pass
def nodes():
    nodes = pathlib.Path(os.environ["FAKE_RAY"]).glob("node-*")
    return [{"NodeManagerAddress": "127.0.0.1", "Alive": True} for _ in nodes]
def shutdown(): pass
"""


def make_fake_ray(top: Path) -> dict[str, str]:
    """Write the program and the package; return its variables, of which PATH and PYTHONPATH must be extended."""
    make_program(top / "bin" / "ray", PROGRAM)
    (top / "packages").mkdir()
    (top / "packages" / "ray.py").write_text(MODULE)
    (top / "state").mkdir()
    return {"PATH": str(top / "bin"), "PYTHONPATH": str(top / "packages"), "FAKE_RAY": str(top / "state")}
