"""Run a scheduler's programs: test, submit, watch and cancel jobs, read their scripts, and ask what it offers.

No other module runs them; their names are in model/jobs/slurm.py and pbs.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hpcmod.errors import CheckFailedError, HpcmodError, LackingError
from hpcmod.model.jobs.scheduler import Scheduler
from hpcmod.process import run
from hpcmod.which import which

if TYPE_CHECKING:
    from hpcmod.model.jobs.facts import JobFacts
    from hpcmod.model.nodes.cluster import Cluster

MPI_TYPES = ("pmix", "pmix_v3", "pmix_v4", "pmix_v5", "pmi2", "cray_shasta")
"""Types of MPI that a scheduler may offer, except those that no current MPI needs."""

NO_ANSWER = "?"
"""Returned for a fact about a job if the scheduler does not answer."""

_PATIENCE = 60.0  # seconds to wait for an answer from the scheduler
_SHORT_PATIENCE = 30.0


def has_queue(scheduler: Scheduler) -> bool:
    """Return whether jobs can be submitted from here."""
    return which(scheduler.programs.submit[0], os.environ) is not None


def test_script(scheduler: Scheduler, text: str, *, must: bool, options: Sequence[str] = ()) -> str:
    """Return whether and when a batch script could run, in the scheduler's words; empty without a scheduler.

    Parameters
    ----------
    must
        Whether to raise an error if the scheduler does not answer or would not run it.

    Raises
    ------
    LackingError
        If the scheduler does not answer, and it must.
    CheckFailedError
        If the scheduler would not run it, and it must.
    """
    programs, title = scheduler.programs, scheduler.title
    if not programs.test or which(programs.test[0], os.environ) is None:
        return ""
    try:
        done = run([*programs.test, *options], stdin=text, timeout=_PATIENCE)
    except LackingError as err:
        if must:
            raise
        return err.message
    answer = " ".join(re.sub(f"^{programs.noise}", "", line) for line in done.stderr.splitlines())
    if done.status and must and re.search(programs.unreachable, answer):
        raise LackingError(
            f"{title} does not answer: {answer}", "Try again later, or from a login node; nothing was submitted."
        )
    if done.status and must:
        raise CheckFailedError(f"{title} would not run it: {answer}", "Change the options; nothing was submitted.")
    return f"{' '.join(programs.test)}: {answer}"


def submit_script(scheduler: Scheduler, path: Path, options: Sequence[str] = ()) -> str:
    """Submit a batch script with options of the scheduler, and return the job ID.

    Raises
    ------
    CheckFailedError
        If the scheduler refuses it.
    """
    submit = scheduler.programs.submit
    done = run([*submit, *options, str(path)])
    if done.status:
        raise CheckFailedError(
            f"{submit[0]} refused {path}: {done.stderr.strip()}", "Change the options or the script."
        )
    return done.stdout.strip().partition(";")[0]


def read_script_of_job(scheduler: Scheduler, number: str) -> str:
    """Return the batch script of a job that the scheduler remembers, from its first line; empty if it does not."""
    for command in scheduler.programs.scripts:
        output = run(_of_job(command, number)).stdout if which(command[0], os.environ) else ""
        if "#!" in output:
            return output[output.index("#!") :]
    return ""


def find_state(scheduler: Scheduler, number: str) -> str:
    """Return the state of a job, as its scheduler names it; empty if it has ended; NO_ANSWER without an answer."""
    return _query(scheduler, scheduler.programs.state, number)


def find_node(scheduler: Scheduler, number: str) -> str:
    """Return the name of a job's node; empty if the job has ended; NO_ANSWER if the scheduler does not answer."""
    return _query(scheduler, scheduler.programs.node, number)


def read_job(scheduler: Scheduler, number: str, environ: Mapping[str, str]) -> tuple[JobFacts | None, list[str]]:
    """Return what is known of a job, and what the scheduler did not answer."""
    answers, unknown = [], []
    for command in (scheduler.programs.facts, scheduler.programs.accounting):
        program = which(command[0], environ) if command else None
        if program is None:
            answers.append("")
            continue
        try:
            done = run(_of_job([program, *command[1:]], number), timeout=_SHORT_PATIENCE)
        except LackingError as err:
            unknown.append(err.message)
            answers.append("")
            continue
        answers.append("" if done.status else done.stdout)
        if done.status and scheduler.programs.gone.lower() not in done.stderr.lower():
            unknown.append(f"{command[0]}: {' '.join(done.stderr.split())[:200]}")
    return scheduler.read_facts(*answers), unknown


def ask_nodes(
    scheduler: Scheduler, job: JobFacts, command: Sequence[str], environ: Mapping[str, str], *, patience: float
) -> tuple[str, str]:
    """Run a command once on each node of a running job, and return its stdout and stderr; the job goes on.

    The step ends with this process. Its environment is ours without variables of another job.

    Raises
    ------
    LackingError
        If there is no program for it, or it did not end in time.
    """
    start = [
        word.replace("{nodes}", str(job.node_count)) for word in _of_job(scheduler.programs.on_each_node, job.number)
    ]
    own = {name: value for name, value in environ.items() if not scheduler.is_of_job(name)}
    done = run([*start, *command], env=own, timeout=patience, tied=True)
    return done.stdout, done.stderr


def cancel_job(scheduler: Scheduler, number: str) -> None:
    """Cancel a job; nothing happens if it has ended."""
    run(_of_job(scheduler.programs.cancel, number))


def has_step_program(scheduler: Scheduler, environ: Mapping[str, str]) -> bool:
    """Return whether the program that starts job steps is installed, whether or not the scheduler responds."""
    command = scheduler.programs.check
    return bool(command) and which(command[0], environ) is not None


def find_check_step(scheduler: Scheduler, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command that runs a check as a job step; empty if the scheduler is missing or does not respond."""
    command = scheduler.programs.check
    program = which(command[0], environ) if command else None
    if not program or run(scheduler.programs.responds, env=environ, timeout=_PATIENCE).status:
        return ()
    return (program, *command[1:])


def find_mpi_types(scheduler: Scheduler, environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the types of MPI that the scheduler offers; None if it is missing or does not respond."""
    command = scheduler.programs.mpi
    program = which(command[0], environ) if command else None
    if not program:
        return None
    try:
        done = run([program, *command[1:]], env=environ, timeout=_SHORT_PATIENCE)
    except HpcmodError:
        return None
    answer = done.stdout + done.stderr
    return None if done.status else tuple(kind for kind in MPI_TYPES if re.search(rf"\b{kind}\b", answer))


def list_machine(scheduler: Scheduler, environ: Mapping[str, str]) -> tuple[Cluster | None, str]:
    """Return what the scheduler lists about all nodes; None and the reason if it does not answer."""
    from hpcmod.model.nodes.cluster import parse_cluster  # what tests or submits a script need not import it

    answers = []
    for command in scheduler.programs.machine:
        if which(command[0], environ) is None:
            return None, f"no {command[0]} on this machine"
        try:
            done = run(command, env=environ, timeout=_PATIENCE)
        except LackingError as err:
            return None, err.message
        if done.status:
            return None, f"{' '.join(command)}: {' '.join(done.stderr.split())[:200]}"
        answers.append(done.stdout)
    cluster = replace(parse_cluster(*answers), commands=tuple(map(" ".join, scheduler.programs.machine)))
    return (cluster, "") if cluster.nodes else (None, f"{cluster.commands[0]}: no nodes with partitions")


def _query(scheduler: Scheduler, command: Sequence[str], number: str) -> str:
    found = run(_of_job(command, number))
    return found.stdout.strip() if found.status == 0 or scheduler.programs.gone in found.stderr else NO_ANSWER


def _of_job(command: Sequence[str], number: str) -> list[str]:
    return [word.replace("{job}", number) for word in command]
