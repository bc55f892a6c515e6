"""Slurm's words: options of sbatch, salloc and srun (sbatch(1), srun(1), Slurm 22.05)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hpcmod.core.errors import BadInputError, LackingError
from hpcmod.jobs.values.requeue import Requeue
from hpcmod.machine.values.site import SLURM, Site

VARIABLES: Mapping[str, str] = {
    "account": "SBATCH_ACCOUNT",
    "qos": "SBATCH_QOS",
    "time": "SBATCH_TIMELIMIT",
    "partition": "SBATCH_PARTITION",
    "constraint": "SBATCH_CONSTRAINT",
}
"""By long option of `hpcmod job`: the variable with the user's default."""

TASK_BESIDE = ("srun", "--nodes=1", "--ntasks=1", "--overlap")
"""Command that starts one task on the first node, next to the steps that run there."""

EXIT_VARIABLE = "SLURM_EXIT_ERROR"
"""Variable with the exit status that Slurm's commands use for their own errors, e.g. a refused request."""

_TITLES = {"pbs": "PBS", "flux": "Flux"}
_STARTS = {
    "pbs": "mpiexec -n RANKS --ppn RANKS_PER_NODE",
    "flux": "flux run -N NODES -n RANKS",
}
"""Commands that start ranks under schedulers for which hpcmod writes no scripts."""

_TIME = re.compile(r"\d+(?::\d+){0,2}|\d+-\d+(?::\d+){0,2}|-1|UNLIMITED|INFINITE", re.IGNORECASE)
_OF_SCRIPTS = ("--output=", "--error=", "--job-name=", "--array=")
"""Options of sbatch that salloc lacks, or that an allocation does not need."""


@dataclass(frozen=True)
class Directive:
    """One option of a batch script, and why it is there."""

    option: str
    why: str = ""


def usual_options(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the options of sbatch that the user has set once for all jobs, by long name."""
    return {name: value for name, variable in VARIABLES.items() if (value := environ.get(variable))}


def check_scheduler(site: Site) -> None:
    """Check that jobs of a machine are those of Slurm.

    Raises LackingError if the machine has another scheduler.
    """
    name = site.job.scheduler
    if name != SLURM:
        raise LackingError(
            f"this machine's scheduler is {_TITLES[name]} (site profile {site.name}); hpcmod writes batch scripts and "
            "starts ranks for Slurm only",
            f"In your own script, load the module, then: {_STARTS[name]} singularity exec $SIF "
            "conda-python-distributed train.py",
        )


def check_options(options: Mapping[str, str], more: Sequence[str], requeue: Requeue | None) -> None:
    """Check options for what sbatch would refuse, and for signals that would end the batch script.

    Raises BadInputError for the first such option.
    """
    time = options.get("time", "")
    if time and not _TIME.fullmatch(time):
        raise BadInputError(
            f"{time!r} is not a valid Slurm time limit", "Write 01:30:00, 2-00:00:00, or a number of minutes."
        )
    for option in more:
        if not option.startswith("-"):
            raise BadInputError(f"{option!r} is not an sbatch option", f"Write --sbatch=--{option}")
        if requeue and option.startswith("--signal"):
            raise BadInputError(
                f"{option} and --requeue-on both set a signal, but sbatch accepts one", f"Leave out {option}."
            )
        match = re.match(r"--signal=R?B:R?(\w+)(@\d+)?", option)
        if match:
            raise BadInputError(
                f"{option} would end the batch script, which does not handle the signal",
                f"Write --requeue-on {match[1]}{match[2] or '@60'}, which lets the ranks write a checkpoint.",
            )


def spell_options(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return options of `hpcmod job`, by long name, in Slurm's words; without those that are empty."""
    return tuple(f"--{name}={value}" for name, value in options.items() if value)


def value_of(options: Sequence[str], name: str, letter: str = "") -> str:
    """Return the value of an option among those given to sbatch, by its long name or its letter; empty if it is not."""
    forms = (f"--{name}=", *([f"-{letter}"] if letter else []))
    values = [option[len(form) :] for option in options for form in forms if option.startswith(form)]
    return values[-1] if values else ""


def make_salloc(directives: Sequence[Directive]) -> tuple[str, ...]:
    """Return the salloc command that requests what a batch script with these options would."""
    fitting = (each.option for each in directives if not each.option.startswith(_OF_SCRIPTS))
    return ("salloc", *(word for option in fitting for word in option.split()))


def merge_constraint(asked: str, flag: str) -> str:
    """Return a constraint that also asks for the feature of a flag such as `-C nvme`; empty if either has none.

    Given two, sbatch uses only the last.
    """
    match = re.fullmatch(r"(?:-C ?|--constraint[= ])(\S+)", flag)
    if not match or not asked:
        return ""
    return asked + f"&{match[1]}" * (match[1] not in re.split(r"\W+", asked))


def requeue_directives(requeue: Requeue) -> Iterator[Directive]:
    """Yield the options of a job that is requeued shortly before its time limit."""
    to_script = "sent to this script only, which signals the ranks"
    yield Directive(f"--signal=B:{requeue.signal}@{requeue.seconds}", to_script)
    yield Directive("--requeue")
    yield Directive("--open-mode=append", "each run appends to the output of the previous one")


def step_in_job(step: Sequence[str], *, tasks: int, overlap: bool = True) -> tuple[str, ...]:
    """Return the srun command of a step, changed to run in a job or in another step.

    `tasks`: Number of its tasks in total, which SLURM_NTASKS of the job would otherwise set.
    `overlap`: Share the resources of the steps that run.
    """
    return (step[0], *(["--overlap"] if overlap else []), f"--ntasks={tasks}", *step[1:])


def step_on_nodes(nodes: int, *, minutes: int) -> tuple[str, ...]:
    """Return the srun command of one task on each node, next to the steps that run there.

    Each task may use all cores and GPUs that the job has on its node, and the step ends after some minutes.
    """
    return (
        *("srun", "--overlap", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--cpu-bind=none"),
        *("--mem=0", "--mpi=none", "--export=ALL", "--kill-on-bad-exit=0", "--wait=0", "--input=none", "--quiet"),
        f"--time={minutes}",
    )
