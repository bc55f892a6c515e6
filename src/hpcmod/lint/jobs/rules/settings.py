"""Rules for batch scripts: harmful values of variables for NCCL, the GPUs and ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from hpcmod.lint.jobs.reading.calls import Variable
from hpcmod.lint.jobs.reading.context import Fault, ScriptContext

_INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME")

_READ = {
    "APPTAINER_CACHEDIR", "CUDA_VISIBLE_DEVICES", "DYLD_LIBRARY_PATH", "HF_DATASETS_CACHE", "LD_LIBRARY_PATH",
    "MASTER_ADDR", "MKL_NUM_THREADS", "NCCL_DEBUG", "NCCL_IB_DISABLE", "NCCL_SOCKET_IFNAME", "NUMEXPR_NUM_THREADS",
    "OMP_NUM_THREADS", "OMP_PROC_BIND", "OPENBLAS_NUM_THREADS", "PYTHONPATH", "PYTORCH_CUDA_ALLOC_CONF",
    "SINGULARITY_CACHEDIR", "SRUN_CPUS_PER_TASK", "TOKENIZERS_PARALLELISM", "TRANSFORMERS_CACHE", "WANDB_API_KEY",
}  # fmt: skip
"""Variables that programs read, and that are often misspelt."""


def _seen(variable: Variable) -> str:
    """Return the name by which a program sees a variable."""
    return re.sub(r"(?:SINGULARITYENV|APPTAINERENV)_", "", variable.name)


def rule_wrong_interface(job: ScriptContext) -> Iterator[Fault]:
    known = job.site.network.interfaces
    for variable, _ in job.settings:
        name, value = _seen(variable), job.expand(variable.value)
        wanted = [] if "$" in value or value.startswith("^") else value.lstrip("=").split(",")
        wrong = [prefix for prefix in wanted if not any(interface.startswith(prefix) for interface in known)]
        if name in _INTERFACES and wanted == ["lo"] and job.several_nodes and not known:
            yield variable.line, f"{name}={value}: other nodes cannot reach the loopback interface", "Remove it."
        elif name in _INTERFACES and wrong and known:
            problem = f"{name}={value}: traffic between nodes uses {known[0]} on {job.site.name}, not {wrong[0]}"
            yield variable.line, problem, f"export {variable.name}={','.join(known) if name[0] == 'N' else known[0]}"


def rule_unknown_setting(job: ScriptContext) -> Iterator[Fault]:
    for variable, _ in job.settings:
        if _seen(variable) == "MIOPEN_USER_DB":
            yield variable.line, "MIOpen does not read MIOPEN_USER_DB", "Write MIOPEN_USER_DB_PATH."
        elif match := re.match(r"(SINGULARITY|APPTAINER)_ENV_(?=\w)|SINGULARTYENV_", variable.name):
            right = f"{match[1] or 'SINGULARITY'}ENV_{variable.name[match.end() :]}"
            yield variable.line, f"the runtime does not read {variable.name}", f"Write {right}."
        elif variable.exported and variable.name not in _READ and f"${variable.name}" not in job.text:
            for right in get_close_matches(variable.name, _READ, 1, 0.93):
                yield variable.line, f"{variable.name} looks like {right}, and no program reads it", f"Write {right}."


def rule_device_twice(job: ScriptContext) -> Iterator[Fault]:
    by_rocr = any("ROCR_VIS" in variable.name and "LOCALID" in variable.value for variable, _ in job.settings)
    for variable, call in job.settings:
        name = _seen(variable)
        if not (name.endswith("_VISIBLE_DEVICES") and re.search(r"SLURM_(?:LOCALID|PROCID)", variable.value)):
            continue
        if variable.in_step and job.sees_one_gpu(call):
            problem = f"with one GPU per task each rank sees one device, number 0: {name}={variable.value} hides it"
            yield variable.line, problem, "Remove it: Slurm gives each rank its own GPU."
        elif name == "HIP_VISIBLE_DEVICES" and by_rocr:
            problem = "HIP_VISIBLE_DEVICES indexes ROCR_VISIBLE_DEVICES: with both, ranks above 0 have no GPU"
            yield variable.line, problem, "Set only ROCR_VISIBLE_DEVICES."
