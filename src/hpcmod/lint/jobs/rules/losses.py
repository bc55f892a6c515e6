"""Rules for batch scripts: what a job reserves in vain, and what it loses: logs, mails, the status of a program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from hpcmod.lint.jobs.reading.context import TOOLS, Fault, ScriptContext

_STARTS_RANKS = re.compile(
    r"srun|mpi|i?brun\b|aprun|prun\b|ssh|NODELIST|NODEFILE|hosts|NTASKS|NPROCS|NNODES|NUM_NODES|launch|torchrun|"
    r"torch\.distributed|deepspeed|accelerate|parallel\b|snakemake|nextflow|\bray\b|dask|spark|sbatch",
    re.IGNORECASE,
)
"""Signs that something starts several programs, or reads how many were asked for."""
_MAY_START_RANKS = re.compile(r"\.(?:sh|bash|csh|pl)$|(?:^|[/_])run|^\$|submit|workflow|^(?:ba|da|z)?sh$")
_SETUP = TOOLS | {"", "conda", "mamba", "df", "egrep", "git", "shopt"}
_THREADS = re.compile(
    r" (?:--?(?:\w+[-_])*n?threads?(?:[-_]num)?|--cpus|--nproc|--runThreadN|--CPU)[ =](\d+)\b|"
    r"^(?:bwa|bwa-mem2|minimap2|spades\.py|fastqc|megahit) .*?-t (\d+)\b|^(?:hisat2|bowtie2?|salmon) .*?-p (\d+)\b"
)


def rule_idle_tasks(job: ScriptContext) -> Iterator[Fault]:
    nodes, tasks, partition = job.option("nodes"), job.option("ntasks"), job.option("partition")
    most, asked = job.number("nodes") if nodes else 0, job.number("ntasks") if tasks else 0
    programs = [call for call in job.own if call.name not in _SETUP and "function" not in call.places]
    several = any(call.background or call.container for call in job.calls) or job.option("gpus-per-task")
    by_core = partition is not None and partition.value == "core"  # at UPPMAX: tasks are cores of one node
    started = _STARTS_RANKS.search("\n".join(line for _, line in job.script.code))
    may_start = any(_MAY_START_RANKS.search(word.plain) for call in programs for word in call.program[:3])
    if several or started or may_start or by_core or most is None or asked is None or not programs:
        return
    if tasks and asked > 1 != most:
        problem = f"{asked} tasks, perhaps on several nodes, but nothing starts them: {programs[-1].name} runs once"
        cure = f"For threads, write --nodes=1 --ntasks=1 --cpus-per-task={asked}; for ranks, srun before the program."
        yield tasks.line, problem, cure
    elif nodes and most > 1 and not tasks and not job.option("ntasks-per-node"):  # else it may start them itself
        problem = f"{most} nodes, but nothing starts a program on them: {programs[-1].name} runs once, on the first"
        yield nodes.line, problem, "Write --nodes=1, or srun before the program."


def rule_too_many_threads(job: ScriptContext) -> Iterator[Fault]:
    cpus = (job.number("cpus-per-task") or 0) * (job.ranks() or 1) if not job.option("exclusive") else 0
    for call in (call for call in job.calls if call.name not in TOOLS and not call.of_srun("cpus-per-task")):
        threads = _THREADS.search(job.expand(call.arguments()))
        if threads and int(next(filter(None, threads.groups()))) > cpus > 0:
            given = " ".join(threads[0].split()[-2:])
            yield call.line, f"{given}, but the job has {cpus} CPUs", "Ask for as many by --cpus-per-task."


def rule_removed_log(job: ScriptContext) -> Iterator[Fault]:
    given = [option.value for name in ("output", "error") if (option := job.option(name))]
    logs = [re.sub(r"%\d*\w", "1", log) for log in (given if job.option("output") else [*given, "slurm-%j.out"])]
    for call in job.own:
        paths = [word.plain.removeprefix("./") for word in call.program[1:]]
        if call.name in ("cd", "pushd") and "$" in "".join(paths) and "SUBMIT_DIR" not in paths[0]:
            return
        for path in paths if call.name == "rm" else ():
            lost = [log for log in logs if log.count("/") == path.count("/") and fnmatchcase(log, path)]
            if lost and not job.script.late:
                problem = f"rm {path} also removes the log of this job, which Slurm writes from the start"
                yield call.line, problem, "Remove old logs before sbatch, or name others than this job's."


def rule_hidden_status(job: ScriptContext) -> Iterator[Fault]:
    strict = re.search(r"^\s*set\s+-\w*e|^#!.*\s-\w*e", job.text, re.MULTILINE)
    for before, last in () if strict else [*zip(job.own, job.own[1:])][-1:]:
        if last.arguments() == "exit 0" and not last.places and not before.background and before.name not in _SETUP:
            problem = "exit 0 hides whether the command above it failed: for Slurm the job always succeeds"
            yield last.line, problem, "Remove it: the script then ends with the status of its last command."


def rule_no_mail(job: ScriptContext) -> Iterator[Fault]:
    option = job.option("mail-user")
    if option and option.value and "mail-type" not in job.text:
        yield option.line, "--mail-user without --mail-type: Slurm sends no mail", "Add #SBATCH --mail-type=END,FAIL."
