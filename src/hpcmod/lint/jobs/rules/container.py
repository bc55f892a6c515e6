"""Rules for batch scripts: the module, the image, its bind paths and the environment that reaches it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.lint.jobs.reading.calls import Call
from hpcmod.lint.jobs.reading.look import TOOLS, Fault, Rule, ScriptContext
from hpcmod.lint.jobs.rules.starts import call_of
from hpcmod.machine.values.site import RUNTIMES

_SIF = re.compile(r"\$\{?(SIF[A-Z0-9_]*)\}?")
_BIND_VARIABLES = ("SINGULARITY_BIND", "SINGULARITY_BINDPATH", "APPTAINER_BIND", "APPTAINER_BINDPATH")


def _no_module(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        needed = _module_variable(call)
        if not needed or needed in look.names or ("function" in call.places and look.loads):
            continue
        if any(line <= call.line for line, _ in look.loads) or look.sources:
            continue
        later = " before this line" if look.loads else ""
        cure = "Add module load NAME/VERSION above."
        yield call.line, f"${needed} comes from a module, and none is loaded{later}", cure
        return


def _module_variable(call: Call) -> str:
    """Return the variable of a module that a call needs; empty if none."""
    image = call.container.image if call.container else None
    found = _SIF.search(image.text) if image else None
    return found[1] if found else ""


def _other_module(look: ScriptContext) -> Iterator[Fault]:
    names = {part.upper().replace("-", "MIN") for _, name in look.loads for part in name.split("/")}
    if any(name == "restore" or "$" in name for _, name in look.loads):
        return
    for call in look.calls:
        wanted = _module_variable(call)[len("SIF") :]
        if wanted and names and wanted not in names and f"SIF{wanted}" not in look.names:
            loaded = ", ".join(name for _, name in look.loads)
            yield call.line, f"$SIF{wanted} belongs to a module that is not loaded; loaded: {loaded}", "Use $SIF."


def _literal_sif(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        image = call.container.image if call.container else None
        if image and re.match(r"'\$\{?SIF", image.text):
            yield image.line, "the variable is not expanded in single quotes", 'Write "$SIF".'


def _bind_replaced(look: ScriptContext) -> Iterator[Fault]:
    ours = any(_module_variable(call) for call in look.calls)
    for call in look.calls:
        for variable in call.variables:
            loaded = any(line < variable.line and (ours or "bind" in name) for line, name in look.loads)
            if variable.name in _BIND_VARIABLES and loaded and "$" not in variable.value:
                what = f"{variable.name} is overwritten: the module's own binds are lost"
                cure = f'export {variable.name}="${variable.name},{variable.value}", under both names.'
                yield variable.line, what, cure


def _not_an_image(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        image = call.container.image if call.container else None
        if image and re.match(r"\.?/[^:$,]*(?::/|,)", image.plain) and "://" not in image.plain:
            what = f"{call.container.verb if call.container else ''} takes {image.plain}, a bind path, as the image"
            yield image.line, what, f"Write --bind {image.plain}."


def _no_container(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        name = call.name.rpartition("/")[2]
        if not call.container and name in ("conda-python-distributed", "conda-python-simple", "run-in-env"):
            cure = 'Put singularity exec "$SIF" before it.'
            yield call.line, f"{name} is a command of the container, not of the host", cure


def _no_gpu_flag(look: ScriptContext) -> Iterator[Fault]:
    # For AMD the flag only adds the host's libraries: the devices are in every container.
    kind = look.node_type() if look.site.gpu.vendor == "nvidia" else None
    runs = [call for call in look.calls if call.container and call.container.verb in ("exec", "run", "shell")]
    if look.loads:  # a module has its own singularity and apptainer, which add the flag
        runs = [call for call in runs if not (_module_variable(call) and _is_on_path(call))]
    for flag in look.site.gpu.runtime_flags if kind and kind.gpus and look.asks_for_gpus() else ():
        without = [call for call in runs if not call.inner and not _has_flag(call, flag) and call.name not in _NO_GPU]
        if without and (len(without) == len(runs) or any(call in look.ranked for call in without)):
            wrong = [call for call in without if len(without) == len(runs) or call in look.ranked]
            what = f"without {flag} the container has no GPU on {look.site.name}"
            cure = f"Write {call_of(wrong[0])} {wrong[0].container and wrong[0].container.verb} {flag} ..."
            yield wrong[0].line, what, cure


def _is_on_path(call: Call) -> bool:
    return any(word.plain in RUNTIMES for word in call.words)


_NO_GPU = TOOLS | {"pip", "pip3", "huggingface-cli", "hf", "samtools"}


def _has_flag(call: Call, flag: str) -> bool:
    given = {f"--{option.name}" for option in call.container.options} if call.container else set()
    behind = call.program[:1] and call.program[0].plain == flag
    return flag in given or bool(behind) or (flag == "--nv" and "--nvccli" in given)


def _wrong_gpu_flag(look: ScriptContext) -> Iterator[Fault]:
    wrong = {"amd": "nv", "nvidia": "rocm"}.get(look.site.gpu.vendor)
    for call in look.calls:
        if call.container and wrong and any(option.name == wrong for option in call.container.options):
            cure = "Remove it."
            yield call.line, f"--{wrong}, but the GPUs of {look.site.name} are made by {look.site.gpu.vendor}", cure


def _clean_environment(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        for option in call.container.options if call.container and call.srun is not None else ():
            if option.name in ("cleanenv", "containall", "contain"):
                what = f"--{option.name} hides the variables that Slurm sets for each rank" + (
                    ", and the node's /tmp and devices" if option.name != "cleanenv" else ""
                )
                yield option.line, what, "Remove it: the run scripts already exclude the host's Python."


RULES: dict[str, Rule] = {
    "no-module": _no_module,
    "other-module": _other_module,
    "literal-sif": _literal_sif,
    "bind-replaced": _bind_replaced,
    "not-an-image": _not_an_image,
    "no-container": _no_container,
    "no-gpu-flag": _no_gpu_flag,
    "wrong-gpu-flag": _wrong_gpu_flag,
    "clean-environment": _clean_environment,
}
