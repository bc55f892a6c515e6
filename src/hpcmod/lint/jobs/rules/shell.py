"""Rules for batch scripts: what bash reads differently from what was meant, and what the wrong shell reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import accumulate

from hpcmod.lint.jobs.reading.context import MODULE_COMMAND, Fault, ScriptContext
from hpcmod.lint.jobs.reading.slurm_names import OF_OTHER_SCHEDULERS, VARIABLES

_USED = re.compile(r"\$(?:\{(\w+)([^}]*)\}|(\w+))")
_DASHES = "".join(chr(code) for code in (*range(0x2010, 0x2015), 0x2212))
_QUOTES = "".join(chr(code) for code in (*range(0x2018, 0x2020), 0xB4, 0xAB, 0xBB))
_DASHED = rf"-?[{_DASHES}][-{_DASHES}]*[A-Za-z]"
_OF_MODULE = ("load", "unload", "avail", "purge", "list", "swap", "use", "restore")
_FOR_PROGRAMS = re.compile(
    r"(?:NCCL|RCCL|FI|MIOPEN|HSA|HIP|ROCR|CUDA|OMP|MPICH|UCX|GLOO|TORCH|PYTORCH|TRITON|SINGULARITYENV|"
    r"APPTAINERENV|SINGULARITY|APPTAINER|TOKENIZERS)_\w+|PYTHONPATH|WANDB_(?:API_KEY|MODE|PROJECT|ENTITY|DIR)|"
    r"HF_(?:HOME|TOKEN|(?:HUB|DATASETS)_\w+)"
)
_OF_SCRIPTS = re.compile(
    r"(?:SINGULARITY|APPTAINER)_(?:IMAGE|FILE|PATH|SIF|CONTAINER|CMD|EXEC|ARGS|OPTS|OPTIONS)\w*|\w+_SIF|NCCL_TESTS?_\w+"
)
_OWN_DIRECTORY = re.compile(
    r"dirname\s+(?:--\s+)?[\"']?\$(?:0\b|\{0\}|\{?BASH_SOURCE)|"
    r"(?:readlink|realpath)\s[^()]*\$\{?(?:0\b|BASH_SOURCE)|\$\{(?:0|BASH_SOURCE(?:\[0\])?)%/"
)


def rule_syntax(job: ScriptContext) -> Iterator[Fault]:
    for number, name in job.placeholders.items():
        yield number, f"bash reads {name} as the name of a file to read", f"Replace {name}."
    line, message = job.script.error or (0, "")
    is_template = re.search(r"%\(\w+\)\d*[sd]", "".join(job.script.lines[line - 1 : line]))
    if line and not {line, line - 1} & job.placeholders.keys() and not is_template:
        yield line, f"bash stops here: {message}", "Fix it: bash runs nothing of what follows."
    for call in () if job.script.error else job.own:
        if re.match(r"(\"\"\"|''')\n", call.words[0].text):
            yield call.line, "bash runs this text as a command, which it does not find", "Begin each line with #."
        elif re.match("![a-z]", call.words[0].text):
            yield call.line, f"{call.words[0].text} is of a notebook: bash finds no such command", "Remove the !."


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
        elif re.fullmatch(r"\$\w+=.*", name):
            yield call.line, f"{name}: a variable is set without `$`", f"Write {name[1:]}"
        elif re.fullmatch(r"[A-Z_]\w*=", name) and re.match(r"[\d/\"'$]", second) and not third:
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
    for name, line in _unset(job):
        tested = rf"\[[^\]]*\b{name}\b|-[nzv] +\"?\$?{name}|#PBS|#BSUB|#\$ |qsub"
        if name in OF_OTHER_SCHEDULERS and not re.search(tested, job.text):
            right = OF_OTHER_SCHEDULERS[name]
            yield line, f"${name} is a variable of another scheduler, so it is empty", f"Write ${right}."
        own = name in VARIABLES or re.match("SLURM_SPANK|.*_HET_|(?!S[LURM]{3,4}_)", name)
        if not own and not job.sources and (near := get_close_matches(name, VARIABLES, 1, 0.8)):
            yield line, f"Slurm does not set ${name}, so it is empty", f"Write ${near[0]}."


def _unset(job: ScriptContext) -> Iterator[tuple[str, int]]:
    """Yield variables that a shell expands but the script does not set: each once, where it is first used."""
    names = set(job.names)
    for call in (call for call in job.calls if "branch" not in call.places):
        for word in call.words:
            text = re.sub(r"'[^']*'", "", word.text) if not call.inner and word.text[:1] != '"' else word.text
            for match in _USED.finditer(text):
                name, default = match[1] or match[3], match[2] or ""
                if name not in names and not default.startswith((":", "-", "+", "?")):
                    names.add(name)
                    yield name, word.line + text.count("\n", 0, match.start())


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
        if not (variable := re.match(r"(\w+)=", word.text)) or re.search(rf"\$\{{?{variable[1]}\b", job.text):
            problem = "Slurm runs a copy of the script: this is its spool directory, not where your script is"
            yield word.line, problem, "Use $SLURM_SUBMIT_DIR, the directory that sbatch was called in."
            return


def rule_conda_activate(job: ScriptContext) -> Iterator[Fault]:
    reads = job.sources or "BASH_ENV" in job.text or re.match(r"#!.*(?:zsh|\s-\w*[li]|--login)", job.text)
    loads = any(re.search(r"conda|mamba|forge|python|restore|^r$|\$", name, re.IGNORECASE) for _, name in job.loads)
    calls = [call for call in job.own if re.match(r"(?:conda|mamba|micromamba) activate\b", call.arguments())]
    for call in calls[:1] if job.script.options and not reads and not loads else ():
        problem = "conda activate is a function of interactive shells, which a batch script does not have"
        yield call.line, problem, 'Write eval "$(conda shell.bash hook)" above it.'


def rule_file_number(job: ScriptContext) -> Iterator[Fault]:
    for call in job.own:
        for name in {"1", "2"} & {*call.outputs}:
            problem = f"this writes to a file that is named {name}: without & it is no stream"
            yield call.line, problem, "Write 2>&1 to send errors to where the output goes."


def rule_lost_status(job: ScriptContext) -> Iterator[Fault]:
    for before, call in zip(job.own, job.own[1:]):
        between = "\n".join(job.script.lines[before.line - 1 : call.line - 1])
        kept = r"(?:local|export|declare|readonly)[ \t]+\w+=\"?(?:\$\((?!\()|`)[^\n]*"  # its own status, always 0
        told = re.fullmatch(rf"[ \t]*(?:echo\b[^;&|\n]*|date|wait|{kept})[ \t]*(?:\n[ \t]*(?:#.*)?)*", between)
        if told and any("$?" in re.sub(r"'[^']*'", "", word.text) for word in call.words):
            problem = f"$? is the status of {before.words[0].plain} here, and not of the program above it"
            yield call.line, problem, "Write status=$? right after the program, and use $status."


def rule_no_terminal(job: ScriptContext) -> Iterator[Fault]:
    for call in job.calls:
        shell = call.container is not None and call.container.verb == "shell"
        reads = call.srun or call.program or call.documents or re.search("[<|]", job.script.lines[call.line - 1])
        interactive = shell or re.fullmatch(r"(?:\S*/)?\w*sh(?: -[il]+)*", call.arguments())
        if (call.of_srun("pty") and interactive) or (shell and job.script.options and not reads):
            yield call.line, "this shell ends at once: a job has no terminal", "Run it in an allocation of salloc."
        elif call.name == "salloc":
            yield call.line, "salloc in a batch script waits for a second allocation", "Remove it: the job has one."


def rule_module_path(job: ScriptContext) -> Iterator[Fault]:
    for call in job.calls:
        verb = next((word.plain for word in call.program[1:] if not word.plain.startswith("-")), "")
        known = call.container or MODULE_COMMAND.match(verb)
        if call.name == "module" and not known and re.match(r"[/~A-Za-z]|\$\{?HOME\b", verb):
            whole = f"load {verb}" if verb[0].isalpha() else f"use {verb}"
            right = next(iter(get_close_matches(verb, _OF_MODULE, 1, 0.7)), whole)
            yield call.line, f"module has no command {verb}", f"Write module {right}."
