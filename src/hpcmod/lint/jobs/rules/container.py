"""Rules for batch scripts: the module, the image, and what is started in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.lint.jobs.reading.calls import Call
from hpcmod.lint.jobs.reading.context import Fault, ScriptContext

_SIF = re.compile(r"[\"']?\$\{?(SIF(?!_|FILE|IMAGE|PATH|DIR)[A-Z0-9_]*)\}?[\"']?")
_NO_SIF = re.compile(r"(?:docker|oras|library|shub|https?)://|(?:docker-archive|oci-archive|docker-daemon):")
"""Images that the runtime converts before it starts them."""


def module_variable(call: Call) -> str:
    """Return the variable of a module that names the image of a call; empty if none."""
    match = _SIF.fullmatch(call.container.image.text) if call.container and call.container.image else None
    return match[1] if match else ""


def rule_no_module(job: ScriptContext) -> Iterator[Fault]:
    for call in () if job.sources else job.calls:
        needed = module_variable(call)
        loaded = any(line <= call.line or "function" in call.places for line, _ in job.loads)
        if needed and needed not in job.names and not loaded:
            later = " before this line" if job.loads else ""
            problem = f"${needed} comes from a module, and none is loaded{later}"
            yield call.line, problem, "Add module load NAME/VERSION above."
            return


def rule_other_module(job: ScriptContext) -> Iterator[Fault]:
    names = {part.upper().replace("-", "MIN") for _, name in job.loads for part in name.split("/")}
    if not names or any(name == "restore" or "$" in name for _, name in job.loads):
        return
    for call in job.calls:
        wanted = module_variable(call)[len("SIF") :]
        if wanted and wanted not in names and f"SIF{wanted}" not in job.names:
            loaded = ", ".join(name for _, name in job.loads)
            yield call.line, f"$SIF{wanted} belongs to a module that is not loaded; loaded: {loaded}", "Use $SIF."


def rule_purged(job: ScriptContext) -> Iterator[Fault]:
    for call in job.own:
        verbs = [word.plain for word in call.program[1:] if not word.plain.startswith("-")]
        if call.name not in ("module", "ml") or verbs[:1] not in (["purge"], ["reset"]):
            continue
        before = [name for line, name in job.loads if line < call.line]
        used = any(other.line > call.line and other.container for other in job.calls)
        if used and before and len(before) == len(job.loads):
            problem = f"module {verbs[0]} unloads {', '.join(before)}, which the lines below need"
            yield call.line, problem, "Move it above module load."


def rule_runtime_not_loaded(job: ScriptContext) -> Iterator[Fault]:
    needed = re.search(r"^module load (\w+)", "\n".join(job.site.job.command), re.MULTILINE)
    started = [call for call in job.calls if call.container]
    if needed and started and not job.loads and not job.sources:
        problem = f"{needed[1]} comes from a module on {job.site.name}, which is not loaded"
        yield started[0].line, problem, f"Add module load {needed[1]} above."


def rule_literal_sif(job: ScriptContext) -> Iterator[Fault]:
    for image, _ in job.images:
        if re.match(r"'\$\{?SIF", image.text):
            yield image.line, "the variable is not expanded in single quotes", 'Write "$SIF".'


def rule_not_an_image(job: ScriptContext) -> Iterator[Fault]:
    for image, call in job.images:
        if call.container and re.match(r"\.?/[^:$,]*(?::/|,)", image.plain) and "://" not in image.plain:
            problem = f"{call.container.verb} takes {image.plain}, a bind path, as the image"
            yield image.line, problem, f"Write --bind {image.plain}."


def rule_registry_image(job: ScriptContext) -> Iterator[Fault]:
    for image, call in job.images:
        reference = job.expand(image.plain)
        if _NO_SIF.match(reference) and call.srun is not None and (job.ranks(call) or 1) > 1:
            problem = "every task fetches and converts the image when the job starts"
            yield image.line, problem, f"Run hpcmod fetch {reference} once, before sbatch, and use the SIF here."


def rule_no_container(job: ScriptContext) -> Iterator[Fault]:
    for call in job.calls:
        if not call.container and call.name in ("conda-python-distributed", "conda-python-simple", "run-in-env"):
            problem = f"{call.name} is a command of the container, not of the host"
            yield call.line, problem, 'Put singularity exec "$SIF" before it.'


def rule_nothing_in_container(job: ScriptContext) -> Iterator[Fault]:
    for image, call in () if job.placeholders else job.images:
        if call.container and call.container.verb == "exec" and not call.program and not call.inner:
            problem = f"exec without a program: it fails, and later lines do not run in {image.plain}"
            yield call.line, problem, "Put the program after the image, on the same line."


def rule_options_behind_image(job: ScriptContext) -> Iterator[Fault]:
    for call in job.own:
        verb = call.container.verb if call.container else ""
        first = call.arguments().partition(" ")[0]
        image = call.container.image.text if call.container and call.container.image else ""
        may_be_flag = re.match(r"\$", image) and not re.search(r"sif|ima?ge?|cont", image, re.IGNORECASE)  # $NV
        if verb in ("exec", "shell") and re.match(r"--?[A-Za-z]", first) and not may_be_flag:
            problem = f"the program follows the image, so {first} would be run as a program"
            yield call.program[0].line, problem, f"Write {call.runtime} {verb} {first} ... before the image."


def rule_install_in_job(job: ScriptContext) -> Iterator[Fault]:
    for call in job.calls:
        installs = re.match(r"(?:\S*python[\d.]* -m )?pip[\d.]* install\b", call.arguments())
        elsewhere = re.search(r" (?:--target|--prefix|--user|-t)(?: |$)", call.arguments())
        writable = call.flags & {"overlay", "writable"}
        if call.container and installs and not writable and (call.srun is not None or not elsewhere):
            many = (job.ranks(call) or 1) if call.srun is not None else 1
            problem = "the image is read-only: pip install fails in it, or writes to the home directory"
            if many > 1:
                problem = f"{many} tasks run pip install at the same time, in a read-only image or one home directory"
            cure = "Install packages once, before the job: `hpcmod add`, or your own venv."
            yield call.program[0].line, problem, cure
