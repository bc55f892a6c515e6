"""Rules for batch scripts: what bash reads differently from what was meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from hpcmod.lint.jobs.reading.look import Fault, Rule, ScriptContext
from hpcmod.lint.jobs.reading.slurm_names import VARIABLES

_USED = re.compile(r"\$(?:\{(\w+)([^}]*)\}|(\w+))")
_DASHES = "".join(chr(code) for code in (*range(0x2010, 0x2015), 0x2212))
_QUOTES = "".join(chr(code) for code in (*range(0x2018, 0x2020), 0xB4, 0xAB, 0xBB))


def _lost_continuation(look: ScriptContext) -> Iterator[Fault]:
    for call in () if look.script.error else look.calls:
        first = call.words[0].text if call.words else ""
        before = look.script.lines[call.line - 2] if call.line > 1 else ""
        broken = before.lstrip().startswith("#") or re.search(r"\\[ \t]+$", before)
        if re.match(r"--?[A-Za-z][\w-]*", first) and not call.inner and not broken:
            what = f"this line begins with {first.partition('=')[0]}: the line before it ends without a backslash"
            yield call.line, what, "End the previous line with a backslash, and nothing after it."


def _blank_in_assignment(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        texts = [word.text for word in call.words]
        if texts[:1] == ["export"]:
            texts = texts[1:]
        if len(texts) < 2 or call.inner:
            continue
        if re.fullmatch(r"[A-Za-z_]\w*", texts[0]) and re.match(r"=(?!=)", texts[1]):
            value = texts[1][1:] or (texts[2] if len(texts) > 2 else "")
            yield call.line, f"spaces around `=`: bash runs {texts[0]} as a program", f"Write {texts[0]}={value}"
        elif re.fullmatch(r"\$\w+=.*", texts[0]):
            yield call.line, f"{texts[0]}: a variable is set without `$`", f"Write {texts[0][1:]}"
        elif re.fullmatch(r"[A-Z_]\w*=", texts[0]) and len(texts) == 2 and re.match(r"[\d/\"'$]", texts[1]):
            cure = f"Write {texts[0]}{texts[1]}"
            yield call.line, f"a space after `=`: {texts[0][:-1]} is empty, and {texts[1]} is run as a program", cure


def _typeset_characters(look: ScriptContext) -> Iterator[Fault]:
    for number, line in look.script.code:
        code = re.sub(r"(?:^|\s)#.*", "", line)
        found = re.search(rf"[{_QUOTES}]|(?<!\S)-?[{_DASHES}][-{_DASHES}]*[A-Za-z]", code)
        inside = found and re.search(r"\"[^\"]*$|'[^']*$", code[: found.start()])
        if found and not inside:
            kind = "quote" if found[0] in _QUOTES else "dash"
            cure = "Retype it: copied text often contains such characters."
            yield number, f"{found[0][0]} is a typographic {kind}, which bash reads as a letter", cure
    for number, line in enumerate(look.script.lines, 1):
        if line.startswith(("#SBATCH", "#!")) and re.search(
            rf"\s-?[{_DASHES}][-{_DASHES}]*[A-Za-z]", line.partition(" #")[0]
        ):
            yield number, "a typographic dash: no option is found here", "Retype the dashes."


def _syntax(look: ScriptContext) -> Iterator[Fault]:
    for number, name in look.placeholders.items():
        yield number, f"bash reads {name} as the name of a file to read", f"Replace {name}."
    if look.script.error and look.script.error[0] not in look.placeholders:
        line, message = look.script.error
        yield line, f"bash stops here: {message}", "Fix it: bash runs nothing of what follows."


def _uses(look: ScriptContext) -> Iterator[tuple[str, int, str]]:
    """Yield the variables that the batch shell or a shell in a step expands: name, line, what follows in braces."""
    for call in look.calls:
        for word in call.words:
            text = re.sub(r"'[^']*'", "", word.text) if not call.inner and word.text[:1] != '"' else word.text
            for found in _USED.finditer(text):
                line = word.line + text.count("\n", 0, found.start())
                yield found[1] or found[3], line, found[2] or ""


_OF_OTHERS = {
    "PBS_JOBID": "SLURM_JOB_ID", "PBS_O_WORKDIR": "SLURM_SUBMIT_DIR", "PBS_ARRAYID": "SLURM_ARRAY_TASK_ID",
    "JOB_ID": "SLURM_JOB_ID", "SGE_TASK_ID": "SLURM_ARRAY_TASK_ID", "NSLOTS": "SLURM_NTASKS",
}  # fmt: skip


def _slurm_variable(look: ScriptContext) -> Iterator[Fault]:
    if look.sources:
        return
    seen: set[str] = set()
    for name, line, more in _uses(look):
        if name in seen or name in look.names or more.startswith((":", "-", "+", "?")):
            continue
        if name in _OF_OTHERS and not re.search(rf"-[nzv] +\"?(?:\$\{{?)?{name}|#PBS|#\$ |qsub", look.text):
            seen.add(name)
            yield line, f"${name} is a variable of another scheduler, so it is empty", f"Write ${_OF_OTHERS[name]}."
        if not name.startswith("SLURM"):
            continue
        unknown = name not in VARIABLES and not name.startswith("SLURM_SPANK") and "_HET_" not in name
        if unknown and (near := get_close_matches(name, VARIABLES, 1, 0.8)):
            seen.add(name)
            yield line, f"Slurm does not set ${name}, so it is empty", f"Write ${near[0]}."


_FOR_PROGRAMS = re.compile(
    r"(?:NCCL|RCCL|FI|MIOPEN|HSA|HIP|ROCR|CUDA|OMP|MPICH|UCX|GLOO|TORCH|PYTORCH|TRITON|WANDB|SINGULARITYENV|"
    r"APPTAINERENV|SINGULARITY|APPTAINER|TOKENIZERS)_\w+|MASTER_(?:ADDR|PORT)|HF_(?:HOME|TOKEN|(?:HUB|DATASETS)_\w+)|PYTHONPATH"
)
_OF_THE_RUNTIME = re.compile(
    r"(?:SINGULARITY|APPTAINER)_(?:IMAGE|FILE|PATH|SIF|CONTAINER|CMD|EXEC|ARGS|OPTS|OPTIONS)\w*"
)


def _not_exported(look: ScriptContext) -> Iterator[Fault]:
    if re.search(r"^\s*set\s+(?:-\w*a|-o\s+allexport)", look.text, re.MULTILINE):
        return
    exported = {one.name for call in look.calls for one in call.variables if one.exported}
    exported |= {name for call in look.calls for name in call.exports}
    for call in look.calls:
        for variable in () if call.program or call.inner else call.variables:
            name = variable.name
            if name in exported or variable.exported or _OF_THE_RUNTIME.fullmatch(name):
                continue
            unused = _FOR_PROGRAMS.fullmatch(name) and not re.search(rf"\$\{{?{name}\b", look.text)
            if unused:
                what = f"{name} is not exported, so programs and steps do not see it"
                yield variable.line, what, f"Write export {name}={_short(variable.value)}"


def _short(value: str) -> str:
    return value if len(value) < 40 else "..."


def _script_directory(look: ScriptContext) -> Iterator[Fault]:
    knows = re.search(r"slurmd|spool|scontrol show job|SLURM_SUBMIT_DIR", look.text)
    for call in () if knows else look.calls:
        for word in () if call.inner or call.places else call.words:
            if re.search(
                r"dirname\s+(?:--\s+)?[\"']?\$(?:0\b|\{0\}|\{?BASH_SOURCE)|(?:readlink|realpath)\s[^()]*\$\{?(?:0\b|BASH_SOURCE)|\$\{(?:0|BASH_SOURCE(?:\[0\])?)%/",
                word.text,
            ):
                what = "Slurm runs a copy of the script: this is its spool directory, not where your script is"
                yield word.line, what, "Use $SLURM_SUBMIT_DIR, the directory that sbatch was called in."
                return


def _pty(look: ScriptContext) -> Iterator[Fault]:
    for call in look.steps:
        if any(option.name == "pty" for option in call.srun or ()):
            cure = "Remove --pty, or run this line in an allocation of salloc."
            yield call.line, "srun --pty needs a terminal, which a batch job does not have", cure
    for call in look.calls:
        if call.name == "salloc":
            cure = "Remove it: the job already has one."
            yield call.line, "salloc in a batch script waits for a second allocation", cure


RULES: dict[str, Rule] = {
    "syntax": _syntax,
    "lost-continuation": _lost_continuation,
    "blank-in-assignment": _blank_in_assignment,
    "typeset-characters": _typeset_characters,
    "slurm-variable": _slurm_variable,
    "not-exported": _not_exported,
    "script-directory": _script_directory,
    "no-terminal": _pty,
}
