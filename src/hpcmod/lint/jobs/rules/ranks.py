"""Rules for batch scripts: how ranks are started, where they connect, and which cores and GPUs they get."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.jobs.values.masks import cpu_masks
from hpcmod.lint.jobs.reading.calls import Call
from hpcmod.lint.jobs.reading.context import Fault, ScriptContext, is_distributed, is_unescaped, launchers_of

_OF_A_TASK = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")
_NUMBERS_NODES = re.compile(r"--rdzv[-_]backend[= ]+[\"']?(?:c10d|etcd)")
"""Torchrun then numbers the nodes itself, and ignores --node-rank."""
_DEVICE_OF_RANK = re.compile(r"(?:--(?:gpu|device|local[-_]rank)[= ]|\bcuda:)\\?\$\{?(?:SLURM_LOCALID|LOCAL_RANK)\b")
_STARTERS = {"srun", "ssh", "pdsh", "clush", "parallel"}


def rule_no_srun(job: ScriptContext) -> Iterator[Fault]:
    words = {word.name for command in job.script.commands for word in command.words}
    has_step = words & {"srun", "mpirun", "mpiexec"}  # possibly after another program: timeout 3000 srun
    for call in job.calls:
        ours = call.name == "conda-python-distributed"
        tasks = max((job.ranks() or 1) if ours else 1, job.number("nodes") or 1)  # others may use the CPUs of all tasks
        meant = is_distributed(call) or (call.container and call.name.startswith("python") and not has_step)
        told = "--hostfile" in call.arguments() or _STARTERS & {word.name for word in call.words}  # nsys profile srun
        if tasks > 1 and call.srun is None and meant and not told and "function" not in call.places:
            problem = f"runs once, in the batch script, although the job has {tasks} {'tasks' if ours else 'nodes'}"
            yield call.line, problem, "Put srun before it."


def rule_master_addr(job: ScriptContext) -> Iterator[Fault]:
    for variable in (variable for variable, call in job.settings if "branch" not in call.places):
        value = job.expand(variable.value)
        tried = (*_ADDRESSES, *(_ADDRESSES_OF_SEVERAL if job.several_nodes else ()))
        problem = next((problem for pattern, problem in tried if re.fullmatch(pattern, value, re.DOTALL)), "")
        if job.several_nodes and variable.in_step and re.search(_OF_EACH_NODE, value) and "scontrol" not in value:
            problem = "each node would use its own name"
        is_last = variable.value == job.variables.get(variable.name, variable.value)
        is_read = is_last and (variable.exported or f"${variable.name}" in job.text.replace("{", ""))
        if variable.name.endswith("MASTER_ADDR") and problem and is_read:
            cure = 'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1), before srun.'
            yield variable.line, f"MASTER_ADDR={variable.value}: {problem}", _omit_or(job, cure)


def rule_changing_port(job: ScriptContext) -> Iterator[Fault]:
    for variable, _ in job.settings:
        value = job.expand(variable.value)
        problem = next((problem for pattern, problem in _PORTS if re.fullmatch(pattern, value)), "")
        if variable.in_step and re.search(_OF_EACH_RANK, value):
            problem = "every rank has a different port, and they do not connect"
        if variable.name.endswith("MASTER_PORT") and problem:
            cure = _omit_or(job, "export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000)), before srun.")
            yield variable.line, f"MASTER_PORT={variable.value}: {problem}", cure


def _omit_or(job: ScriptContext, cure: str) -> str:
    ours = any(call.name == "conda-python-distributed" for call in job.calls)
    return "Omit it: conda-python-distributed sets it correctly on every rank." if ours else cure


_ADDRESSES = (
    (r"\$\{?SLURM_(?:JOB_|STEP_)?NODELIST\}?", "a host list is not a host: nid[001-002]"),
    (r"[a-z]+\d+", "the name of one node of one job"),
    (r"\$\{?SLURM_(?:SUBMIT_HOST|LAUNCH_NODE_IPADDR)\}?", "the host of the submission, which is not part of the job"),
)
_ADDRESSES_OF_SEVERAL = (
    (r"localhost|127\.0\.0\.1|::1|0\.0\.0\.0", "each node would only wait for its own ranks"),
    (r"\$\(\s*scontrol show hostnames?[^|]*\)", "the names of all nodes, one on each line"),
    (r".*scontrol show hostnames?.*\|\s*tail\b.*", "the last node: rank 0 is on the first"),
    (r"(?!.*scontrol).*NODELIST\}?[\"']?\s*\|\s*(?:cut|awk|sed|tr|head)\b.*", "a compressed list: nid[001-004]"),
    (r"\$\{SLURM_(?:JOB_|STEP_)?NODELIST[%#/].*", "a compressed list of nodes: nid[001-004]"),
    (r"\$\(srun\s+hostname\b.*", "srun prints the names in any order, and rank 0 is on the first node"),
)
_OF_EACH_NODE = r"\bhostname\b|SLURMD_NODENAME|\$HOSTNAME\b"


_PORTS = (
    (r"\$\{?RANDOM\}?", "sometimes below 1024, where only root may listen, or a port in use"),
    (r"\$\{?SLURM_JOB_?ID\}?", "job IDs exceed 65535, the highest port"),
    (r"\$\(\(\s*\$?\{?SLURM_JOB_?ID\}?\s*%\s*\d+\s*\)\)", "sometimes below 1024, where only root may listen"),
    (r"0*(?:\d{1,3}|10[01]\d|102[0-3])", "only root may listen on it"),
)
_OF_EACH_RANK = r"RANDOM|shuf|\.bind\(|SLURM_(?:PROCID|LOCALID|NODEID)|\bss\b|netstat"


def rule_mask_reserved(job: ScriptContext) -> Iterator[Fault]:
    kind = job.node_type
    for call in job.steps if kind else ():
        taken = sorted(set(kind.reserved_cores) & _bound_cores(job, call)) if kind else ()
        if kind and taken:
            problem = f"core {taken[0]} is reserved for the system on node type {kind.name}: no job may use it"
            full = job.ranks_per_node(call) == kind.gpus and kind.gpu_cores
            cure = f"--cpu-bind=mask_cpu:{','.join(cpu_masks(kind, kind.gpus))}" if full else "Remove these cores."
            yield call.line, problem, cure


def _bound_cores(job: ScriptContext, call: Call) -> set[int]:
    """Return the cores in the masks or the list of --cpu-bind."""
    option = job.option("cpu-bind", call=call)
    bound = job.expand(option.value) if option else ""
    listed = re.search(r"map_cpu[:=]([\d,]+)", bound)
    masks = re.search(r"mask_cpu[:=](.+)", bound)
    cores = {int(core) for core in listed[1].split(",") if core} if listed else set()
    for mask in masks[1].split(",") if masks else ():
        number = int(mask, 16) if re.fullmatch(r"(?:0x)?[0-9a-fA-F]+", mask) else 0
        cores |= {core for core in range(number.bit_length()) if number >> core & 1}
    return cores


def rule_refused_launcher(job: ScriptContext) -> Iterator[Fault]:
    unwanted = job.site.launcher.unwanted
    for call in filter(is_distributed, job.calls):
        for name in unwanted.keys() & launchers_of(call):
            problem = f"{name} on {job.site.name}: {unwanted[name]}"
            yield call.line, problem, "Let srun start the ranks, one per task."


def rule_launcher_tasks(job: ScriptContext) -> Iterator[Fault]:
    for call in filter(is_distributed, job.calls):
        each = (job.ranks_per_node(call) or 1) if call.srun is not None else 1
        for name in launchers_of(call) if each > 1 else ():
            if name not in job.site.launcher.unwanted:
                problem = f"{name} starts all ranks of its node, but srun starts it {each} times per node"
                given = "srun" if call.of_srun("ntasks-per-node") else "#SBATCH"
                yield call.line, problem, f"Write {given} --ntasks-per-node=1, or remove {name}."


def rule_early_expansion(job: ScriptContext) -> Iterator[Fault]:
    for command in job.script.commands:
        if not any(word.name == "srun" for word in command.words):
            continue
        numbered = _NUMBERS_NODES.search(" ".join(word.text for word in command.words))
        for name in _OF_A_TASK:
            for word in command.words:
                if not numbered and is_unescaped(word.text, name):
                    problem = f"${name} is expanded by the batch shell, before srun: all ranks get 0"
                    yield word.line, problem, "Read it in the step: srun bash -c '...' in single quotes."
            if any(f"${name}" in file for file in command.outputs):
                problem = f"${name} in the file name is expanded by the batch shell: all ranks write to one file"
                yield command.line, problem, "srun --output=%x-%j-%t.log writes one file for each task."


def rule_device_of_rank(job: ScriptContext) -> Iterator[Fault]:
    steps = {call.line for call in job.steps}
    for call in (call for call in job.calls if call.line in steps):  # what a shell in a step starts, too
        ours = call.name == "conda-python-distributed" and job.site.gpu.per_rank == "one"
        if _DEVICE_OF_RANK.search(call.arguments()) and (ours or job.sees_one_gpu(call)):
            steps.discard(call.line)
            more = "." if ours else ", or request --gpus-per-node instead of --gpus-per-task."
            yield call.line, "each rank of this step sees one device, number 0", f"Use device 0{more}"
