"""Rules for batch scripts: what bash and programs read differently from what was meant, and signals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import accumulate
from posixpath import commonprefix

from hpcmod.lint.jobs.reading.context import MODULE_COMMAND, Fault, ScriptContext
from hpcmod.lint.jobs.reading.names import OF_OTHER_SCHEDULERS, TOOLS, VARIABLES
from hpcmod.lint.jobs.rules.ranks import MPIRUN

_DASHES = "".join(chr(code) for code in (*range(0x2010, 0x2015), 0x2212))
_QUOTES = "".join(chr(code) for code in (*range(0x2018, 0x2020), 0xB4, 0xAB, 0xBB))
_DASHED = rf"-?[{_DASHES}][-{_DASHES}]*[A-Za-z]"
_FOR_PROGRAMS = re.compile(
    r"(?:NCCL|RCCL|FI|MIOPEN|HSA|HIP|ROCR|CUDA|OMP|MPICH|UCX|GLOO|TORCH|PYTORCH|TRITON|SINGULARITYENV|"
    r"APPTAINERENV|SINGULARITY|APPTAINER|TOKENIZERS)_\w+|PYTHONPATH|WANDB_(?:API_KEY|MODE|PROJECT|ENTITY|DIR)|"
    r"HF_(?:HOME|TOKEN|(?:HUB|DATASETS)_\w+)|PYTHON[A-Z]+|PERL5LIB|XLA_FLAGS|(?:MKL|OPENBLAS|NUMEXPR)_NUM_THREADS|"
    r"(?:SCOREP|KMP|I_MPI|OMPI_MCA|TF|JAX|JULIA|CUBLAS)_\w+"
)
_PATH_LEFT = re.compile(
    r"(?i)(?<![\w.}/$-])/?(?:full/|absolute/)?path/to(?:/[^\s\"':]*|$)|(?<![\w.}/-])/path/[^\s\"':]+|"
    r"/your[_-]?\w*\b[^\s\"':]*|(?<![\w.{$-])your_(?!own)\w+(?!\w*[=}])|(?-i:(?<![\w.{$-])YOUR[_-]?[A-Z]\w+(?!\w*[=}])|"
    r"(?<=/)(?:NETID|USERNAME|PROJECT_?(?:ID|NAME))(?=/|$)|CHANGE_?ME|REPLACE[_-](?:ME|PWD)|\bPLACEHOLDER\b|\bFIXME\b|"
    r"INSERT_[A-Z_]+)|[_-]go(?:es)?[_-]here\b|(?<=/)x{3,}(?=/|$)|(?<=[/='\"])<[a-z][\w .-]*>(?=/)|/<[a-z][\w .-]*>|"
    r"^\w+=[\"'](?:<[a-z][\w ./-]*>|(?-i:path to [a-z ]+))[\"']$|\[(?:your|path|insert|user|project|name)[\w .-]*\]|"
    r"(?-i:(?<![\w.}\]])\[[a-z]+(?:[-_ ][a-z]+)*[-_ ](?:dir(?:ectory)?|path|file|name|account)\])"
)
_OF_OPTIONS = {"SLURM_CPUS_PER_TASK", "SLURM_GPUS_PER_TASK", "SLURM_NTASKS_PER_NODE", "SLURM_GPUS_PER_NODE"}
_OF_SCRIPTS = re.compile(
    r"(?:SINGULARITY|APPTAINER)_(?:IMAGE|FILE|PATH|SIF|CONTAINER|CMD|EXEC|ARGS|OPTS|OPTIONS)\w*|\w+_SIF|NCCL_TESTS?_\w+"
)
_SHOWS = {"echo", "printf", "sed", "grep", "awk", "perl", "mktemp", "read", "cat"}
_OWN_DIRECTORY = re.compile(
    r"dirname\s+(?:--\s+)?[\"']?\$(?:0\b|\{0\}|\{?BASH_SOURCE)|"
    r"(?:readlink|realpath)\s[^()]*\$\{?(?:0\b|BASH_SOURCE)|\$\{(?:0|BASH_SOURCE(?:\[0\])?)%/"
)
_THREADS = re.compile(
    r" (?:--?(?:\w+[-_])*n?threads?(?:[-_]num)?|--thread-num|--cpus?|--nproc|--n?cores|--runThreadN|--CPU)[ =](\d+) |"
    r"^(?:bwa|bwa-mem2|minimap2|spades\.py|fastqc|megahit|kraken2|flye|prokka) .*?-t (\d+) |"
    r"^(?:hisat2|bowtie2?|salmon|tophat2?|fasterq-dump|julia) .*?-p (\d+) |^samtools .*?-@ ?(\d+) "
)
_BRINGS_CONDA = re.compile(r"(?i)conda|mamba|forge|python|torch|tensor|opence|restore|^r$|\$")  # modules
_SETS_NOTHING = re.compile(r"activate|conda\.sh|/init/|modules\.sh|setvars")
_ALONE = re.compile(r"snakemake (?!.*(?:--cluster|--profile|--slurm|--exec|--drmaa|-e |-j|--jobs))")  # on its own CPUs
_STARTS_JOBS = {"nextflow", "snakemake", "cromwell"}
_SIGNALS = {"10": "USR1", "12": "USR2", "15": "TERM", "2": "INT", "1": "HUP", "18": "CONT"}
_MAY_START_STEPS = re.compile(r"srun|mpi(?:run|exec)|submitit|\bray\b|dask|parallel", re.IGNORECASE)
_STARTS_NONE = re.compile(r"python[\d.]*|torchrun|Rscript|matlab|conda|deactivate|nvcc|wandb")


def rule_syntax(job: ScriptContext) -> Iterator[Fault]:
    line, message = job.script.error or (0, "")
    stops = line and not {line, line - 1} & job.placeholders.keys()
    for number, name in job.placeholders.items():
        if not stops or number < line:
            yield number, f"bash reads {name} as the name of a file to read", f"Replace {name}."
    is_template = re.search(r"%\(\w+\)\d*[sd]", "".join(job.script.lines[line - 1 : line]))
    if stops and not is_template:
        yield line, f"bash stops here: {message}", "Fix it: bash runs nothing of what follows."
    for call in () if job.script.error else job.own:
        if re.match(r"(\"\"\"|''')\n", call.words[0].text):
            yield call.line, "bash runs this text as a command, which it does not find", "Begin each line with #."
        elif re.match("![a-z]", call.words[0].text):
            yield call.line, f"{call.words[0].text} is of a notebook: bash finds no such command", "Remove the !."
        elif any(re.search(r"\$\{\$[A-Za-z]|\$\$[A-Z]{3}", re.sub(r"'[^']*'", "", word.text)) for word in call.words):
            yield call.line, "bash reads two $ as its own number, or refuses them", "Remove the second $."
        elif re.fullmatch(r"\[\[? [^\s=!<>]+==?[^\s=~]+ \]\]?", " ".join(word.plain for word in call.words)):
            yield call.line, "a test of one word is always true", "Write blanks around the `=`."


def rule_placeholder(job: ScriptContext) -> Iterator[Fault]:
    calls = (call for call in job.own if call.name not in _SHOWS and call.line not in job.placeholders)
    words = [word for call in calls for word in call.words if not re.search(r"\$\(|`", word.text)]
    for word, left in [(word, match) for word in words if (match := _PATH_LEFT.search(word.text))][:1]:
        shown, line = left[0] if len(word.text) > 60 else word.text, word.line + word.text[: left.start()].count("\n")
        yield line, f"{shown} is still to be replaced", "Write the value itself, here and below."


def rule_lost_continuation(job: ScriptContext) -> Iterator[Fault]:
    for call in () if job.script.error else job.own:
        first = call.words[0].text
        before = job.script.lines[call.line - 2] if call.line > 1 else ""
        if re.match(r"--?[A-Za-z][\w-]*", first) and not re.search(r"^\s*#|\\[ \t]+$", before):
            problem = f"this line begins with {first.partition('=')[0]}: the line before it ends without a backslash"
            yield call.line, problem, "End the previous line with a backslash, and nothing after it."


def rule_broken_continuation(job: ScriptContext) -> Iterator[Fault]:
    lines = job.script.lines
    rests = [*accumulate(reversed(lines), lambda rest, line: rest if line.lstrip()[:1] == "#" else line, initial="")]
    for number, (before, line, rest) in enumerate(zip(("", *lines), lines, rests[-2::-1]), 1):
        is_comment = line.lstrip().startswith("#")
        goes_on = before.endswith("\\") and not re.search(r"(?:^|\s)#", before)
        hides_backslash = line.endswith("\\") and re.search(r"\s#", line) and not re.search(r"['\"]", line)
        if re.search(r"(?<!\\)\\[ \t]+$", line) and not is_comment:
            yield number, "a space after the last backslash: the command ends on this line", "Remove the space."
        elif (goes_on if is_comment else hides_backslash) and re.match(r"\s*(?:--?[A-Za-z]|[|>]|&&)", rest):
            problem = "a comment within a command of several lines ends it here"
            yield number, problem, "Put the comment above the command."


def rule_blank_in_assignment(job: ScriptContext) -> Iterator[Fault]:
    for call in () if job.script.error else job.own:
        name, second, third, *_ = (*(word.text for word in call.words if word.text != "export"), "", "", "")
        if re.fullmatch(r"[A-Za-z_]\w*", name) and re.match(r"=(?!=)", second):
            yield call.line, f"spaces around `=`: bash runs {name} as a program", f"Write {name}={second[1:] or third}"
        elif match := re.fullmatch(r"\$(?:(\w+)|\{(\w+)\})(=.*)", name):
            yield call.line, f"{name}: a variable is set without `$`", f"Write {match[1] or match[2]}{match[3]}"
        elif re.fullmatch(r"[A-Z_]\w*=[\w.,]+,", name) and re.fullmatch(r"[\w.]+", second):
            yield call.line, f"the blank after {name} ends the value", f"Write {name}{second}"
        elif re.fullmatch(r"[A-Z_]\w*=", name) and re.match(r"[\d/\"'$]|\w+/", second) and not third:
            problem = f"a space after `=`: {name[:-1]} is empty, and {second} is run as a program"
            yield call.line, problem, f"Write {name}{second}"


def rule_typeset_characters(job: ScriptContext) -> Iterator[Fault]:
    for number, line in job.script.code:
        code = re.sub(r"(?:^|\s)#.*", "", line)
        typeset = re.search(rf"[{_QUOTES}]|(?<!\S){_DASHED}", code)
        if typeset and not re.search(r"\"[^\"]*$|'[^']*$|^\s*echo\s", code[: typeset.start()]):
            kind = "quote" if typeset[0] in _QUOTES else "dash"
            problem = f"{typeset[0][0]} is a typographic {kind}, which bash reads as a letter"
            yield number, problem, "Retype it: copied text often contains such characters."
    for number, line in enumerate(job.script.lines, 1):
        if line.startswith(("#SBATCH", "#!")) and re.search(rf"\s{_DASHED}", line.partition(" #")[0]):
            yield number, "a typographic dash: no option is found here", "Retype the dashes."


def rule_slurm_variable(job: ScriptContext) -> Iterator[Fault]:
    complete = job.option("nodes", "ntasks", "ntasks-per-node", "gpus", "gres", "mem", "time")  # not by the submitter
    for name, line in job.unset:
        tested = rf"\[[^\]]*\b{name}\b|-[nzv] +\"?\$?{name}|#PBS|#BSUB|#\$ |qsub"
        if name in OF_OTHER_SCHEDULERS and not re.search(tested, job.text):
            right = OF_OTHER_SCHEDULERS[name]
            yield line, f"${name} is a variable of another scheduler, so it is empty", f"Write ${right}."
        option = name.removeprefix("SLURM_").lower().replace("_", "-")
        used = re.search(rf"^(?!\s*(?:echo|printf)\b).*\$\{{?{name}\b", job.body, re.MULTILINE)
        if name in _OF_OPTIONS and used and complete and not job.option(option) and not re.search(tested, job.text):
            yield line, f"Slurm sets ${name} only with --{option}: it is empty", f"Add #SBATCH --{option}=NUMBER."
        own = name in VARIABLES or re.match("SLURM_SPANK|.*_HET_|(?![A-Z]?S[LURM]{3,4}_)", name)
        if not own and not job.sources and (near := get_close_matches(name, VARIABLES, 1, 0.8)):
            right = f"${{{near[0]}}}{name[len(near[0]) :]}" if name.startswith(f"{near[0]}_") else f"${near[0]}"
            yield line, f"Slurm does not set ${name}, so it is empty", f"Write {right}."


def rule_not_exported(job: ScriptContext) -> Iterator[Fault]:
    if re.search(r"^\s*set\s+(?:-\w*a|-o\s+allexport)", job.text, re.MULTILINE):
        return
    exported = {variable.name for variable, _ in job.settings if variable.exported}
    exported |= {name for call in job.calls for name in call.exports}
    for variable in (variable for call in job.own if not call.program for variable in call.variables):
        name = variable.name
        meant = _FOR_PROGRAMS.fullmatch(name) and not _OF_SCRIPTS.fullmatch(name)
        meant = meant and not (name.endswith("_VISIBLE_DEVICES") and job.asks_for_gpus())  # Slurm exports it
        if meant and name not in exported and not re.search(rf"\$\{{?{name}\b", job.text):
            value = variable.value if len(variable.value) < 40 else "..."
            problem = f"{name} is not exported, so programs and steps do not see it"
            yield variable.line, problem, f"Write export {name}={value}"


def rule_script_directory(job: ScriptContext) -> Iterator[Fault]:
    knows = re.search(r"slurmd|spool|scontrol show job|SLURM_SUBMIT_DIR|\n\s*sbatch\n|\bsbatch +\S*\$", job.text)
    once = [call for call in job.own if not call.places] if job.script.options and not knows else []
    for word in (word for call in once for word in call.words if _OWN_DIRECTORY.search(word.text)):
        if not (variable := re.match(r"(\w+)=", word.text)) or re.search(rf"(?<!:-)\$\{{?{variable[1]}\b", job.text):
            problem = "Slurm runs a copy of the script: this is its spool directory, not where your script is"
            yield word.line, problem, "Use $SLURM_SUBMIT_DIR, the directory that sbatch was called in."
            return


def rule_conda_activate(job: ScriptContext) -> Iterator[Fault]:
    reads = job.sources or re.search(r"BASH_ENV|\A#!.*(?:zsh|\s-\w*[li]|--login)|^\s*uenv\b", job.text, re.MULTILINE)
    loads = [name for _, name in job.loads if _BRINGS_CONDA.search(name)]
    calls = [call for call in job.own if re.match(r"(?:conda|mamba|micromamba) activate\b", call.arguments())]
    for call in calls[:1] if job.script.options and not reads and not loads else ():
        problem = f"{call.name} activate is a function of interactive shells, which a batch script does not have"
        hook = "micromamba shell hook --shell bash" if call.name == "micromamba" else "conda shell.bash hook"
        yield call.line, problem, f'Write eval "$({hook})" above it{", and conda activate" * (call.name == "mamba")}.'


def rule_lost_status(job: ScriptContext) -> Iterator[Fault]:
    for before, call in zip(job.own, job.own[1:]):
        between = "\n".join(job.script.lines[before.line - 1 : call.line - 1])
        kept = r"(?:local|export|declare|readonly)[ \t]+\w+=\"?(?:\$\((?!\()|`)[^\n]*"  # its own status, always 0
        told = re.fullmatch(rf"[ \t]*(?:echo\b(?:[^;&|>\n]|>>)*|date|wait|{kept})[ \t]*(?:\n[ \t]*(?:#.*)?)*", between)
        if told and any("$?" in re.sub(r"'[^']*'|\\.", "", word.text) for word in call.words):
            problem = f"$? is the status of {before.words[0].plain} here, and not of the program above it"
            yield call.line, problem, "Write status=$? right after the program, and use $status."


def rule_no_terminal(job: ScriptContext) -> Iterator[Fault]:
    for call in job.calls:
        shell = call.container is not None and call.container.verb == "shell"
        reads = call.srun or call.program or call.documents or re.search("[<|]", job.script.lines[call.line - 1])
        interactive = shell or re.fullmatch(r"(?:\S*/)?\w*sh(?: -[il]+)*", call.arguments())
        if job.script.options and ((call.of_srun("pty") and interactive) or (shell and not reads)):
            yield call.line, "this shell ends at once: a job has no terminal", "Run it in an allocation of salloc."
        elif call.name == "salloc" and job.script.options:
            yield call.line, "salloc in a batch script waits for a second allocation", "Remove it: the job has one."


def rule_module_path(job: ScriptContext) -> Iterator[Fault]:
    for call in job.calls:
        verb = next((word.plain for word in call.program[1:] if not word.plain.startswith("-")), "")
        known = call.container or MODULE_COMMAND.match(verb)
        if call.name == "module" and not known and re.match(r"[/~A-Za-z]|\$\{?HOME\b", verb):
            cure = f"Write module {'load' if verb[0].isalpha() else 'use'} {verb}, or correct the command."
            yield call.line, f"module has no command {verb}", cure


def rule_too_many_threads(job: ScriptContext) -> Iterator[Fault]:
    memory = job.option("mem", "mem-per-cpu")  # without it, nodes may be whole
    each = job.number("cpus-per-task") or (1 if job.option("ntasks") and memory and memory.value != "0" else 0)
    cpus = each * (job.ranks_per_node() or job.ranks() or 1)
    if job.whole_nodes or job.option("mincpus", "cpus-per-gpu", "hint", "threads-per-core"):
        return
    cases = {variable.name for variable, call in job.settings if "branch" in call.places}
    given = [each for each, _ in job.settings if not cases & {each.name, *re.findall(r"\w+", each.value)}]
    threads = (variable for variable in given if variable.name == "OMP_NUM_THREADS")
    asked = [(variable.line, f"OMP_NUM_THREADS={job.expand(variable.value)} ") for variable in threads]
    for call in (call for call in job.calls if call.name not in TOOLS and not call.of_srun("cpus-per-task")):
        match = _THREADS.search(f"{job.expand(call.arguments())} ")
        starts = {word.name for word in call.program} & _STARTS_JOBS and not _ALONE.match(call.arguments())
        asked += [(call.line, match[0])] if match and not starts else []
    for line, option in asked:
        number = re.search(r"[ =](\d+) $", option)
        if number and int(number[1]) > cpus > 0:
            problem = f"{' '.join(option.split()[-2:])}, but the job has {cpus} CPU{'s' * (cpus > 1)} on a node"
            yield line, problem, "Request as many by --cpus-per-task."


def rule_missing_device(job: ScriptContext) -> Iterator[Fault]:
    given = job.gpus_per_node() or 0
    for variable in [each for each, _ in job.settings if each.name == "CUDA_VISIBLE_DEVICES" and not job.whole_nodes]:
        if re.fullmatch(r"\d(?:,\d)*", variable.value) and int(max(variable.value.split(","))) >= given > 0:
            problem = f"{variable.name}={variable.value}, but the job has {given} GPU{'s' * (given > 1)}, from 0 on"
            yield variable.line, problem, "Remove it: Slurm sets it."


def rule_misspelt_variable(job: ScriptContext) -> Iterator[Fault]:
    given = {variable.name for variable, _ in job.settings} | set(re.findall(r"\b(\w+)\+?=", job.text)) | VARIABLES
    exports = ((name, call.line) for call in job.own for name in call.exports)
    reads = (call for call in job.own if call.name in ("source", ".", "eval"))
    until = min((call.line for call in reads if not _SETS_NOTHING.search(call.arguments())), default=len(job.text))
    said: set[int] = set()
    for name, line in (*job.unset, *exports):
        copies = {variable.name for variable, _ in job.settings if re.search(rf"\$\{{?{name}\b", variable.value)}
        copies |= {*re.findall(r"\$\{?(\w+)", job.script.lines[line - 1])} - {name}  # not meant: on the same line
        near = [other for other in job.names - copies if _is_near(name, other)]
        if name.islower() and len(name) > 3 and (name, line) in job.unset:  # a variable that was renamed
            near = near or get_close_matches(name, [other for other in job.names - copies if other.islower()], 1, 0.75)
        if near and line < until and not {name, line} & {*given, *said} and not re.search(rf"#.*\b{name}\b", job.text):
            said.add(line)
            yield line, f"${name} is not set, but {near[0]} is", f"Write {near[0]}, if you mean that."


def _is_near(name: str, other: str) -> bool:
    """Return whether a name differs from another one in its case, or in a letter: wrong, missing, added or swapped."""
    start = len(commonprefix((name, other)))
    end = len(commonprefix((name[start:][::-1], other[start:][::-1])))
    a, b = name[start : len(name) - end], other[start : len(other) - end]
    one = len(a) + len(b) == 1 or (len(a) == len(b) == 1 and start and end) or (len(a) == 2 and a == b[::-1])
    if name.islower() and name.upper() == other:
        return True
    return bool(one) and min(len(name), len(other)) > 4 and not re.search(r"\d|[sS]$", a + b)


def _signal_name(text: str) -> str:
    name = text.upper().removeprefix("SIG")
    return _SIGNALS.get(name, name)


def rule_signal(job: ScriptContext) -> Iterator[Fault]:
    option = job.option("signal")
    if not option or not job.calls:
        return
    calls = [call for call in job.own if call.name == "trap" and call.program[1:2] and call.program[1].plain not in "-"]
    traps = [(call, {_signal_name(word.plain) for word in call.program[2:]}) for call in calls]
    target, _, before = option.value.partition("@")
    if before and not before.isdecimal():
        yield option.line, f"--signal={option.value}: the time before the end is in seconds", f"Write {target}@300."
    to_shell = re.match(r"[RB]*B[RB]*:", target) is not None
    signal = _signal_name(target.rpartition(":")[2])
    caught = [call for call, signals in traps if signal in signals]
    others = [call for call, signals in traps if signals - {"EXIT", "ERR", "DEBUG", "0"} and signal not in signals]
    replaced = any(call.words[0].plain == "exec" for call in job.calls)  # by a program, which gets the signal
    programs = [call for call in job.calls if call.name not in TOOLS | {""} and call.words[0].text != "export"]
    no_step = all(_STARTS_NONE.fullmatch(call.name) for call in programs) and not _MAY_START_STEPS.search(job.body)
    if to_shell and others and not caught:
        problem = f"Slurm sends {signal} (line {option.line}), at which bash ends: this trap is for another signal"
        yield others[0].line, problem, f"Use {signal} in the trap."
    elif to_shell and not caught and not replaced and not job.sources:
        problem = f"{signal} is sent only to the batch shell, which has no trap for it, so the job ends at once"
        cure = f"Add trap '...' {signal}, and run srun ... & and wait; or remove B: so that the program gets it."
        yield option.line, problem, cure
    elif to_shell and caught and programs and not (replaced or any(call.background for call in job.calls)):
        problem = f"bash runs a trap only after the program in the foreground, which does not get {signal}"
        yield caught[0].line, problem, "Write `program & wait`, so that bash waits for the signal as well."
    elif not to_shell and not caught and programs and no_step and not job.steps:
        problem = f"without B: {signal} is sent only to steps, and nothing here is started by srun"
        yield option.line, problem, f"Write srun before the program, or --signal=B:{option.value} and a trap."
    elif not to_shell and caught:
        problem = f"without B: {signal} is sent only to the steps, and the trap on line {caught[0].line} never runs"
        yield option.line, problem, f"Write --signal=B:{option.value}."


def rule_no_wait(job: ScriptContext) -> Iterator[Fault]:
    starts = [call for call in job.calls if call.srun is not None or call.container or call.name in MPIRUN]
    own = (call for call in job.own if job.script.options and not call.places & {"branch", "function"})
    behind = [call for call in (*starts, *own) if call.background and (call in starts or call.name not in TOOLS | {""})]
    if not behind or any(call.name in ("wait", "sleep", "tail") for call in job.calls):
        return
    after = [call for call in job.calls[job.calls.index(behind[-1]) :] if not call.background]
    alike = [call.name for call in after if call.name not in TOOLS] == [behind[-1].name]
    if alike or all(call.name in TOOLS | {""} and "loop" not in call.places and call.srun is None for call in after):
        problem = "nothing waits for this background command, which ends with the script"
        yield behind[-1].line, problem, "End the script with wait."
