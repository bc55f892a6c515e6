"""Assignment of test files to processes under `-n N --dist loadfile`.

Tests of jobs mostly wait for Slurm, others keep a core busy, and many files share what takes seconds to set up: a Slurm
cluster, or modules installed by `eb`. So each process prefers one kind of file, and then takes what is left.
"""

from __future__ import annotations

import re
from functools import cache

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests.stack import CHECKOUT

JOBS, MODULES, OTHERS = "jobs", "modules", "others"
PREFERENCES = (JOBS, MODULES, OTHERS)
"""The preferred kind of each process."""

_LOADER = re.compile(r"\bloader: Loader\b")


@cache
def kind_of(scope: str) -> str:
    """Return the kind of a test file: jobs on a cluster, modules that many files load, or others."""
    if scope.startswith("tests/e2e/"):
        return JOBS
    return MODULES if _LOADER.search((CHECKOUT / scope).read_text()) else OTHERS


class FilesByKind(LoadFileScheduling):
    """Assign each process files of its preferred kind first, in command-line order, then any."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        preferred = PREFERENCES[self.nodes.index(node) % len(PREFERENCES)]
        scope = next((scope for scope in self.workqueue if kind_of(scope) == preferred), None)
        if scope is not None:
            self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)
