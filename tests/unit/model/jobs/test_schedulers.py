"""Which files contain terms of a scheduler: adding another scheduler must not change other files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from hpcmod.model.jobs.schedulers import SCHEDULERS, scheduler_of
from hpcmod.model.site import Site

PACKAGE = Path(__file__).resolve().parents[4] / "src" / "hpcmod"

OF_SCHEDULERS = tuple(
    f"{type(one).__module__.replace('.', '/').removeprefix('hpcmod/')}.py" for one in SCHEDULERS.values()
)
"""Modules that contain the terms of a scheduler."""

ABOUT_SLURM = "check/jobs/"
"""Rules about mistakes in batch scripts for Slurm."""

PUBLISHED = {
    "cli/jobs/job.py": "the options --sbatch and --salloc, and `srun` in the JSON of steps",
    "cli/jobs/jupyter.py": "the option --salloc",
    "cli/jobs/launch.py": "the option --salloc",
    "cli/jobs/options.py": "help of --network",
    "cli/jobs/run_options.py": "help of --mpi",
    "cli/runs/allocation.py": "the option --sbatch",
    "cli/publish/publish.py": "help of --slurm",
    "check/easyconfigs/lint.py": "the suffix of batch scripts",
    "importing/compose.py": "advice about keys that have no counterpart",
    "importing/formats.py": "the suffix of batch scripts",
    "importing/scripts/batch.py": "batch scripts for Slurm",
    "importing/scripts/container.py": "batch scripts for Slurm",
    "importing/scripts/job_line.py": "batch scripts for Slurm",
    "importing/scripts/starts.py": "batch scripts for Slurm",
    "importing/edf.py": "advice about keys that have no counterpart",
    "model/easyconfigs/edf.py": "advice about parameters that have no counterpart",
    "model/bandwidth/nccl_tests.py": "command lines in logs of benchmarks",
    "model/bandwidth/products.py": "the option --sbatch",
    "model/compat/network.py": "advice about the MPI of an image",
    "model/endings/events.py": "how srun begins to end a step, in logs",
    "model/endings/origin.py": "lines of srun in logs",
    "model/jobs/mpi.py": "advice about the MPI of an image",
    "model/nodes/cluster.py": "the name of a setting in Slurm's list",
    "model/nodes/staging.py": "a value of --stage",
    "model/profiles/schema.py": "the keys launcher.srun and launcher.kind, and help of keys",
    "model/site.py": "the value of launcher.kind for ranks that are tasks",
    "model/spec.py": "names that a wrapper must not have",
    "render/modules/modulefile.py": "an example",
}
"""Slurm's names that users type or read, which remain with other schedulers."""

PROGRAMS = ("srun", "sbatch", "salloc", "scontrol", "squeue", "scancel", "sacct", "sinfo", "sbcast")
OPTIONS = ("ntasks", "cpus-per-task", r"gpus-per-\w+", "overlap", "export", "kill-on-bad-exit", "cpu-bind", "exclusive")
WORDS = re.compile(rf"\bSLURMD?_|\bSBATCH\b|\b(?:{'|'.join(PROGRAMS)})\b|(?<![\w-])--(?:{'|'.join(OPTIONS)})\b")


def texts_of(path: Path) -> Iterator[str]:
    """Yield the strings of a file except docstrings; none if the file has no word of Slurm at all."""
    source = path.read_text(encoding="utf-8")
    if not WORDS.search(source):  # most files, and parsing takes long
        return
    tree = ast.parse(source)
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value


def knowing() -> set[str]:
    """Return the files that contain a term of Slurm outside docstrings."""
    files = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    return {
        name
        for name, path in files.items()
        if not name.startswith((*OF_SCHEDULERS, ABOUT_SLURM)) and any(WORDS.search(text) for text in texts_of(path))
    }


def test_one_module_knows_the_words_of_slurm() -> None:
    found = knowing()
    assert found - set(PUBLISHED) == set()
    assert set(PUBLISHED) - found == set()  # entries that are no longer needed


def test_every_scheduler_can_be_named_in_a_profile() -> None:
    assert scheduler_of(Site("x")) is SCHEDULERS["slurm"]
