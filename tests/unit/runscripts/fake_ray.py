"""A fake of `ray symmetric-run` for one machine: the first node waits for the others, and runs the program."""

from __future__ import annotations

from pathlib import Path

from tests.unit.runscripts.scripts import make_program

# A node is a file in a directory; the file `ended` says that the program has ended.
PROGRAM = """
import json, os, pathlib, subprocess, sys, time
state, node = pathlib.Path(os.environ["FAKE_RAY"]), os.environ["SLURM_NODEID"]
words = sys.argv[1:]
options = words[: words.index("--")]
(state / f"node-{node}").write_text(json.dumps([options, os.environ["RAY_ADDRESS"], os.environ.get("VLLM_HOST_IP")]))
if os.environ.get("FAKE_RAY_FAILS") == node:
    sys.exit(0)  # as Ray does if `ray start` fails
while len(list(state.glob("node-*"))) < int(options[options.index("--min-nodes") + 1]):
    if (state / "ended").exists():
        sys.exit(1)
    time.sleep(0.02)
if node == "0":
    status = subprocess.run(words[words.index("--") + 1 :]).returncode
    (state / "ended").touch()
    sys.exit(status)
while not (state / "ended").exists():
    time.sleep(0.02)
"""


def make_fake_ray(top: Path, version: str) -> dict[str, str]:
    """Write the program and the package; return its variables, of which PATH and PYTHONPATH must be extended."""
    make_program(top / "bin" / "ray", "#!/bin/sh\n")
    scripts = top / "packages" / "ray" / "scripts"
    scripts.mkdir(parents=True)
    (scripts / "scripts.py").write_text(PROGRAM)
    facts = top / "packages" / f"ray-{version}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: ray\nVersion: {version}\n")
    (top / "state").mkdir()
    return {"PATH": str(top / "bin"), "PYTHONPATH": str(top / "packages"), "FAKE_RAY": str(top / "state")}
