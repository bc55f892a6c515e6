"""Rules for batch scripts: options and values that Slurm refuses or misreads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from hpcmod.lint.jobs.reading.context import Fault, ScriptContext
from hpcmod.lint.jobs.reading.options import Option
from hpcmod.lint.jobs.reading.slurm_names import SBATCH_OPTIONS, SRUN_ONLY

_NUMBERS = {
    "ntasks", "ntasks-per-node", "cpus-per-task", "cpus-per-gpu", "threads-per-core",
}  # fmt: skip
_FORMER = {
    "workdir": "chdir",
    "share": "oversubscribe",
    "job_name": "job-name",
    "walltime": "time",
    "queue": "partition",
    "mem-per-task": "mem-per-cpu",
}
_TIME = re.compile(r"\d+(?::\d+){0,2}|\d+-\d+(?::\d+){0,2}|INFINITE|UNLIMITED", re.IGNORECASE)


def rule_unknown_option(job: ScriptContext) -> Iterator[Fault]:
    for option in job.script.options:
        known = [name for name in SBATCH_OPTIONS if name.startswith(option.name)]
        if len(option.name) < 2 or option.name in SBATCH_OPTIONS or len(known) == 1:
            continue
        if option.name in SRUN_ONLY:
            problem = f"--{option.name} is an option of srun: sbatch refuses the script"
            yield option.line, problem, f"Give it to srun: srun --{option.name}{_value(option)} ..."
            continue
        near = _FORMER.get(option.name) or next(iter(get_close_matches(option.name, SBATCH_OPTIONS, 1, 0.75)), "")
        if near:
            problem = f"sbatch has no option --{option.name}, and refuses the script"
            yield option.line, problem, f"Write --{near}{_value(option)}."


def _value(option: Option) -> str:
    return f"={option.value}" if option.value else ""


def rule_bad_value(job: ScriptContext) -> Iterator[Fault]:
    for option in job.script.options:
        value = option.value
        if not value or re.search(r"[$=!@]|__|\{\{", value.removeprefix("gpu=")):  # or a program fills it in
            continue
        if option.name in _NUMBERS and not value.isdecimal():
            yield option.line, f"--{option.name}={value} is not a number: sbatch refuses the script", _number(option)
        elif option.name == "nodes" and not re.fullmatch(r"\d+[km]?(?:-\d+[km]?)?(?:,\d+.*)?", value):
            yield option.line, f"--nodes={value} is not a number of nodes: sbatch refuses the script", _number(option)
        elif option.name == "time" and not _TIME.fullmatch(value):
            problem = f"--time={value} is not a time in Slurm's format, which has no units: sbatch refuses the script"
            yield option.line, problem, f"Write {_time(value)}."
        elif option.name.startswith("gpus") and value.startswith("gpu"):
            problem = f"--{option.name}={value}: `gpu` would be the type of the GPU; sbatch refuses the job"
            cure = f"Write --{option.name}={value.rpartition(':')[2].lstrip('gpus=')}, or --gres={value}."
            yield option.line, problem, cure
        elif re.match(r"gres=gpu:[\w.-]+:[A-Za-z]|gpus[\w-]*=[\w.-]+:[A-Za-z]", f"{option.name}={value}"):
            problem = f"--{option.name}={value} does not end in a number: sbatch refuses the script"
            yield option.line, problem, f"Write --{option.name}={value.rpartition(':')[0]}:NUMBER."
        elif option.name == "gres" and not re.match(r"[A-Za-z]", value):
            yield option.line, f"--gres={value} does not name a resource", f"Write --gres=gpu:{value}."
        elif option.name == "gres" and re.match(r"gpus?[=]|gpus:", value):
            cure = f"Write --gres=gpu:{re.sub(r'[^0-9]', '', value)}."
            yield option.line, f"--gres={value}: the resource is called gpu, and its number follows a colon", cure


def _number(option: Option) -> str:
    found = re.match(r"\d+", option.value)
    return f"Write --{option.name}={found[0] if found else 'NUMBER'}."


def _time(value: str) -> str:
    found = re.match(r"(\d+)\s*([a-z]?)", value, re.IGNORECASE)
    if not found:
        return "--time=HH:MM:SS"
    amount, unit = int(found[1]), found[2].lower()
    return {"d": f"--time={amount}-00:00:00", "m": f"--time={amount}"}.get(unit, f"--time={amount:02}:00:00")


_MIB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}


def _mebibytes(value: str) -> float | None:
    found = re.fullmatch(r"(\d+)([KMGT]?)B?", value, re.IGNORECASE)
    return int(found[1]) * _MIB[found[2].upper() or "M"] if found else None


def rule_memory_unit(job: ScriptContext) -> Iterator[Fault]:
    for name, least in (("mem", 1000 if job.asks_for_gpus() else 100), ("mem-per-cpu", 100), ("mem-per-gpu", 1000)):
        option = job.option(name)
        meant = option and re.search(r"#[^#]*\b(?:MB|MiB|mega)", job.script.lines[option.line - 1][1:], re.IGNORECASE)
        if option and not meant and option.value.isdecimal() and 0 < int(option.value) < least:
            problem = f"--{name}={option.value} is {option.value} MB: the default unit is megabytes"
            yield option.line, problem, f"Write --{name}={option.value}G."


def rule_too_much_memory(job: ScriptContext) -> Iterator[Fault]:
    kind, option = job.node_type, job.option("mem")
    asked = _mebibytes(option.value) if option else None
    if option and asked and kind and kind.memory_gib and asked > kind.memory_gib * 1024:
        problem = f"--mem={option.value}, but a job may use {kind.memory_gib}G of a node of type {kind.name}"
        yield option.line, problem, f"Write --mem={kind.memory_gib}G, or --mem=0 for all of it: Slurm refuses more."


def rule_contradiction(job: ScriptContext) -> Iterator[Fault]:
    total, nodes, each = job.number("ntasks"), job.nodes(), job.number("ntasks-per-node")
    option = job.option("ntasks")
    one_number = (found := job.option("nodes")) and found.value.isdecimal()
    if option and total and nodes and each and one_number and total != nodes * each:
        problem = f"{total} tasks, but {nodes} nodes with {each} tasks each make {nodes * each}"
        yield option.line, problem, f"Remove --ntasks, or write --ntasks={nodes * each}."


_LAST_COUNTS = {
    "nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "time", "partition", "account", "mem", "gres", "qos",
    "gpus-per-node", "gpus", "output", "error", "constraint", "array",
}  # fmt: skip
"""Options of which sbatch keeps the last; others, such as --mail-type, add up."""


def rule_repeated_option(job: ScriptContext) -> Iterator[Fault]:
    first: dict[str, Option] = {}
    for option in job.script.options:
        before = first.setdefault(option.name, option)
        if option.name in _LAST_COUNTS and before.value != option.value:
            problem = f"--{option.name}={option.value} replaces --{option.name}={before.value} of line {before.line}"
            yield option.line, problem, "Remove one of the two."


def rule_log_directory(job: ScriptContext) -> Iterator[Fault]:
    for name in ("output", "error"):
        option = job.option(name)
        directory = option.value.rpartition("/")[0].rstrip("/") if option else ""
        if not option or not directory:
            continue
        if re.match(r"/(?:tmp|dev/shm)(?:/|$)", directory):
            problem = f"{option.value} is only on the first node, and lost with the job"
            yield option.line, problem, "Write it to the parallel file system."
            return
        submits = any(call.name == "sbatch" for call in job.calls)  # and makes the directory before the job
        for call in () if submits else job.calls:
            made = [word.plain.rstrip("/").removeprefix("./") for word in call.program[1:]]
            if call.name == "mkdir" and directory.removeprefix("./") in made:
                problem = f"{directory} is created by the job, but Slurm opens the log first: the job fails at once"
                yield option.line, problem, f"Run mkdir -p {directory} once, before sbatch."
                return


def rule_array_log(job: ScriptContext) -> Iterator[Fault]:
    array, option = job.option("array"), job.option("output")
    appends = (mode := job.option("open-mode")) and mode.value.startswith("a")
    several = array and not appends and not re.fullmatch(r"\d+|\d+-\d+.*%1", array.value)
    if several and option and not re.search(r"%[0-9]*[aAjJu]|/dev/null", option.value):
        problem = f"all tasks of the array write to {option.value} at the same time"
        yield option.line, problem, f"Add the task to the name: {_with_task(option.value)}."
    elif several and option and re.search(r"%[0-9]*A", option.value) and "%a" not in option.value:
        problem = f"%A is the same for all tasks of the array: all write to {option.value}"
        yield option.line, problem, f"Write {option.value.replace('%A', '%A_%a')}."


def _with_task(name: str) -> str:
    stem, dot, ending = name.rpartition(".")
    return f"{stem}-%A_%a.{ending}" if dot and "/" not in ending else f"{name}-%A_%a"


def rule_too_many_cpus(job: ScriptContext) -> Iterator[Fault]:
    kind = job.node_type
    if not kind or not kind.cores:
        return
    threads = job.option("threads-per-core", "hint", "ntasks-per-core")
    doubled = not kind.reserved_cores or (threads and threads.value in ("2", "multithread"))
    most = kind.cores * (kind.threads_per_core if doubled else 1)
    for call in (None, *job.steps):
        option, ranks = job.option("cpus-per-task", call=call), job.ranks_per_node(call) or 1
        each = job.number("cpus-per-task", call=call)
        unknown = job.option("ntasks", call=call) is not None and not job.nodes(call)
        second_threads = call is not None and ranks != kind.gpus  # a step may use them, but not for one rank per GPU
        if not option or not each or unknown or second_threads or each * ranks <= most:
            continue
        problem = (
            f"{ranks} tasks with {each} CPUs make {each * ranks}; a job may use {most} of a node of type {kind.name}"
        )
        yield (
            option.line,
            problem,
            f"Write --cpus-per-task={most // ranks}." if ranks <= most else "Request fewer tasks.",
        )
        return
