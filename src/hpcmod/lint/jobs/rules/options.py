"""Rules for batch scripts: options and values that Slurm refuses or misreads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import PurePath
from posixpath import normpath

from hpcmod.lint.jobs.reading.context import Fault, ScriptContext
from hpcmod.lint.jobs.reading.options import SLURM_SHORT, Option
from hpcmod.lint.jobs.reading.slurm_names import SBATCH_OPTIONS, SRUN_ONLY

_FORMER = {
    "workdir": "chdir", "share": "oversubscribe", "job_name": "job-name", "walltime": "time", "queue": "partition",
    "mem-per-task": "mem-per-cpu", "memory": "mem", "email": "mail-user", "name": "job-name", "cpus": "cpus-per-task",
}  # fmt: skip
_LAST_COUNTS = {
    "nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "time", "partition", "account", "mem", "gres", "qos",
    "gpus-per-node", "gpus", "output", "error", "constraint", "array", "export",
}  # fmt: skip
"""Options of which sbatch keeps the last. Values of --mail-type were added up before Slurm 25.05."""
_EVENT = "(?:NONE|BEGIN|END|FAIL|REQUEUE|ALL|INVALID_DEPEND|STAGE_OUT|TIME_LIMIT(?:_[589]0)?|ARRAY_TASKS)"
_TASKS = r"\[?\d+(?:-\d+(?::\d+)?)?\]?"
_FORMS = (
    ("ntasks|ntasks-per-.*|cpus-per-.*|threads-per-core", r"0*[1-9]\d*", "a number", "NUMBER"),
    ("nodes", r"\d+[km]?(?:-\d+[km]?)?(?:,\d+.*)?", "a number of nodes (-N; -J is the name)", "NUMBER"),
    ("time", r"(\d+-)?\d+(:\d+){0,2}|\d+-|INFINITE|UNLIMITED", "a time in Slurm's format, which has no units", ""),
    ("mem(?:-per-.pu)?", r"\d+[KMGT]?B?", "an amount of memory", "NUMBERG"),
    ("partition", r"[^][<>]*", "a name", "NAME"),
    ("array", rf"{_TASKS}(?:,{_TASKS})*(?:%\d+\]?)?", "a list of task numbers", "FIRST-LAST"),
    ("mail-type", rf"(?:{_EVENT},)*{_EVENT},?", "a list of Slurm's events", "END,FAIL"),
)
"""Options: names, how sbatch reads a value, in words, and an example. Tried with sbatch 22.05."""
_FILLED_IN = re.compile(r"[$!@{]|__|%\(|%\w+%|([A-Za-z])\1\1|[= ]_\w+_|=#|\s=|=\s+\S|\s\(\d+\)!?$")
"""A directive that a program completes, that another rule reports, or that a page explains by a number."""
_LEFT = re.compile(r"<[^<>@]+>|(?<![a-z])your[_-]?(?:account|project|allocation)|change_?me|fixme", re.IGNORECASE)
_NOBODY = re.compile(r"<[^<>@]+>|^your[._-]?(?:e?-?mail|name|net_?id|adr?dress|@)", re.IGNORECASE)
_MEMORY = re.compile(r"(\d+)([KMGT]?)B?", re.IGNORECASE)
_MIB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}


def rule_unknown_option(job: ScriptContext) -> Iterator[Fault]:
    several = (job.number("nodes") or 1) > 1
    for option in (*job.script.options, *(each for call in job.steps for each in call.srun or ())):
        if option.name == "tasks" and (several or option not in job.script.options):
            problem = "--tasks is short for --tasks-per-node: as many tasks on each node"
            yield option.line, problem, f"Write --ntasks={option.value}."
        elif option.name in ("f", "g", "j", "y", "z") and f" -{option.name}" in job.script.lines[option.line - 1]:
            yield option.line, f"Slurm has no option -{option.name}", "Write -- before the name of an option."
    for option in job.script.options:
        name, value = option.name, f"={option.value}" if option.value else ""
        known = [other for other in SBATCH_OPTIONS if other.startswith(name)]
        if len(name) < 2 or name in SBATCH_OPTIONS or len(known) == 1:
            continue
        meant, _, given = f"{name}-{option.value}".partition("=") if known else (name, "", "")
        near = _FORMER.get(name) or next(iter(get_close_matches(meant, SBATCH_OPTIONS, 1, 0.75)), "")
        value = f"={given}" if given else value
        if name in SRUN_ONLY:
            problem = f"--{name} is an option of srun: sbatch refuses the script"
            yield option.line, problem, f"Give it to srun: srun --{name}{value} ..."
        elif near:
            yield option.line, f"sbatch has no option --{name}, and refuses the script", f"Write --{near}{value}"


def rule_bad_value(job: ScriptContext) -> Iterator[Fault]:
    lines = [line.partition(" #")[0] for line in job.script.lines]
    for option in job.script.options:
        line = lines[option.line - 1]
        is_name = option.name != "mail-type" and re.fullmatch("[A-Z_]{3,}", option.value)  # that a program replaces
        problem, right = ("", "") if is_name else _refused_value(option.name, option.value)
        if not option.value and option.name in {*SLURM_SHORT.values()} - {"wait"} and f"{option.name}=" not in line:
            problem = f"--{option.name} has no value: sbatch takes the next option for it"
            yield option.line, problem, "Add the value, or remove the line."
        elif problem and not _FILLED_IN.search(line) and "=" not in option.value.removeprefix("gpu="):
            yield option.line, f"--{option.name}={option.value}{problem}", f"Write {right}."
        elif option.name not in ("job-name", "comment", "mail-user") and not _FILLED_IN.search(line):
            named = option.value.rpartition("/")[0] if option.name in ("output", "error") else option.value
            for left in _LEFT.findall(named)[:1]:
                yield option.line, f"--{option.name}: {left} is still to be replaced", "Write the value itself."
    for word in job.script.strays[:1]:
        if lines[word.line - 1].isascii() and not _FILLED_IN.search(lines[word.line - 1]):
            problem = f"{word.text} is neither an option nor the value of one: sbatch refuses the script"
            yield word.line, problem, "Remove it, or put quotes around a value with a blank."


def rule_mail_address(job: ScriptContext) -> Iterator[Fault]:
    option = job.option("mail-user")
    if option and _NOBODY.search(option.value) and not re.search(r"[${]|__", option.value):
        yield option.line, f"--mail-user={option.value}: nobody gets the mails of this job", "Write your own address."


def _refused_value(name: str, value: str) -> tuple[str, str]:
    """Return what is wrong with the value of an option, and the right form; both empty: nothing."""
    kind, _, last = value.rpartition(":")
    amount = re.match(r"[1-9]\d*", value)
    for names, form, meaning, example in _FORMS:
        if re.fullmatch(names, name) and not re.fullmatch(form, value, re.IGNORECASE):
            right = f"--{name}={example.replace('NUMBER', amount[0] if amount else 'NUMBER')}"
            effect = "" if name == "mail-type" else ": sbatch refuses the script"
            return f" is not {meaning}{effect}", _time(value) if name == "time" else right
    if name.startswith("gpus") and value.startswith("gpu"):
        right = f"--{name}={last.lstrip('gpus=')}, or --gres={value}"
        return ": `gpu` would be the type of the GPU; sbatch refuses the job", right
    if re.match(r"gres=gpu:[\w.-]+:[A-Za-z]|gpus[\w-]*=[\w.-]+:[A-Za-z]", f"{name}={value}"):
        return " does not end in a number: sbatch refuses the script", f"--{name}={kind}:NUMBER"
    if name == "gres" and re.match(r"\d+$|gpus?=|gpus:", value):
        right = f"--gres=gpu:{re.sub(r'[^0-9]', '', value)}"
        return ": the resource is called gpu, and its number follows a colon", right
    return "", ""


def _time(value: str) -> str:
    match = re.match(r"(\d+)\s*([a-z]?)", value, re.IGNORECASE)
    if not match:
        return "--time=HH:MM:SS"
    amount, unit = int(match[1]), match[2].lower()
    units = {"d": f"{amount}-00:00:00", "m": f"{amount}", "s": f"{amount // 60}:{amount % 60:02}"}
    return f"--time={units.get(unit, f'{amount:02}:00:00')}"


def rule_memory_unit(job: ScriptContext) -> Iterator[Fault]:
    for name, least in (("mem", 1000 if job.asks_for_gpus() else 100), ("mem-per-cpu", 100), ("mem-per-gpu", 1000)):
        option = job.option(name)
        meant = option and re.search(r"#[^#]*\b(?:MB|MiB|mega)", job.script.lines[option.line - 1][1:], re.IGNORECASE)
        if option and not meant and option.value.isdecimal() and 0 < int(option.value) < least:
            problem = f"--{name}={option.value} is {option.value} MB: the default unit is megabytes"
            yield option.line, problem, f"Write --{name}={option.value}G."


def rule_too_much_memory(job: ScriptContext) -> Iterator[Fault]:
    kind, option = job.node_type, job.option("mem")
    amount = _MEMORY.fullmatch(option.value) if option else None
    asked = int(amount[1]) * _MIB[amount[2].upper() or "M"] if amount else 0
    if option and kind and asked > kind.memory_gib * 1024 > 0:
        problem = f"--mem={option.value}, but a job may use {kind.memory_gib}G of a node of type {kind.name}"
        yield option.line, problem, f"Write --mem={kind.memory_gib}G, or --mem=0 for all of it: Slurm refuses more."


def rule_contradiction(job: ScriptContext) -> Iterator[Fault]:
    total, nodes, each = job.option("ntasks"), job.option("nodes"), job.number("ntasks-per-node")
    memory = [option for name in ("mem", "mem-per-cpu", "mem-per-gpu") if (option := job.option(name))]
    if len(memory) > 1:
        yield memory[1].line, f"--{memory[0].name} excludes --{memory[1].name}: sbatch refuses both", "Remove one."
    gpus = job.option("gpus-per-task")
    if gpus and not job.option("ntasks", "ntasks-per-node", "tasks", "nodes", "gpus"):
        yield gpus.line, "--gpus-per-task without a number of tasks: sbatch refuses the script", "Add --ntasks=1."
    if total and nodes and each and nodes.value.isdecimal() and (job.number("ntasks") or 0) > int(nodes.value) * each:
        problem = f"{total.value} tasks, but at most {each} on each of {nodes.value} nodes: sbatch refuses the script"
        yield total.line, problem, f"Remove --ntasks, or write --ntasks={int(nodes.value) * each}."


def rule_repeated_option(job: ScriptContext) -> Iterator[Fault]:
    first: dict[str, Option] = {}
    for option in job.script.options:
        before = first.setdefault(option.name, option)
        refused = _refused_value(option.name, option.value)[0] or _refused_value(option.name, before.value)[0]
        if option.name in _LAST_COUNTS and before.value != option.value and not refused:
            problem = f"--{option.name}={option.value} replaces --{option.name}={before.value} of line {before.line}"
            yield option.line, problem, f"Remove one of the two{', or call it --error' * (option.name == 'output')}."


def rule_log_directory(job: ScriptContext) -> Iterator[Fault]:
    made: set[PurePath] = set()
    here = PurePath()
    for call in (call for call in job.calls if call.name in ("cd", "mkdir")):
        for path in (_submitted(job.expand(word.plain)) for word in call.program[1:]):
            made |= {path, here / path} if call.name == "mkdir" else set()
            here = path if call.name == "cd" else here
    made |= {parent for path in made if not path.is_absolute() for parent in path.parents}
    made = {path for path in made if {*path.parts} - {".."}}
    submits = any(call.name == "sbatch" for call in job.calls)  # and makes the directory before the job
    logs = filter(None, (job.option("error"), job.option("output")))
    for directory, option in {log.value.rpartition("/")[0].rstrip("/"): log for log in logs}.items():
        exists = any((folder / directory).is_dir() for folder in job.folders)
        if re.match(r"/(?:tmp|dev/shm)(?:/|$)", directory):
            problem = f"{option.value} is only on the first node, and lost with the job"
            yield option.line, problem, "Write it to the parallel file system."
        elif re.search(r"%\d*[jJA]", directory) and not submits:
            problem = f"{directory} cannot exist before the job has its number, and Slurm does not create it"
            yield option.line, problem, "Use the number only in the name of the file."
        elif PurePath(normpath(directory)) in made and not submits and not exists:
            problem = f"{directory} is created by the job, but Slurm opens the log first: until it exists, jobs fail"
            yield option.line, problem, f"Run mkdir -p {directory} once, before sbatch."


def _submitted(name: str) -> PurePath:
    """Return a path as seen from the directory of the submission."""
    given = re.sub(r"\$\{\w+:?-(.*)\}", r"\1", name)
    return PurePath(normpath(re.sub(r"^\$(?:\{?(?:SLURM_SUBMIT_DIR|PWD)\}?|\(pwd\))(?:/+|$)", "", given) or "."))


def rule_array_log(job: ScriptContext) -> Iterator[Fault]:
    array, option, mode = job.option("array"), job.option("output"), job.option("open-mode")
    if not array or not option or re.fullmatch(r"\d+|\d+-\d+.*%1", array.value) or (mode and mode.value[:1] == "a"):
        return
    if not re.search(r"%[0-9]*[aAjJu]|/dev/null", option.value):
        stem, dot, ending = option.value.rpartition(".")
        name = f"{stem}-%A_%a.{ending}" if dot and "/" not in ending else f"{option.value}-%A_%a"
        problem = f"all tasks of the array write to {option.value} at the same time"
        yield option.line, problem, f"Add the task to the name: {name}."


def rule_too_many_cpus(job: ScriptContext) -> Iterator[Fault]:
    kind = job.node_type
    if not kind or not kind.cores:
        return
    threads = job.option("threads-per-core", "hint", "ntasks-per-core")
    doubled = not kind.reserved_cores or (threads and threads.value in ("2", "multithread"))
    most = kind.cores * (kind.threads_per_core if doubled else 1)
    for call in (None, *job.steps):
        option, ranks = job.option("cpus-per-task", call=call), job.ranks_per_node(call) or 1
        each = job.number("cpus-per-task", call=call) or 0
        unknown = job.option("ntasks", call=call) and not (job.number("nodes", call=call) and job.ranks(call))
        second_threads = call is not None and ranks != kind.gpus  # a step may use them, but not for one rank per GPU
        if option and each * ranks > most and not unknown and not second_threads:
            asked = f"{ranks} tasks with {each} CPUs make {each * ranks}"
            problem = f"{asked}; a job may use {most} of a node of type {kind.name}"
            cure = f"Write --cpus-per-task={most // ranks}." if ranks <= most else "Request fewer tasks."
            yield option.line, problem, cure
            return
