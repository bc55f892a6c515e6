"""Rules for batch scripts: bind paths, GPUs and variables that a container gets or lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.lint.jobs.reading.context import TOOLS, Fault, ScriptContext
from hpcmod.lint.jobs.rules.container import module_variable
from hpcmod.machine.values.site import RUNTIMES

_BINDS = ("SINGULARITY_BIND", "SINGULARITY_BINDPATH", "APPTAINER_BIND", "APPTAINER_BINDPATH")
_DEFAULT = r"\$\{[^}]{0,200}\}"
_NO_GPU = TOOLS | {"pip", "pip3", "huggingface-cli", "hf", "samtools"}


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
    ours = any(module_variable(call) for call in job.calls)
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
                cure = f"Write {word.text.replace('~', '$HOME', 1)}."
                yield word.line, "bash expands ~ only at the beginning of a word", cure


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
    for call in job.calls:
        if wrong in call.flags:
            yield call.line, f"--{wrong}, but the GPUs of {job.site.name} are made by {vendor}", "Remove it."


def rule_clean_environment(job: ScriptContext) -> Iterator[Fault]:
    for call in job.calls:
        several = call.container and call.srun is not None and (job.ranks(call) or 1) > 1
        for option in call.container.options if call.container and several else ():
            if option.name in ("cleanenv", "containall"):
                also = ", and the node's /tmp and devices" if option.name != "cleanenv" else ""
                problem = f"--{option.name} hides the variables that Slurm sets for each rank{also}"
                yield option.line, problem, "Remove it: the run scripts already exclude the host's Python."
