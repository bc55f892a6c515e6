"""Rules for batch scripts: what is requested from Slurm, and what it refuses or misreads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from hpcmod.lint.jobs.reading.context import GPU_OPTIONS, Fault, ScriptContext, is_distributed
from hpcmod.lint.jobs.reading.names import FORMER, LAST_COUNTS, SBATCH_OPTIONS, SLURM_SHORT, SRUN_ONLY
from hpcmod.lint.jobs.reading.script import Option

_EVENT = "(?:NONE|BEGIN|END|FAIL|REQUEUE|ALL|INVALID_DEPEND|STAGE_OUT|TIME_LIMIT(?:_[589]0)?|ARRAY_TASKS)"
_TASKS = r"\[?\d+(?:-\d+(?::\d+)?)?\]?"
_FORMS = (
    ("ntasks|ntasks-per-.*|cpus-per-.*|threads-per-core", r"0*[1-9]\d*", "a number", "NUMBER"),
    ("nodes", r"\d+[km]?(?:-\d+[km]?)?(?:,\d+.*)?", "a number of nodes (-N; -J is the name)", "NUMBER"),
    ("time", r"(\d+-)?\d+(:\d+){0,2}|\d+-|INFINITE|UNLIMITED", "a time of Slurm, which has no units", "HH:MM:SS"),
    ("mem(?:-per-.pu)?", r"\d+[KMGT]?B?", "an amount of memory", "NUMBERG"),
    ("partition", r"[^][<>]*", "a name", "NAME"),
    ("array", rf"{_TASKS}(?:,{_TASKS})*(?:%\d+\]?)?", "a list of task numbers", "FIRST-LAST"),
    ("mail-type", rf"(?:.*,)?{_EVENT}(?:,.*)?", "an event of Slurm", "BEGIN,END,FAIL"),
)  # options: names, how sbatch reads a value, in words, and an example. Tried with sbatch 22.05
_FILLED_IN = re.compile(r"[$!{]|@\w+@|[= ]@[A-Z]|@<|__|%\(|%\w+%|X+[a-z]\w*XXX|[= ]_\w+_|=#|\s=|=\s+\S|\s\(\d+\)!?$")
"""A directive that a program completes, that another rule reports, or that a page explains by a number."""
_LEFT = re.compile(
    r"(?i)<[^<>@]+>|(?<![a-z])your[_-]?(?:\w+[_-])?(?:account|project|allocation|grant|qos|partition|group|name|pi\b)\w*|"
    r"change_?me|fixme|placeholder|\w+_of_your_choice|(?:insert|enter|replace)_(?:your|here)\w*|[_-]here\b|"
    r"(?<![a-z\d])[a-z]?x{3,}(?![a-z\d])|(?<!\w)/path(?:/to)?(?=/|$)"
)
_NAMES = {"account": r"account|project|allocation|def-\w*user", "partition": "partition|node(?=_?name)", "qos": "qos"}
_CALLED = r".*\[[a-z].*|(?:(?:my|an?|some)[_-]?)?(?:{})(?:[_-]?(?:name|id|code|string|number))?"
"""An account or a partition that is only called so."""
_FREE = {"job-name", "comment", "mail-user"}
_NOBODY = re.compile(
    r"(?i)<[^<>@]+>|^\[|^%u|(?<![a-z])your[._-]?(?:e?-?mail|name|net_?id|adr?dress|@|own)|(?:user|email|name)_here|"
    r"^(?:(?:some|my)?[._-]?(?:user|e?-?mail)(?:[._-]?(?:name|id|e?mail|address))?|[a-z]*net_?id|uniqname|example|name|"
    r"first(?:name)?[._]last(?:name)?|me(?=@(?!exam))|someone|nobody|x{3,}|abc123|jdoe)@|"
    r"@(?:x{3,}|abc|(?:some|your|my)?[_-]?domain)\b|^(?:(?:my|user)?[_-]?e?-?mail(?:[_-]?address)?|x{3,}|username)$"
)
_MEMORY = re.compile(r"(\d+)([KMGT]?)B?", re.IGNORECASE)
_MIB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}
_MISSPELT = re.compile(
    r"(?:\s+#SBATCH|#(?!SBATCH)(?:[SBATCH]{5,7}|SBAT..|S\wATCH|SB\wTCH|SBA\wCH))\s*-|"
    r"#sbatch\s+-(?:-\S+|\w ?\S+)\s*(?:#|$)"
)
_APART = re.compile(r"[ \t]*#[ \t]+SBATCH[ \t]+-")  # often switched off: a mistake only if sbatch reads no other
_TEMPLATE = re.compile(r"(?m)^(?:\.\.\.|@\w+@|%?[{(][\w.]+[)}]s?|# THIS FILE IS A TEMPLATE.*|.*['\"]#!/bin/\w+)$")
_DOCUMENT = re.compile(r"^(?!.*\(\().*<<-?[ \t]*['\"\\]?([A-Za-z_]\w*)", re.MULTILINE)
_OF_TEMPLATES = re.compile(r"\$(?:\{(?!(?:HOME|USER|LOGNAME|PWD|SCRATCH|WORK|SLURM_\w+)\})|(?=[a-z]+[A-Z]))(\w+)")
"""A variable that is filled in before the script is submitted, if there are several: no shell has it by itself."""


def rule_unknown_option(job: ScriptContext) -> Iterator[Fault]:
    steps = [option for call in job.steps for option in call.srun or ()]
    several = (job.number("nodes") or 1) > 1
    for option in (*job.script.options, *steps):
        if option.name == "tasks" and (several or option not in job.script.options):
            problem = "--tasks is short for --tasks-per-node: as many tasks on each node"
            yield option.line, problem, f"Write --ntasks={option.value}."
        elif option.name in ("f", "g", "j", "y", "z") and f" -{option.name}" in job.script.lines[option.line - 1]:
            yield option.line, f"Slurm has no option -{option.name}", "Write -- before the name of an option."
    for option in (*job.script.options, *steps):
        program, options = ("srun", SBATCH_OPTIONS | SRUN_ONLY) if option in steps else ("sbatch", SBATCH_OPTIONS)
        name, value = option.name, f"={option.value}" if re.match("[^-]", option.value) else ""
        known = [other for other in options - {"exclusive-topo"} if other.startswith(name)]  # which few releases have
        if len(name) < 2 or name in options or len(known) == 1:
            continue
        meant, _, given = f"{name}-{option.value}".partition("=") if known else name.partition(":")
        near = FORMER.get(name) or next(iter(get_close_matches(meant, options, 1, 0.75)), "")
        value = f"={given}" if given else value
        if name in SRUN_ONLY:
            problem = f"--{name} is an option of srun: sbatch refuses the script"
            yield option.line, problem, f"Give it to srun: srun --{name}{value} ..."
        elif near:
            yield option.line, f"{program} has no option --{name}, and refuses it", f"Write --{near}{value}"


def rule_bad_value(job: ScriptContext) -> Iterator[Fault]:
    lines = [re.split(r"\s#", line, maxsplit=1)[0] for line in job.script.lines]
    is_template = sum(re.fullmatch("[A-Z_]{4,}", option.value) is not None for option in job.script.options) > 2
    for option in job.script.options:
        line = lines[option.line - 1]
        is_name = option.name != "mail-type" and re.fullmatch("[A-Z_]{3,}", option.value)  # that a program replaces
        problem, right = ("", "") if is_name else _refused_value(option.name, option.value)
        if not option.value and option.name in {*SLURM_SHORT.values()} - {"wait"} and f"{option.name}=" not in line:
            problem = f"--{option.name} has no value: sbatch takes the next option for it"
            yield option.line, problem, "Add the value, or remove the line."
        elif problem and not _FILLED_IN.search(line) and "=" not in option.value.removeprefix("gpu="):
            yield option.line, f"--{option.name}={option.value}{problem}", f"Write {right}."
        elif option.name not in _FREE and not _FILLED_IN.search(line):
            named = option.value.rpartition("/")[0] if option.name in ("output", "error") else option.value
            called = option.name in _NAMES and re.fullmatch(_CALLED.format(_NAMES[option.name]), named, re.IGNORECASE)
            for left in [named] if called and not (is_name and is_template) else _LEFT.findall(named)[:1]:
                yield option.line, f"--{option.name}: {left} is still to be replaced", "Write the value itself."
    for word in {word.line: word for word in reversed(job.script.strays)}.values():
        if lines[word.line - 1].isascii() and not _FILLED_IN.search(lines[word.line - 1]):
            problem = f"{word.text} is neither an option nor the value of one: sbatch refuses the script"
            yield word.line, problem, "Remove it, or put quotes around a value with a blank."


def rule_mail_address(job: ScriptContext) -> Iterator[Fault]:
    option, events = job.option("mail-user"), job.option("mail-type")
    given = events.value.upper() if events and not _FILLED_IN.search(events.value) else ""
    if option and _NOBODY.search(option.value) and given != "NONE" and not re.search(r"[${]|__", option.value):
        yield option.line, f"--mail-user={option.value}: nobody gets the mails of this job", "Write your own address."
    unknown = [word for word in re.findall(r"\w+", given) if not re.fullmatch(_EVENT, word)]
    if events and unknown and not _refused_value("mail-type", given)[0]:
        yield events.line, f"Slurm sends no mail at {unknown[0]}", "Write BEGIN, END, FAIL or TIME_LIMIT."


def _refused_value(name: str, value: str) -> tuple[str, str]:
    """Return what is wrong with the value of an option, and the right form; both empty: nothing."""
    kind, _, last = value.rpartition(":")
    amount = re.match(r"[1-9]\d*", value)
    for names, form, meaning, example in _FORMS:
        if re.fullmatch(names, name) and not re.fullmatch(form, value, re.IGNORECASE):
            right = f"--{name}={example.replace('NUMBER', amount[0] if amount else 'NUMBER')}"
            return f" is not {meaning}: sbatch refuses the script", right
    if name.startswith("gpus") and value.startswith("gpu"):
        right = f"--{name}={last.lstrip('gpus=')}, or --gres={value}"
        return ": `gpu` would be the type of the GPU; sbatch refuses the job", right
    if re.match(r"gres=gpu:[\w.-]+:[A-Za-z]|gpus[\w-]*=[\w.-]+:[A-Za-z]", f"{name}={value}"):
        return " does not end in a number: sbatch refuses the script", f"--{name}={kind}:NUMBER"
    if name == "gres" and re.match(r"\d+$|gpus?=|gpus:", value):
        right = f"--gres=gpu:{re.sub(r'[^0-9]', '', value)}"
        return ": the resource is called gpu, and its number follows a colon", right
    return "", ""


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
    fewer = total and nodes and not each and 0 < (job.number("ntasks") or 0) < (job.number("nodes") or 0)
    if fewer and total and nodes and nodes.value.isdecimal():
        problem = f"--ntasks={total.value} on {nodes.value} nodes: sbatch requests only {total.value}"
        yield total.line, problem, f"Write --ntasks-per-node, or --nodes={total.value}."
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
        if option.name in LAST_COUNTS and before.value != option.value and not refused:
            problem = f"--{option.name}={option.value} replaces --{option.name}={before.value} of line {before.line}"
            yield option.line, problem, f"Remove one of the two{', or call it --error' * (option.name == 'output')}."

    events = [option for option in job.script.options if option.name == "mail-type"]
    told = {*re.findall(r"\w+", events[-1].value.upper() if events else "ALL")}
    lost = {word for option in events for word in re.findall(r"[A-Z]\w+", option.value.upper())} - told - {"NONE"}
    if lost and not told & {"ALL", "NONE"}:
        problem = f"since Slurm 25.05 only the last --mail-type counts: no mail at {', '.join(sorted(lost))}"
        yield events[-1].line, problem, f"Write one line: --mail-type={','.join(option.value for option in events)}"


def rule_log_directory(job: ScriptContext) -> Iterator[Fault]:
    for option in filter(None, (job.option("error"), job.option("output"))):
        if re.match(r"/(?:tmp|dev/shm)/", option.value):
            problem = f"{option.value} is only on the first node, and lost with the job"
            yield option.line, problem, "Write it to the parallel file system."


def rule_array_log(job: ScriptContext) -> Iterator[Fault]:
    array, option, mode = job.option("array"), job.option("output"), job.option("open-mode")
    if not array or not option or re.fullmatch(r"\d+|(\d+)-\1|.*%1", array.value) or (mode and mode.value[:1] == "a"):
        return
    if not re.search(r"%[0-9]*[aAjJu]|/dev/null|[][<{$]", option.value):
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
            asked = each * ranks
            problem = f"{ranks} tasks with {each} CPUs make {asked}; a job may use {most} of a node of type {kind.name}"
            cure = f"Write --cpus-per-task={most // ranks}." if ranks <= most else "Request fewer tasks."
            yield option.line, problem, cure
            return


def rule_no_shebang(job: ScriptContext) -> Iterator[Fault]:
    if (job.script.options or job.script.late) and not re.match("#!(?! */(?:usr/env|env)\\b)", job.script.lines[0]):
        yield 1, "the first line does not name a shell: the job does not start", "Begin with #!/bin/bash."


def rule_line_end(job: ScriptContext) -> Iterator[Fault]:
    wrong = [number for number, line in enumerate(job.script.lines, 1) if line.endswith("\r")]
    for number in wrong[:1]:
        yield number, f"{len(wrong)} lines have Windows line endings: sbatch refuses the script", "Run dos2unix on it."


def rule_late_directive(job: ScriptContext) -> Iterator[Fault]:
    writes = any("#SBATCH" in document.text for call in job.calls for document in call.documents)
    top = job.script.options or job.script.lines[0].startswith("#!")  # otherwise no-shebang tells it
    for number in () if not top or (writes and not job.script.options) else job.script.late[:1]:  # a generator
        above = "\n".join(job.script.lines[: number - 1])
        opened = {match[1]: above[match.end() :] for match in _DOCUMENT.finditer(above)}  # missed by the grammar
        closed = all(re.search(rf"^\s*{end}$", rest, re.MULTILINE) for end, rest in opened.items())
        if closed and not _TEMPLATE.search(above):
            problem = "sbatch stops reading #SBATCH at the first command: options here and below do nothing"
            yield number, problem, f"Move them {'to the other #SBATCH lines' if job.script.options else 'above it'}."


def rule_misspelt_directive(job: ScriptContext) -> Iterator[Fault]:
    for number, line in enumerate(job.script.lines[: job.calls[0].line if job.calls else None], 1):
        wrong = _MISSPELT.match(line) or (not job.script.options and _APART.match(line))
        if wrong and f"#SBATCH{line[7:]}" not in job.script.lines and number not in job.script.documents:
            yield number, "for sbatch this is a comment", "Begin the line with #SBATCH; to switch it off, ##SBATCH."


def rule_misplaced_equals(job: ScriptContext) -> Iterator[Fault]:
    for number, line in enumerate(job.script.lines, 1):
        match = re.match(r"#SBATCH\s(?:[^#]*\s)?-([a-z][a-z-]*|[A-Z])=\S*", line)
        name = match[1] if match else ""
        if re.match(r"#SBATCH\s+--[\w-]+(?:\s+=|=\s+[^\s#]|==)", line):
            yield number, "spaces or a second `=` at the `=`: sbatch reads them as the value", "Write --option=value."
        elif match and len(name) == 1:
            option = match[0].split()[-1]
            cure = f"Write {option.replace('=', ' ')}, or --{SLURM_SHORT.get(name, 'NAME')}={option[3:]}."
            yield number, f"{option}: after a single letter the `=` is part of the value", cure
        elif name in SBATCH_OPTIONS:
            yield number, f"-{name}: a single dash is for one-letter options, here -{name[0]}", f"Write --{name}=..."


def rule_directive_variable(job: ScriptContext) -> Iterator[Fault]:
    names = {name for option in job.script.options for name in _OF_TEMPLATES.findall(option.value)} - job.names
    for option in job.script.options:
        if len(names) + sum(not name.isupper() for name in names) > 2 and _OF_TEMPLATES.search(option.value):
            continue
        given = f"--{option.name}={option.value}: no shell reads #SBATCH lines"
        if option.value.startswith("~/"):
            yield option.line, f"{given}, so ~ stays as it is", "Write the full path."
        if option.name != "job-name" and re.search(r"\$\w|\$\{|\$\(|`", option.value):
            cure = "Write the value itself; in file names %j is the job, %x its name, %u the user."
            yield option.line, f"{given}, so the variable is not expanded", cure


def rule_missing_option(job: ScriptContext) -> Iterator[Fault]:
    for name in job.site.job.required if job.script.options else ():
        if job.option(name) is None:
            variable = {"time": "TIMELIMIT"}.get(name, name.upper())
            problem = f"--{name} is missing, which {job.site.name} requires for every job"
            yield 1, problem, f"Add #SBATCH --{name}=..., or export SBATCH_{variable}."
    for option in (option for option in job.script.options if option.name in _NAMES and not option.value):
        if re.search(rf"{option.name}=(?!#)", job.script.lines[option.line - 1]):
            yield option.line, f"--{option.name} has no value, which is still to be written", "Write it."


def rule_no_gpus(job: ScriptContext) -> Iterator[Fault]:
    kind = job.node_type
    distributed = [*filter(is_distributed, job.calls)]
    if not kind or not kind.gpus or not job.site.job.gpus or not distributed:
        return
    whole = "--exclusive" in job.site.job.lines and job.option("exclusive")  # sbatch(1): with all GPUs of its nodes
    if not whole and not any(job.option(*GPU_OPTIONS, call=call) for call in distributed):
        yield distributed[0].line, "no GPUs are requested", f"Add #SBATCH --gpus-per-node={kind.gpus}."


def rule_too_many_gpus(job: ScriptContext) -> Iterator[Fault]:
    kind, asked, option = job.node_type, job.gpus_per_node(), job.option(*GPU_OPTIONS)
    if kind and option and asked and asked > kind.gpus and any(each.gpus for each in job.site.nodes.types):
        problem = f"{asked} GPUs per node, but a node of type {kind.name} has {kind.gpus or 'none'}"
        cure = "Request more nodes instead" if kind.gpus else "Choose a partition that has GPUs"
        yield option.line, problem, f"{cure}: Slurm never starts this job."


def rule_cpus_per_gpu(job: ScriptContext) -> Iterator[Fault]:
    ratio, gpus = job.site.launcher.cpus_per_gpu, job.gpus_per_node() or 0
    option, cpus = job.option("cpus-per-task"), job.number("cpus-per-task") or 1
    ranks = job.ranks_per_node() or 1
    dealt = job.option("ntasks") and not job.option("ntasks-per-node")
    if dealt and (cpus == ratio or job.ranks_per_node() is None):
        return  # each has its GPU, or the shares are unknown
    if cpus < ratio * gpus // ranks:
        problem = f"{cpus} CPUs for each of {ranks} tasks, but {job.site.name} requires {ratio} for each of {gpus} GPUs"
        yield option.line if option else 1, problem, f"#SBATCH --cpus-per-task={ratio * gpus // ranks}"


def rule_export_none(job: ScriptContext) -> Iterator[Fault]:
    asked = job.option("export")
    named = any(re.search("SLURM_EXPORT_ENV|^slurm_setup$", word.text) for call in job.calls for word in call.words)
    told = named or all(_exports_all(call.of_srun("export")) for call in job.steps)  # slurm_setup: a module at LRZ
    if asked and asked.value and not _exports_all(asked) and not told:
        problem = f"--export={asked.value} applies to every srun too: modules loaded here do not reach the ranks"
        yield asked.line, problem, "Add `unset SLURM_EXPORT_ENV` before the first srun, or srun --export=ALL."
    for call in job.steps:
        given = call.of_srun("export")
        if given and not _exports_all(given) and not job.option("container-image", call=call):
            problem = f"srun --export={given.value} hides all other variables from the ranks, also the module's"
            yield given.line, problem, "Write --export=ALL,NAME=value, or export the variable before."


def _exports_all(option: Option | None) -> bool:
    return option is not None and re.match(r"\$|ALL(?:,|$)", option.value, re.IGNORECASE) is not None


def rule_step_too_big(job: ScriptContext) -> Iterator[Fault]:
    option, kind = job.option("nodes"), job.node_type
    cpus = (job.ranks() or 0) * (job.number("cpus-per-task") or 0)
    last = option.value.rpartition("-")[2] if option else ""
    nodes = int(last) if last.isdecimal() else 0
    whole = nodes * kind.cores * kind.threads_per_core if kind else 0  # a step may split the CPUs of a task
    given = {"nodes": nodes, "CPUs": max(cpus, whole) if cpus else 0}
    for call in job.steps:
        each = job.number("cpus-per-task", call=call) if call.of_srun("cpus-per-task") else 0
        step_cpus = (job.ranks(call) or 0) * (each or 0)
        asked = {"nodes": job.number("nodes", call=call) or 0, "CPUs": step_cpus}
        too_many = [unit for unit in given if asked[unit] > given[unit] > 0]
        for unit in too_many[:1]:
            problem = f"this step requests {asked[unit]} {unit}, the job {given[unit]}: srun refuses, or waits forever"
            yield call.line, problem, "Request as many in the #SBATCH lines."
