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


def rule_no_srun(job: ScriptContext) -> Iterator[Fault]:
    nodes, ranks = job.nodes() or 1, job.ranks() or 1
    for call in job.calls:
        meant = is_distributed(call) or (call.container and call.name.startswith("python") and not _has_step(job))
        told = call.name in ("srun", "ssh", "pdsh", "clush", "parallel") or "--hostfile" in call.arguments()
        if call.srun is not None or not meant or told or (ranks < 2 and nodes < 2):
            continue
        problem = f"runs once, in the batch script, although the job has {max(ranks, nodes)} tasks"
        yield call.line, problem, "Put srun before it."


def _has_step(job: ScriptContext) -> bool:
    """Return whether anything starts ranks, possibly after another program: timeout 3000 srun."""
    words = (word.plain.rpartition("/")[2] for command in job.script.commands for word in command.words)
    return any(word in ("srun", "mpirun", "mpiexec") for word in words)


def rule_master_addr(job: ScriptContext) -> Iterator[Fault]:
    several = max([job.nodes() or 1, *(job.nodes(call) or 1 for call in job.steps)]) > 1
    for variable in (variable for call in job.calls for variable in call.variables):
        problem = _wrong_address(job.expand(variable.value), several=several, in_step=variable.in_step)
        if variable.name.endswith("MASTER_ADDR") and problem:
            cure = 'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1), before srun.'
            yield variable.line, f"MASTER_ADDR={variable.value}: {problem}", _omit_or(job, cure)


def rule_changing_port(job: ScriptContext) -> Iterator[Fault]:
    for variable in (variable for call in (*job.calls, *job.written) for variable in call.variables):
        problem = _wrong_port(job.expand(variable.value), in_step=variable.in_step)
        if variable.name.endswith("MASTER_PORT") and problem:
            cure = _omit_or(job, "export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000)), before srun.")
            yield variable.line, f"MASTER_PORT={variable.value}: {problem}", cure


def _omit_or(job: ScriptContext, cure: str) -> str:
    ours = any(call.name == "conda-python-distributed" for call in job.calls)
    return "Omit it: conda-python-distributed sets it correctly on every rank." if ours else cure


_ADDRESSES = (
    (r"\$\{?SLURM_(?:JOB_|STEP_)?NODELIST\b[^|]*", "a host list is not a host: nid[001-002]"),
    (r"[a-z]+\d+", "the name of one node of one job"),
    (
        r"\$\{?SLURM_(?:SUBMIT_HOST|LAUNCH_NODE_IPADDR)\}?",
        "the host that the job was submitted from, which is not part of the job",
    ),
)
_ADDRESSES_OF_SEVERAL = (
    (r"localhost|127\.0\.0\.1|::1|0\.0\.0\.0", "each node would only wait for its own ranks"),
    (r"\$\(\s*scontrol show hostnames?[^|]*\)", "the names of all nodes, one on each line"),
    (r".*scontrol show hostnames?.*\|\s*tail\b.*", "the last node: rank 0 is on the first"),
    (
        r"(?!.*scontrol).*NODELIST\}?[\"']?\s*\|\s*(?:cut|awk|sed|tr|head)\b.*",
        "a compressed list of nodes: nid[001-004]",
    ),
    (r"\$\{SLURM_(?:JOB_|STEP_)?NODELIST[%#/].*", "a compressed list of nodes: nid[001-004]"),
    (r"\$\(srun\s+hostname\b.*", "srun prints the names in any order, and rank 0 is on the first node"),
)
_OF_EACH_NODE = r"\bhostname\b|SLURMD_NODENAME|\$HOSTNAME\b"


def _wrong_address(value: str, *, several: bool, in_step: bool) -> str:
    if several and in_step and re.search(_OF_EACH_NODE, value) and "scontrol" not in value:
        return "each node would use its own name"
    tried = (*_ADDRESSES, *(_ADDRESSES_OF_SEVERAL if several else ()))
    return next((problem for pattern, problem in tried if re.fullmatch(pattern, value, re.DOTALL)), "")


_PORTS = (
    (r"\$\{?RANDOM\}?", "sometimes below 1024, where only root may listen, or a port in use"),
    (r"\$\{?SLURM_JOB_?ID\}?", "job IDs exceed 65535, the highest port"),
    (
        r"\$\(\(\s*\$?\{?SLURM_JOB_?ID\}?\s*%\s*\d+\s*\)\)",
        "sometimes below 1024, where only root may listen",
    ),
    (r"0*(?:\d{1,3}|10[01]\d|102[0-3])", "only root may listen on it"),
)
_OF_EACH_RANK = r"RANDOM|shuf|\.bind\(|SLURM_(?:PROCID|LOCALID|NODEID)|\bss\b|netstat"


def _wrong_port(value: str, *, in_step: bool) -> str:
    if in_step and re.search(_OF_EACH_RANK, value):
        return "every rank has a different port, and they do not connect"
    return next((problem for pattern, problem in _PORTS if re.fullmatch(pattern, value)), "")


def _masks_of(job: ScriptContext, call: Call) -> list[str]:
    for option in call.srun or ():
        found = re.match(r"(?:verbose,|quiet,)?mask_cpu[:=](.+)", job.expand(option.value))
        if option.name == "cpu-bind" and found:
            return found[1].split(",")
    return []


def rule_mask_reserved(job: ScriptContext) -> Iterator[Fault]:
    for call in job.steps:
        kind = job.node_type
        reserved = set(kind.reserved_cores) if kind else set()
        taken = sorted(reserved & _bound_cores(job, call))
        if kind and taken:
            problem = f"core {taken[0]} is reserved for the system on node type {kind.name}: no job may use it"
            full = job.ranks_per_node(call) == kind.gpus and kind.gpu_cores
            cure = f"--cpu-bind=mask_cpu:{','.join(cpu_masks(kind, kind.gpus))}" if full else "Remove these cores."
            yield call.line, problem, cure


def _bound_cores(job: ScriptContext, call: Call) -> set[int]:
    """Return the cores in the masks or the list of --cpu-bind."""
    masks = [int(mask, 16) for mask in _masks_of(job, call) if re.fullmatch(r"(?:0x)?[0-9a-fA-F]+", mask)]
    cores = {core for mask in masks for core in range(mask.bit_length()) if mask >> core & 1}
    option = job.option("cpu-bind", call=call)
    listed = re.search(r"map_cpu[:=]([\d,]+)", job.expand(option.value)) if option else None
    return cores | ({int(core) for core in listed[1].split(",") if core} if listed else set())


def refused_launchers(job: ScriptContext) -> dict[str, str]:
    """Return the launchers that the machine refuses or advises against, each with the reason."""
    return dict((*job.site.launcher.discouraged, *job.site.launcher.refused))


def rule_refused_launcher(job: ScriptContext) -> Iterator[Fault]:
    refused = refused_launchers(job)
    for call in job.distributed:
        for name in launchers_of(call):
            if name in refused:
                cure = "Let srun start the ranks, one per task."
                yield call.line, f"{name} on {job.site.name}: {refused[name]}", cure


def rule_launcher_tasks(job: ScriptContext) -> Iterator[Fault]:
    for call in job.distributed:
        each = job.ranks_per_node(call)
        for name in launchers_of(call):
            if call.srun is not None and each and each > 1 and name not in refused_launchers(job):
                problem = f"{name} starts all ranks of its node, but srun starts it {each} times per node"
                yield call.line, problem, f"#SBATCH --ntasks-per-node=1, or remove {name}."


def rule_early_expansion(job: ScriptContext) -> Iterator[Fault]:
    for command in job.script.commands:
        if not any(word.plain.rpartition("/")[2] == "srun" for word in command.words):
            continue
        numbered = _NUMBERS_NODES.search(" ".join(word.text for word in command.words))
        for word in () if numbered else command.words:
            early = [name for name in _OF_A_TASK if is_unescaped(word.text, name)]
            if early:
                problem = f"${early[0]} is expanded by the batch shell, before srun: all ranks get 0"
                yield word.line, problem, "Read RANK, LOCAL_RANK and NODE_RANK in your program."
        early = [name for name in _OF_A_TASK for file in command.outputs if f"${name}" in file]
        if early:
            problem = f"${early[0]} in the file name is expanded by the batch shell: all ranks write to one file"
            yield command.words[0].line, problem, "srun --output=%x-%j-%t.log writes one file for each task."


def rule_rank_of_batch(job: ScriptContext) -> Iterator[Fault]:
    ranks = {variable.line for call in job.calls for variable in call.variables if "RANK" in variable.name}
    for call in job.calls:
        if (
            call.inner
            or call.srun is not None
            or call.places & {"function", "branch"}
            or call.line in ranks
            or call.name in ("echo", "printf")
        ):
            continue
        for word in call.words:
            early = [name for name in _OF_A_TASK if is_unescaped(word.text, name)]
            harmless = re.search(r"VISIBLE|=[\"']?/tmp/.*SLURM_NODEID", word.text) or _NUMBERS_NODES.search(word.text)
            if early and not harmless:
                problem = f"${early[0]} is 0 in the batch script, which runs once, on the first node"
                yield word.line, problem, "Read it in the step: srun bash -c '...' in single quotes."


def rule_device_of_rank(job: ScriptContext) -> Iterator[Fault]:
    steps = {call.line for call in job.steps}
    for call in (call for call in job.calls if call.line in steps):  # what a shell in a step starts, too
        bound = job.option("gpu-bind", call=call)
        ours = call.name == "conda-python-distributed" and job.site.gpu.per_rank == "one"
        free = "gpu-bind=none" in job.text
        alone = (
            ours or (job.number("gpus-per-task", call=call) == 1 and not free) or (bound and "single:1" in bound.value)
        )
        found = re.search(
            r"(?:--(?:gpu|device|local[-_]rank)[= ]|\bcuda:)\\?\$\{?(?:SLURM_LOCALID|LOCAL_RANK)\b", call.arguments()
        )
        if alone and found:
            steps.discard(call.line)
            problem = "each rank of this step sees one device, number 0"
            cure = "Use device 0" + ("." if ours else ", or request --gpus-per-node instead of --gpus-per-task.")
            yield call.line, problem, cure
