"""Which process runs which test file under `-n N --dist loadfile`.

Tests of jobs mostly wait for Slurm, others keep a core busy, and many files share what takes seconds to set up: a Slurm
cluster, or modules that `eb` has installed. So each process prefers one kind of file, and then takes what is left.
"""

from __future__ import annotations

import re
from functools import cache

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests.stack import CHECKOUT

JOBS, MODULES, OTHERS = "jobs", "modules", "others"
PREFERENCES = (JOBS, JOBS, MODULES, OTHERS, OTHERS)
"""The preferred kind of each process."""

_LOADER = re.compile(r"\bloader: Loader\b")


@cache
def kind_of(scope: str) -> str:
    """Return the kind of a test file: jobs on a cluster, modules that many files load, or others."""
    if scope.startswith("tests/e2e/"):
        return JOBS
    return MODULES if _LOADER.search((CHECKOUT / scope).read_text()) else OTHERS


class FilesByKind(LoadFileScheduling):
    """Give each process files of the kind that it prefers, in the order of the command line, then any."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        preferred = PREFERENCES[self.nodes.index(node) % len(PREFERENCES)]
        scope = next((scope for scope in self.workqueue if kind_of(scope) == preferred), None)
        if scope is not None:
            self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)
