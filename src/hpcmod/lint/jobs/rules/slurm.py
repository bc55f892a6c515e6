"""Rules for batch scripts: the resources requested from Slurm, and whether Slurm reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.lint.jobs.reading.calls import Call
from hpcmod.lint.jobs.reading.look import GPU_OPTIONS, TOOLS, Fault, Rule, ScriptContext
from hpcmod.lint.jobs.reading.options import SLURM_SHORT, Option


def _no_shebang(look: ScriptContext) -> Iterator[Fault]:
    if look.script.options and not look.script.lines[0].startswith("#!"):
        yield 1, "the first line does not name a shell: sbatch refuses the script", "Begin with #!/bin/bash."


def _line_end(look: ScriptContext) -> Iterator[Fault]:
    wrong = [number for number, line in enumerate(look.script.lines, 1) if line.endswith("\r")]
    if wrong:
        cure = "Run dos2unix on it."
        yield wrong[0], f"{len(wrong)} lines have Windows line endings: sbatch refuses the script", cure


def _late_directive(look: ScriptContext) -> Iterator[Fault]:
    excerpt = re.search(r"^(?:\.\.\.|@\w+@)$", look.text, re.MULTILINE)  # of a page, or a template
    for number in () if excerpt else look.script.late:
        what = "sbatch stops reading #SBATCH at the first command, so this option does nothing"
        yield number, what, "Move it to the other #SBATCH lines."


def _misspelt_directive(look: ScriptContext) -> Iterator[Fault]:
    for number, line in enumerate(look.script.lines, 1):
        looks_like_one = re.match(r"(?:[ \t]*#[ \t]*S?BATCH|#sbatch)(?:[ \t]*-|[ \t]*$)", line)
        other = re.match(r"#(?:PBS|BSUB|COBALT)\s+-", line)
        if other and number not in look.script.documents:
            yield number, "an option of another scheduler, which sbatch does not read", "Write it as #SBATCH --..."
        right = re.match(
            r"#SBATCH|#[ \t]+SBATCH[ \t]+--(?:exclusive|mem|mail)", line
        )  # or switched off, as these often are
        if looks_like_one and not right and number not in look.script.documents:
            yield number, "for sbatch this is a comment", "Begin the line with #SBATCH; to switch it off, ##SBATCH."


def _misplaced_equals(look: ScriptContext) -> Iterator[Fault]:
    for number, line in enumerate(look.script.lines, 1):
        if re.match(r"#SBATCH\s+--[\w-]+(?:\s+=|=\s+\S)", line):
            yield number, "spaces around `=`: sbatch reads it as the value", "Write --option=value."
        elif found := re.match(r"#SBATCH\s(?:.*\s)?(-[A-Za-z]=\S*)", line):
            yield number, f"{found[1]}: after a single letter the `=` is part of the value", "Write -N 4 or --nodes=4."
        elif (found := re.match(r"#SBATCH\s(?:.*\s)?-([a-z][a-z-]+)=", line)) and found[1] in SLURM_SHORT.values():
            cure = f"Write --{found[1]}=..."
            yield number, f"-{found[1]}: a single dash is for one-letter options, here -{found[1][0]}", cure


def _directive_variable(look: ScriptContext) -> Iterator[Fault]:
    for option in look.script.options:
        if option.value.startswith("~/"):
            what = f"--{option.name}={option.value}: no shell reads #SBATCH lines, so ~ stays as it is"
            yield option.line, what, "Write the full path."
        if re.search(r"\$\w|\$\{|\$\(|`", option.value):
            what = f"--{option.name}={option.value}: no shell reads #SBATCH lines, so the variable is not expanded"
            yield option.line, what, "Write the value itself; in file names %j is the job, %x its name, %u the user."


def _missing_option(look: ScriptContext) -> Iterator[Fault]:
    for name in look.site.job.required if look.script.options else ():
        if look.option(name) is None:
            what = f"--{name} is missing, which {look.site.name} requires for every job"
            yield 1, what, f"Add #SBATCH --{name}=..., or export SBATCH_{_VARIABLES.get(name, name.upper())}."


_VARIABLES = {"time": "TIMELIMIT"}


def _no_gpus(look: ScriptContext) -> Iterator[Fault]:
    kind = look.node_type()
    if not kind or not kind.gpus or not look.site.job.gpus or not look.distributed:
        return
    whole = "--exclusive" in look.site.job.lines and look.option("exclusive")  # sbatch(1): with all GPUs of its nodes
    if not whole and not any(look.option(*GPU_OPTIONS, call=call) for call in look.distributed):
        yield look.distributed[0].line, "no GPUs are requested", f"Add #SBATCH --gpus-per-node={kind.gpus}."


def _too_many_gpus(look: ScriptContext) -> Iterator[Fault]:
    kind, asked = look.node_type(), look.gpus_per_node()
    option = look.option(*GPU_OPTIONS)
    if kind and not kind.gpus and asked and option and any(other.gpus for other in look.site.nodes.types):
        what = f"{asked} GPUs per node, but a node of type {kind.name} has none"
        yield option.line, what, "Choose a partition that has GPUs: Slurm never starts this job."
    if kind and kind.gpus and asked and option and asked > kind.gpus:
        what = f"{asked} GPUs per node, but a node of type {kind.name} has {kind.gpus}"
        yield option.line, what, "Request more nodes instead: Slurm never starts this job."


def _cpus_per_gpu(look: ScriptContext) -> Iterator[Fault]:
    ratio, gpus = look.site.launcher.cpus_per_gpu, look.gpus_per_node()
    option, cpus = look.option("cpus-per-task"), look.number("cpus-per-task")
    ranks = look.ranks_per_node() or 1
    if not ratio or not gpus or (cpus or 1) >= ratio * gpus // ranks:
        return
    dealt = look.option("ntasks") and not look.option("ntasks-per-node", "tasks-per-node")
    if dealt and (cpus == ratio or look.ranks_per_node() is None):  # each has its GPU, or the shares are unknown
        return
    line = option.line if option else 1
    what = f"{cpus or 1} CPUs for each of {ranks} tasks, but {look.site.name} requires {ratio} for each of {gpus} GPUs"
    yield line, what, f"#SBATCH --cpus-per-task={ratio * gpus // ranks}"


def _srun_cpus(look: ScriptContext) -> Iterator[Fault]:
    asked = look.option("cpus-per-task")
    if not asked or "SRUN_CPUS_PER_TASK" in look.names or not "22.05" <= look.site.job.slurm <= "23.02":
        return
    for call in look.steps:
        named = {option.name for option in call.srun or ()}
        if call.name not in TOOLS and not named & {"cpus-per-task", "cpu-bind", "cpu_bind", "exact", "overlap"}:
            what = (
                f"srun of Slurm {look.site.job.slurm} does not inherit --cpus-per-task={asked.value}: tasks get 1 CPU"
            )
            yield call.line, what, "srun --cpus-per-task=$SLURM_CPUS_PER_TASK ..."


def _export_none(look: ScriptContext) -> Iterator[Fault]:
    asked = look.option("export")
    unset = any(call.name == "unset" and "SLURM_EXPORT_ENV" in call.arguments() for call in look.calls)
    told = unset or all(_exports_all(call.srun) for call in look.steps)
    if asked and asked.value and asked.value.split(",")[0].upper() != "ALL" and not told:
        what = f"--export={asked.value} applies to every srun too: modules loaded here do not reach the ranks"
        yield asked.line, what, "Add `unset SLURM_EXPORT_ENV` before the first srun, or srun --export=ALL."
    for call in look.steps:
        given = [option for option in call.srun or () if option.name == "export"]
        if given and not _exports_all(call.srun) and not look.option("container-image", call=call):
            what = f"srun --export={given[-1].value} hides all other variables, including the module's, from the ranks"
            yield given[-1].line, what, "Write --export=ALL,NAME=value, or export the variable before."


def _exports_all(srun: tuple[Option, ...] | None) -> bool:
    given = [option.value for option in srun or () if option.name == "export"]
    return bool(given) and (given[-1].split(",")[0].upper() == "ALL" or given[-1].startswith("$"))


def _step_too_big(look: ScriptContext) -> Iterator[Fault]:
    for call in look.steps:
        pairs = (("nodes", look.nodes(call), _most_nodes(look)), ("CPUs", _cpus(look, call), _job_cpus(look)))
        too_many = [(what, asked, given) for what, asked, given in pairs if asked and given and asked > given]
        for what, asked, given in too_many[:1]:
            found = f"this step requests {asked} {what}, the job {given}: srun refuses, or waits forever"
            yield call.line, found, "Request as many in the #SBATCH lines."


def _most_nodes(look: ScriptContext) -> int | None:
    """Return the maximum number of nodes of the job: the last one of a range; None if unknown."""
    option = look.option("nodes")
    last = option.value.rpartition("-")[2] if option else ""
    return int(last) if last.isdecimal() else None


def _cpus(look: ScriptContext, call: Call) -> int | None:
    """Return the CPUs of a step that specifies the CPUs per task; None if unknown."""
    said = any(option.name == "cpus-per-task" for option in call.srun or ())
    ranks, each = look.ranks(call), look.number("cpus-per-task", call=call)
    return ranks * each if said and ranks and each else None


def _job_cpus(look: ScriptContext) -> int | None:
    """Return the CPUs of the job, up to all of its nodes: tasks alone are no limit: a step may split them further."""
    ranks, each, kind, nodes = look.ranks(), look.number("cpus-per-task"), look.node_type(), _most_nodes(look)
    whole = nodes * kind.cores * kind.threads_per_core if nodes and kind else 0
    return max(ranks * each, whole) if ranks and each else None


def _broken_continuation(look: ScriptContext) -> Iterator[Fault]:
    for number, line in enumerate(look.script.lines, 1):
        if re.search(r"(?<!\\)\\[ \t]+$", line) and not line.lstrip().startswith("#"):
            yield number, "a space after the last backslash: the command ends on this line", "Remove the space."
        elif _hides_continuation(look.script.lines[number - 2] if number > 1 else "", line):
            cure = "Put the comment above the command."
            yield number, "a comment within a command of several lines ends it here", cure


def _hides_continuation(before: str, line: str) -> bool:
    """Return whether a comment is where a command continues: the backslash at its end is part of it."""
    goes_on = before.endswith("\\") and not re.search(r"(?:^|\s)#", before)
    ends = re.search(r"\s#[^'\"]*\\$", line) and not re.search(r"['\"]|^\s*#", line)
    return bool(ends) or (goes_on and line.lstrip().startswith("#"))


RULES: dict[str, Rule] = {
    "no-shebang": _no_shebang,
    "line-end": _line_end,
    "late-directive": _late_directive,
    "misspelt-directive": _misspelt_directive,
    "misplaced-equals": _misplaced_equals,
    "directive-variable": _directive_variable,
    "missing-option": _missing_option,
    "no-gpus": _no_gpus,
    "too-many-gpus": _too_many_gpus,
    "cpus-per-gpu": _cpus_per_gpu,
    "srun-cpus": _srun_cpus,
    "export-none": _export_none,
    "step-too-big": _step_too_big,
    "broken-continuation": _broken_continuation,
}
