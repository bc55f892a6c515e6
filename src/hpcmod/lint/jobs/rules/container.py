"""Rules for batch scripts: the module, the image, bind paths and variables, and what is started in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.lint.jobs.reading.calls import Call
from hpcmod.lint.jobs.reading.context import GPU_OPTIONS, Fault, ScriptContext
from hpcmod.lint.jobs.reading.names import TOOLS
from hpcmod.machine.values.site import RUNTIMES

_SIF = re.compile(r"[\"']?\$\{?(SIF(?!_|FILE|IMAGE|PATH|DIR)[A-Z0-9_]*)\}?[\"']?")
_NO_SIF = re.compile(r"(?:docker|oras|library|shub|https?)://|(?:docker-archive|oci-archive|docker-daemon):")
"""Images that the runtime converts before it starts them."""
_BINDS = ("SINGULARITY_BIND", "SINGULARITY_BINDPATH", "APPTAINER_BIND", "APPTAINER_BINDPATH")
_DEFAULT = r"\$\{[^}]{0,200}\}"
_NO_GPU = TOOLS | {"pip", "pip3", "huggingface-cli", "hf", "samtools"}
_INSTALLS = re.compile(
    r"(?:\S*python[\d.]* -m )?(?:pip[\d.]* install(?! (?:-e |--editable )?(?:[./]|dist/)| (?:(?:-U|--upgrade) )?pip"
    r"(?: --user)?$)|(?:conda|mamba|micromamba) (?:env )?(?:install|create))\b"
)
_WORKS = r"^(?:python[\d.]*|torchrun|accelerate|deepspeed)\b(?!.* (?:-c|--version)\b).*\.py\b"
_OF_ITS_OWN = r"TMP|/tmp|--no-index|mktemp|container-image|setup\.py|-m venv|virtualenv"


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
    for image in (image for image, _ in job.images if re.match(r"'\$\{?SIF", image.text)):
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
        if call.container and call.container.verb == "exec" and not call.inner and call.words[-1] is image:
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
            problem = "the image is read-only: pip install fails in it, or writes to the home directory"
            cure = "Install packages once, before the job: `hpcmod add`, or your own venv."
            yield call.program[0].line, problem, cure

    several = re.search(r"\d[-,]\d", array.value) if (array := job.option("array")) else None
    whole = [call for call in job.own if not call.places and (several or job.option(*GPU_OPTIONS))]
    calls = [call for call in whole if _INSTALLS.match(call.arguments()) and not call.container]
    works = [call for call in whole if call not in calls and re.search(_WORKS, call.arguments())]
    if calls and works and works[-1].line > calls[0].line and not re.search(_OF_ITS_OWN, job.body):
        effect = "by all tasks at once, in one environment" if several else "while the GPUs of the job wait"
        cure = "Install them once, before sbatch, in an environment that the job activates."
        yield calls[0].line, f"packages are installed at each start, {effect}", cure


def rule_bind_target(job: ScriptContext) -> Iterator[Fault]:
    options = (option for call in job.calls if call.container for option in call.container.options)
    given = [(option.value, option.line) for option in options if option.name == "bind"]
    given += [(variable.value, variable.line) for variable, call in job.settings if variable.name in _BINDS]
    for value, line in given:
        for bind in re.findall(rf"(?:{_DEFAULT}|[^,])+", job.expand(value)):
            source, *rest = re.findall(rf"(?:{_DEFAULT}|[^:])+", bind) or [""]
            if rest in (["ro"], ["rw"]):
                problem = f"{bind}: {rest[0]} is not a path in the container, which must follow the first colon"
                yield line, problem, f"Write {source}:{source}:{rest[0]}."
            elif rest and re.match(r"[^/$]", rest[0]):
                problem = f"{bind}: the path in the container must begin with a slash"
                yield line, problem, f"Write {source}:/{rest[0].removeprefix('./')}."


def rule_bind_replaced(job: ScriptContext) -> Iterator[Fault]:
    ours = any({module_variable(call)} - {""} - job.names for call in job.calls)
    for variable, _ in job.settings:
        loaded = any(line < variable.line and (ours or "bind" in name) for line, name in job.loads)
        if variable.name in _BINDS and loaded and "$" not in variable.value:
            problem = f"{variable.name} is overwritten: the module's own binds are lost"
            cure = f'export {variable.name}="${variable.name},{variable.value}", under both names.'
            yield variable.line, problem, cure


def rule_tilde(job: ScriptContext) -> Iterator[Fault]:
    for call in job.own:
        in_word = r"--[\w-]+=[\"']?~/|[\"']~/|[^~=\s\"']+:~/" if call.container else r"[\"']~/"
        for word in call.words if call.container or call.name in TOOLS else ():
            if re.match(in_word, word.text):
                right = word.text.replace("~", "$HOME", 1)
                yield word.line, "bash expands ~ only at the beginning of a word", f"Write {right}."
        for name, value in re.findall(r"^(\w+)=([\"']~/.*)", call.words[0].text) if not call.program else ():
            if re.search(rf"^(?!.*\beval\b).*\$\{{?{name}\b", job.body, re.MULTILINE):
                yield call.line, f"{name}: bash does not expand ~ in quotes", f'Write {name}="$HOME{value[2:]}'


def rule_no_gpu_flag(job: ScriptContext) -> Iterator[Fault]:
    # For AMD the flag only adds the host's libraries: the devices are in every container.
    if job.site.gpu.vendor != "nvidia" or not (job.node_type and job.node_type.gpus and job.asks_for_gpus()):
        return
    runs = [call for call in job.calls if call.container and call.container.verb in ("exec", "run", "shell")]
    if job.loads:  # a module has its own singularity and apptainer, which add the flag
        bare = [call for call in runs if any(word.plain in RUNTIMES for word in call.words)]
        runs = [call for call in runs if call not in bare or not module_variable(call)]
    for flag in job.site.gpu.runtime_flags:
        accepted = {flag.lstrip("-")} | ({"nvccli"} if flag == "--nv" else set())
        without = [call for call in runs if not call.flags & accepted and call.arguments().partition(" ")[0] != flag]
        without = [call for call in without if not call.inner and call.name not in _NO_GPU]
        wrong = [call for call in without if len(without) == len(runs) or call in job.ranked]
        if wrong and wrong[0].container:
            problem = f"without {flag} the container has no GPU on {job.site.name}"
            yield wrong[0].line, problem, f"Write {wrong[0].runtime} {wrong[0].container.verb} {flag} ..."


def rule_wrong_gpu_flag(job: ScriptContext) -> Iterator[Fault]:
    vendor = job.site.gpu.vendor
    wrong = {"amd": "nv", "nvidia": "rocm"}.get(vendor)
    for call in (call for call in job.calls if wrong in call.flags):
        yield call.line, f"--{wrong}, but the GPUs of {job.site.name} are made by {vendor}", "Remove it."


def rule_clean_environment(job: ScriptContext) -> Iterator[Fault]:
    for call in job.calls:
        several = call.container and call.srun is not None and (job.ranks(call) or 1) > 1
        for option in call.container.options if call.container and several else ():
            if option.name in ("cleanenv", "containall"):
                also = ", and the node's /tmp and devices" if option.name != "cleanenv" else ""
                problem = f"--{option.name} hides the variables that Slurm sets for each rank{also}"
                yield option.line, problem, "Remove it: the run scripts already exclude the host's Python."
