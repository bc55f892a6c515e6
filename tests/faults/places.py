"""Find the Python lines that make the system calls that write, and make one of the calls fail.

A place is a system call together with the lines of hpcmod's source on the Python stack and the line that makes the
call. In a Python program that runs none of our code, such as EasyBuild's own part of an installation, it has all lines
on the stack. Repeated equal lines, as in a recursion, count once. `places.c` is preloaded into the program.
"""

from __future__ import annotations

import errno
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.faults.kinds import KILL

SOURCE = Path(__file__).with_name("places.c")
CHECKOUT = Path(__file__).resolve().parents[2]

MARK = re.compile(r'"/hpcmod-fault/(?P<place>[0-9a-f]{16})/(?P<number>\d+)"')
"""What strace shows before a counted call."""


@dataclass(frozen=True)
class Shim:
    """The compiled places.c, for calls below a directory."""

    library: Path
    below: Path
    work: Path
    """A directory outside of `below`."""
    children: bool
    """Whether to count calls of child processes too."""

    @property
    def log(self) -> Path:
        return self.work / "hpcmod-fault-places"

    @property
    def once(self) -> Path:
        """A file that exists if the fault was injected."""
        return self.work / "happened"

    def environment(self) -> dict[str, str]:
        """Return the environment variables that enable counting."""
        return {
            "LD_PRELOAD": str(self.library),
            "FAULT_BELOW": str(self.below),
            "FAULT_OURS": f"{CHECKOUT / 'src'}/:{CHECKOUT / 'easyblocks'}/",
            "FAULT_ONCE": str(self.once),
            **({} if self.children else {"FAULT_ALONE": "1"}),
        }

    def recording(self) -> dict[str, str]:
        """Return the environment variables that also record the places."""
        self.log.unlink(missing_ok=True)
        return {**self.environment(), "FAULT_LOG": str(self.log)}

    def failing(self, place: str, number: int, fault: str) -> dict[str, str]:
        """Return the environment variables that also make one call fail: call `number` (from 1) of its process at a
        place.
        """
        self.once.unlink(missing_ok=True)
        kind = 0 if fault == KILL else getattr(errno, fault)
        return {**self.environment(), "FAULT_AT": f"{place} {number}", "FAULT_KIND": str(kind)}

    def lines(self) -> dict[str, str]:
        """Return the recorded places as text, by ID."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return {line[:16]: line[17:].replace(f"{CHECKOUT}/", "") for line in text.splitlines()}


def make_shim(below: Path, work: Path, *, children: bool) -> Shim | None:
    """Compile places.c into an existing directory; None if there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = work / "places.so"
    argv = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl", "-lpthread"]
    subprocess.run(argv, check=True)
    return Shim(library, below, work, children)
