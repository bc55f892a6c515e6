"""Rules for batch scripts: harmful values of variables for NCCL, the GPUs and ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.lint.jobs.reading.calls import Variable
from hpcmod.lint.jobs.reading.context import Fault, ScriptContext

_PREFIX = re.compile(r"(?:SINGULARITYENV|APPTAINERENV)_")


def _settings(job: ScriptContext) -> Iterator[tuple[str, Variable]]:
    """Yield the variables that programs get, by the name that they see."""
    for call in (*job.calls, *job.written):
        for variable in call.variables:
            yield _PREFIX.sub("", variable.name), variable


def rule_wrong_interface(job: ScriptContext) -> Iterator[Fault]:
    known = job.site.network.interfaces
    for name, variable in _settings(job):
        value = job.expand(variable.value)
        if not known or name not in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME") or "$" in value:
            continue
        wanted = value.lstrip("=").split(",")
        wrong = [
            one for one in wanted if one and not value.startswith("^") and not any(nic.startswith(one) for nic in known)
        ]
        if wrong:
            problem = f"{name}={value}: traffic between nodes uses {known[0]} on {job.site.name}, not {wrong[0]}"
            yield variable.line, problem, f"export {variable.name}={','.join(known) if name[0] == 'N' else known[0]}"


def rule_unknown_setting(job: ScriptContext) -> Iterator[Fault]:
    for name, variable in _settings(job):
        if name == "MIOPEN_USER_DB":
            yield variable.line, "MIOpen does not read MIOPEN_USER_DB", "Write MIOPEN_USER_DB_PATH."
        elif re.match(r"(?:SINGULARITY|APPTAINER)_ENV_\w+|SINGULARTYENV_", variable.name):
            right = re.sub(r"^SINGULAR\w+?_?ENV_", "SINGULARITYENV_", variable.name).replace("R_ENV_", "RENV_")
            yield variable.line, f"the runtime does not read {variable.name}", f"Write {right}."


def rule_device_twice(job: ScriptContext) -> Iterator[Fault]:
    rocr = {
        call.inner
        for call in (*job.calls, *job.written)
        for one in call.variables
        if "ROCR_VIS" in one.name and "LOCALID" in one.value
    }
    for call in (*job.calls, *job.written):
        one = job.option("gpus-per-task", call=call)
        bound = job.option("gpu-bind", call=call)
        free = "gpu-bind=none" in job.text
        alone = (one and one.value in ("1", "gpu:1") and not free) or (bound and "single:1" in bound.value)
        for variable in call.variables:
            name = _PREFIX.sub("", variable.name)
            local = name.endswith("_VISIBLE_DEVICES") and re.search(r"SLURM_(?:LOCALID|PROCID)", variable.value)
            if local and variable.in_step and alone:
                problem = f"with one GPU per task each rank sees one device, number 0: {name}={variable.value} hides it"
                yield variable.line, problem, "Remove it: Slurm gives each rank its own GPU."
            elif local and name == "HIP_VISIBLE_DEVICES" and rocr:
                problem = (
                    "HIP_VISIBLE_DEVICES is an index into ROCR_VISIBLE_DEVICES: with both, ranks above 0 have no GPU"
                )
                yield variable.line, problem, "Set only ROCR_VISIBLE_DEVICES."
