"""A python3 that plants faults on virtual nodes, and the site profile of those nodes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

HERE = Path(__file__).parent

CHECKED = """
name = "checked"
extends = "generic"
[network]
interfaces = ["hsn0"]
[binds]
required = ["{top}/bound/data"]
[caches]
node_local = "{top}/local"
[nodes]
default = "node"
[nodes.node]
cores = {cores}
partitions = ["small", "standard"]
[job]
exclusive = ["standard"]
"""

CLOCK = "import os, time\nreal = time.time\ntime.time = lambda: real() + float(os.environ['AHEAD'])\n"


def plant_on_nodes(top: Path, path: str) -> dict[str, str]:
    """Put a python3 that plants faults for `hpcmod check` first on PATH, and return the environment that it needs.

    The caller adds FAULTS, which lists them: "nid002=full:/tmp:1m nid003=mask:0".
    """
    for name in ("bin", "bound/data", "local/mine"):
        (top / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "python3", top / "bin")
    (top / "clock.py").write_text(CLOCK)
    site = top / "checked.toml"
    site.write_text(CHECKED.format(top=top, cores=os.cpu_count()))
    own = {"PATH": f"{top / 'bin'}:{path}", "HPCMOD_SITE": str(site), "TOP": str(top)}
    return {**own, "PLANT_PROGRAM": str(HERE / "fault.sh")}
