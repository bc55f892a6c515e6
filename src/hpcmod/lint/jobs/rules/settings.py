"""Rules for batch scripts: harmful values of variables for NCCL, the GPUs and ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.lint.jobs.reading.calls import Variable
from hpcmod.lint.jobs.reading.look import Fault, Rule, ScriptContext

_PREFIX = re.compile(r"(?:SINGULARITYENV|APPTAINERENV)_")


def _settings(look: ScriptContext) -> Iterator[tuple[str, Variable]]:
    """Yield the variables that programs get, by the name that they see."""
    for call in (*look.calls, *look.written):
        for variable in call.variables:
            yield _PREFIX.sub("", variable.name), variable


def _wrong_interface(look: ScriptContext) -> Iterator[Fault]:
    known = look.site.network.interfaces
    for name, variable in _settings(look):
        value = look.expand(variable.value)
        if not known or name not in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME") or "$" in value:
            continue
        wanted = value.lstrip("=").split(",")
        wrong = [
            one for one in wanted if one and not value.startswith("^") and not any(nic.startswith(one) for nic in known)
        ]
        if wrong:
            what = f"{name}={value}: traffic between nodes uses {known[0]} on {look.site.name}, not {wrong[0]}"
            yield variable.line, what, f"export {variable.name}={','.join(known) if name[0] == 'N' else known[0]}"


def _unknown_setting(look: ScriptContext) -> Iterator[Fault]:
    for name, variable in _settings(look):
        if name == "MIOPEN_USER_DB":
            yield variable.line, "MIOpen does not read MIOPEN_USER_DB", "Write MIOPEN_USER_DB_PATH."
        elif re.match(r"(?:SINGULARITY|APPTAINER)_ENV_\w+|SINGULARTYENV_", variable.name):
            right = re.sub(r"^SINGULAR\w+?_?ENV_", "SINGULARITYENV_", variable.name).replace("R_ENV_", "RENV_")
            yield variable.line, f"the runtime does not read {variable.name}", f"Write {right}."


def _device_twice(look: ScriptContext) -> Iterator[Fault]:
    rocr = {
        call.inner
        for call in (*look.calls, *look.written)
        for one in call.variables
        if "ROCR_VIS" in one.name and "LOCALID" in one.value
    }
    for call in (*look.calls, *look.written):
        one = look.option("gpus-per-task", call=call)
        bound = look.option("gpu-bind", call=call)
        free = "gpu-bind=none" in look.text
        alone = (one and one.value in ("1", "gpu:1") and not free) or (bound and "single:1" in bound.value)
        for variable in call.variables:
            name = _PREFIX.sub("", variable.name)
            local = name.endswith("_VISIBLE_DEVICES") and re.search(r"SLURM_(?:LOCALID|PROCID)", variable.value)
            if local and variable.in_step and alone:
                what = f"with one GPU per task each rank sees one device, number 0: {name}={variable.value} hides it"
                yield variable.line, what, "Remove it: Slurm gives each rank its own GPU."
            elif local and name == "HIP_VISIBLE_DEVICES" and rocr:
                what = "HIP_VISIBLE_DEVICES is an index into ROCR_VISIBLE_DEVICES: with both, ranks above 0 have no GPU"
                yield variable.line, what, "Set only ROCR_VISIBLE_DEVICES."


RULES: dict[str, Rule] = {
    "wrong-interface": _wrong_interface,
    "unknown-setting": _unknown_setting,
    "device-twice": _device_twice,
}
