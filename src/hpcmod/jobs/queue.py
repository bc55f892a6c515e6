"""Run Slurm's programs: test, submit, watch and cancel jobs, read their scripts, and ask what it offers."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hpcmod.core.errors import CheckFailedError, HpcmodError, LackingError
from hpcmod.core.process import run
from hpcmod.core.which import which
from hpcmod.jobs.values.allocation import is_of_job
from hpcmod.jobs.values.written import read_written_job

if TYPE_CHECKING:
    from hpcmod.jobs.values.cluster import Cluster
    from hpcmod.jobs.values.facts import JobFacts

MPI_TYPES = ("pmix", "pmix_v3", "pmix_v4", "pmix_v5", "pmi2", "cray_shasta")
"""Types of MPI that srun may offer, except those that no current MPI needs."""

NO_ANSWER = "?"
"""Returned for a fact about a job if Slurm does not answer."""

_PATIENCE = 60.0  # seconds to wait for an answer
_SHORT_PATIENCE = 30.0

_TEST = ("sbatch", "--test-only")
_MACHINE = (
    ("scontrol", "--all", "--oneliner", "show", "nodes"),
    ("scontrol", "--all", "--oneliner", "show", "partitions"),
    ("scontrol", "show", "config"),
)
_NOISE = r"^(?:s\w+: )?(?:(?:error|fatal): )?"
_UNREACHABLE = r"Unable to contact slurm controller|Could not establish a configuration source"
_GONE = "Invalid job id"
_ENDING = "COMPLETING"  # state of a job whose processes are being ended


def has_queue() -> bool:
    """Return whether jobs can be submitted from here."""
    return which("sbatch", os.environ) is not None


def test_script(text: str, *, must: bool, options: Sequence[str] = ()) -> str:
    """Return whether and when a batch script could run, in Slurm's words; empty without Slurm.

    `must`: Whether to raise an error if Slurm does not answer or would not run it.

    Raises LackingError if Slurm does not answer, and it must; CheckFailedError if Slurm would not run it, and it must.
    """
    if not has_queue():
        return ""
    try:
        done = run([*_TEST, *options], stdin=text, timeout=_PATIENCE)
    except LackingError as err:
        if must:
            raise
        return err.message
    lines = [re.sub(_NOISE, "", line) for line in done.stderr.splitlines()]
    # the number in this answer is not that of the job that will be submitted
    answer = re.sub(r"^Job \d+ to start", "would start", " ".join(lines))
    if done.status and re.search(_UNREACHABLE, answer):
        fault = f"Slurm does not answer: {lines[-1]}"  # the lines before say what was tried
        if must:
            raise LackingError(fault, "Try again later, or from a login node; nothing was submitted.")
        return fault
    if done.status and must:
        asked = " ".join(dict.fromkeys([*re.findall(r"^#SBATCH (.+)$", text, re.MULTILINE), *options]))
        raise CheckFailedError(
            f"Slurm would not run it: {answer}", f"Not submitted. Change what the job asks for: {asked}"
        )
    return f"{' '.join(_TEST)}: {answer}"


def submit_script(path: Path, options: Sequence[str] = ()) -> str:
    """Submit a batch script with options of sbatch, and return the job ID.

    Raises CheckFailedError if Slurm refuses it.
    """
    done = run(["sbatch", "--parsable", *options, str(path)])
    if done.status:
        raise CheckFailedError(f"sbatch refused {path}: {done.stderr.strip()}", "Change the options or the script.")
    return done.stdout.strip().partition(";")[0]


def read_script_of_job(number: str) -> str:
    """Return the batch script of a job that Slurm remembers, from its first line; empty if it does not."""
    for command in (
        ("scontrol", "write", "batch_script", number, "-"),
        ("sacct", "--batch-script", "--jobs", number),
    ):
        output = run(command).stdout if which(command[0], os.environ) else ""
        if "#!" in output:
            return output[output.index("#!") :]
    return ""


def module_of_job(number: str) -> str:
    """Return the module of a job whose script Slurm remembers and `hpcmod job` wrote; empty if it is not known."""
    return read_written_job(read_script_of_job(number)).module


def find_state(number: str) -> str:
    """Return the state of a job, as Slurm names it; empty if it has ended; NO_ANSWER without an answer."""
    return _query(number, "%T")


def is_waiting_or_running(number: str) -> bool:
    """Return whether a job has not ended, as far as known; a job whose processes are being ended has."""
    return find_state(number) not in ("", _ENDING)


def find_node(number: str) -> str:
    """Return the name of a job's node; empty if the job has ended; NO_ANSWER if Slurm does not answer."""
    return _query(number, "%N")


def read_job(number: str, environ: Mapping[str, str]) -> tuple[JobFacts | None, list[str]]:
    """Return what is known of a job, and what Slurm did not answer."""
    from hpcmod.jobs.values.facts import ACCOUNTED, parse_job_facts  # what writes a script need not import it

    control, silent = _ask_about_job(("scontrol", "show", "job", number), environ)
    columns = f"--format={','.join(ACCOUNTED)}"
    accounted, quiet = _ask_about_job(("sacct", "--noheader", "--parsable2", f"--jobs={number}", columns), environ)
    return parse_job_facts(control, accounted), [*filter(None, (silent, quiet))]


def _ask_about_job(command: Sequence[str], environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the answer of a program, and why there is none; both are empty if it does not know the job."""
    program = which(command[0], environ)
    if program is None:
        return "", ""
    try:
        done = run([program, *command[1:]], timeout=_SHORT_PATIENCE)
    except LackingError as err:
        return "", err.message
    if not done.status:
        return done.stdout, ""
    gone = _GONE.lower() in done.stderr.lower()
    last = (done.stderr.strip().splitlines() or [""])[-1]  # the lines before say what was tried
    return "", "" if gone else f"{command[0]}: {re.sub(_NOISE, '', last)[:200]}"


def ask_nodes(job: JobFacts, command: Sequence[str], environ: Mapping[str, str], *, patience: float) -> tuple[str, str]:
    """Run a command once on each node of a running job, and return its stdout and stderr; the job goes on.

    The step ends with this process. Its environment is ours without variables of another job.

    Raises LackingError if there is no program for it, or it did not end in time.
    """
    step = (
        *("srun", f"--jobid={job.number}", f"--nodes={job.node_count}", "--overlap", "--ntasks-per-node=1"),
        *("--mpi=none", "--kill-on-bad-exit=0", "--time=2", "--input=none"),
    )
    own = {name: value for name, value in environ.items() if not is_of_job(name)}
    done = run([*step, *command], env=own, timeout=patience, tied=True)
    return done.stdout, done.stderr


def cancel_job(number: str) -> None:
    """Cancel a job; nothing happens if it has ended."""
    run(["scancel", number])


def find_mpi_types(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the types of MPI that srun offers; None if it is missing or Slurm does not respond."""
    program = which("srun", environ)
    if not program:
        return None
    try:
        done = run([program, "--mpi=list"], env=environ, timeout=_SHORT_PATIENCE)
    except HpcmodError:
        return None
    answer = done.stdout + done.stderr
    return None if done.status else tuple(kind for kind in MPI_TYPES if re.search(rf"\b{kind}\b", answer))


def list_hosts(environ: Mapping[str, str]) -> list[str]:
    """Return the nodes of the job that this process is in; none if Slurm does not answer."""
    listed = run(["scontrol", "show", "hostnames"], env=environ)
    return listed.stdout.split() if listed.status == 0 else []


def list_machine(environ: Mapping[str, str]) -> tuple[Cluster | None, str]:
    """Return what Slurm lists about all nodes; None and the reason if it does not answer."""
    from hpcmod.jobs.values.cluster import parse_cluster  # what tests or submits a script need not import it

    answers = []
    for command in _MACHINE:
        if which(command[0], environ) is None:
            return None, f"no {command[0]} on this machine"
        try:
            done = run(command, env=environ, timeout=_PATIENCE)
        except LackingError as err:
            return None, err.message
        if done.status:
            return None, f"{' '.join(command)}: {' '.join(done.stderr.split())[:200]}"
        answers.append(done.stdout)
    cluster = replace(parse_cluster(*answers), commands=tuple(map(" ".join, _MACHINE)))
    return (cluster, "") if cluster.nodes else (None, f"{cluster.commands[0]}: no nodes with partitions")


def _query(number: str, field: str) -> str:
    answer = run(["squeue", "--noheader", "--jobs", number, f"--format={field}"])
    return answer.stdout.strip() if answer.status == 0 or _GONE in answer.stderr else NO_ANSWER
