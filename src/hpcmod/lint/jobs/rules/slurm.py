"""Rules for batch scripts: the resources requested from Slurm, and whether Slurm reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.lint.jobs.reading.context import GPU_OPTIONS, Fault, ScriptContext, is_distributed
from hpcmod.lint.jobs.reading.options import SLURM_SHORT, Option
from hpcmod.lint.jobs.reading.slurm_names import SBATCH_OPTIONS

_MISSPELT = re.compile(r"(?:\s+#SBATCH|#(?!SBATCH)(?:[SBATCH]{5,7}|SBAT..))\s*-|#sbatch\s+-(?:-\S+|\w ?\S+)\s*(?:#|$)")
_APART = re.compile(r"[ \t]*#[ \t]+SBATCH[ \t]+-")  # often switched off: a mistake only if sbatch reads no other
_TEMPLATE = re.compile(r"^(?:\.\.\.|@\w+@|%?[{(][\w.]+[)}]s?|# THIS FILE IS A TEMPLATE.*)$", re.MULTILINE)
_DOCUMENT = re.compile(r"^(?!.*\(\().*<<-?[ \t]*['\"\\]?([A-Za-z_]\w*)", re.MULTILINE)
_OF_TEMPLATES = re.compile(r"\$\{(?!(?:HOME|USER|LOGNAME|PWD|SCRATCH|WORK|SLURM_\w+)\})(\w+)\}")
"""A variable that is filled in before the script is submitted, if there are several: no shell has it by itself."""


def rule_no_shebang(job: ScriptContext) -> Iterator[Fault]:
    if job.script.options and not job.script.lines[0].startswith("#!"):
        yield 1, "the first line does not name a shell: sbatch refuses the script", "Begin with #!/bin/bash."


def rule_line_end(job: ScriptContext) -> Iterator[Fault]:
    wrong = [number for number, line in enumerate(job.script.lines, 1) if line.endswith("\r")]
    for number in wrong[:1]:
        problem = f"{len(wrong)} lines have Windows line endings: sbatch refuses the script"
        yield number, problem, "Run dos2unix on it."


def rule_late_directive(job: ScriptContext) -> Iterator[Fault]:
    writes = any("#SBATCH" in document.text for call in job.calls for document in call.documents)
    for number in () if writes and not job.script.options else job.script.late[:1]:  # a generator of batch scripts
        above = "\n".join(job.script.lines[: number - 1])
        opened = {match[1]: above[match.end() :] for match in _DOCUMENT.finditer(above)}  # missed by the grammar
        closed = all(re.search(rf"^\s*{end}$", rest, re.MULTILINE) for end, rest in opened.items())
        if closed and not _TEMPLATE.search(above):
            problem = "sbatch stops reading #SBATCH at the first command: options here and below do nothing"
            yield number, problem, "Move them to the other #SBATCH lines."


def rule_misspelt_directive(job: ScriptContext) -> Iterator[Fault]:
    for number, line in enumerate(job.script.lines, 1):
        wrong = _MISSPELT.match(line) or (not job.script.options and _APART.match(line))
        if wrong and number not in job.script.documents:
            yield number, "for sbatch this is a comment", "Begin the line with #SBATCH; to switch it off, ##SBATCH."


def rule_misplaced_equals(job: ScriptContext) -> Iterator[Fault]:
    for number, line in enumerate(job.script.lines, 1):
        match = re.match(r"#SBATCH\s(?:[^#]*\s)?-([a-z][a-z-]*|[A-Z])=\S*", line)
        name = match[1] if match else ""
        if re.match(r"#SBATCH\s+--[\w-]+(?:\s+=|=\s+[^\s#])", line):
            yield number, "spaces around `=`: sbatch reads it as the value", "Write --option=value."
        elif match and len(name) == 1:
            option = match[0].split()[-1]
            cure = f"Write {option.replace('=', ' ')}, or --{SLURM_SHORT.get(name, 'NAME')}={option[3:]}."
            yield number, f"{option}: after a single letter the `=` is part of the value", cure
        elif name in SBATCH_OPTIONS:
            problem = f"-{name}: a single dash is for one-letter options, here -{name[0]}"
            yield number, problem, f"Write --{name}=..."


def rule_directive_variable(job: ScriptContext) -> Iterator[Fault]:
    names = {name for option in job.script.options for name in _OF_TEMPLATES.findall(option.value)} - job.names
    for option in job.script.options:
        if len(names) > 3 and _OF_TEMPLATES.search(option.value):
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
    has_gpus = any(kind.gpus for kind in job.site.nodes.types)
    if kind and option and asked and has_gpus and asked > kind.gpus:
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
        asked = f"{cpus} CPUs for each of {ranks} tasks"
        problem = f"{asked}, but {job.site.name} requires {ratio} for each of {gpus} GPUs"
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
    option, kind, cpus = job.option("nodes"), job.node_type, job.cpus()
    last = option.value.rpartition("-")[2] if option else ""
    nodes = int(last) if last.isdecimal() else 0
    whole = nodes * kind.cores * kind.threads_per_core if kind else 0  # a step may split the CPUs of a task
    given = {"nodes": nodes, "CPUs": max(cpus, whole) if cpus else 0}
    for call in job.steps:
        step_cpus = job.cpus(call) if call.of_srun("cpus-per-task") else 0
        asked = {"nodes": job.number("nodes", call=call) or 0, "CPUs": step_cpus}
        too_many = [unit for unit in given if asked[unit] > given[unit] > 0]
        for unit in too_many[:1]:
            problem = f"this step requests {asked[unit]} {unit}, the job {given[unit]}: srun refuses, or waits forever"
            yield call.line, problem, "Request as many in the #SBATCH lines."
