"""Rules for batch scripts: how ranks are started, where they connect, and which cores and GPUs they get."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.jobs.values.masks import cpu_masks
from hpcmod.lint.jobs.reading.calls import Call
from hpcmod.lint.jobs.reading.look import Fault, Rule, ScriptContext, is_unescaped, launchers_of

_FIRST_NODE = 'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1), before srun.'
_NOTHING_TO_SET = "Omit it: conda-python-distributed sets it correctly on every rank."
_OF_A_TASK = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")
_NUMBERS_NODES = re.compile(r"--rdzv[-_]backend[= ]+[\"']?(?:c10d|etcd)")
"""Torchrun then numbers the nodes itself, and ignores --node-rank."""


def _no_srun(look: ScriptContext) -> Iterator[Fault]:
    nodes, ranks = look.nodes() or 1, look.ranks() or 1
    for call in look.calls:
        meant = look.is_distributed(call) or (call.container and call.name.startswith("python") and not _has_step(look))
        told = call.name in ("srun", "ssh", "pdsh", "clush", "parallel") or "--hostfile" in call.arguments()
        if call.srun is not None or not meant or told or (ranks < 2 and nodes < 2):
            continue
        what = f"runs once, in the batch script, although the job has {max(ranks, nodes)} tasks"
        yield call.line, what, "Put srun before it."


def _has_step(look: ScriptContext) -> bool:
    """Return whether anything starts ranks, possibly after another program: timeout 3000 srun."""
    words = (word.plain.rpartition("/")[2] for command in look.script.commands for word in command.words)
    return any(word in ("srun", "mpirun", "mpiexec") for word in words)


def _master_addr(look: ScriptContext) -> Iterator[Fault]:
    several = max([look.nodes() or 1, *(look.nodes(call) or 1 for call in look.steps)]) > 1
    for call in look.calls:
        for variable in call.variables:
            if variable.name.endswith("MASTER_ADDR") and (
                what := _wrong_address(look.expand(variable.value), several=several, in_step=variable.in_step)
            ):
                yield variable.line, f"MASTER_ADDR={variable.value}: {what}", _cure(look)


def _cure(look: ScriptContext) -> str:
    ours = any(call.name == "conda-python-distributed" for call in look.calls)
    return _NOTHING_TO_SET if ours else _FIRST_NODE


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
    return next((what for pattern, what in tried if re.fullmatch(pattern, value, re.DOTALL)), "")


def _changing_port(look: ScriptContext) -> Iterator[Fault]:
    for call in (*look.calls, *look.written):
        for variable in call.variables:
            value = look.expand(variable.value)
            what = _wrong_port(value, in_step=variable.in_step) if variable.name.endswith("MASTER_PORT") else ""
            if what:
                yield variable.line, f"MASTER_PORT={variable.value}: {what}", _port_cure(look)


def _port_cure(look: ScriptContext) -> str:
    ours = any(call.name == "conda-python-distributed" for call in look.calls)
    return _NOTHING_TO_SET if ours else "export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000)), before srun."


def _wrong_port(value: str, *, in_step: bool) -> str:
    if in_step and re.search(r"RANDOM|shuf|\.bind\(|SLURM_(?:PROCID|LOCALID|NODEID)|\bss\b|netstat", value):
        return "every rank has a different port, and they do not connect"
    if re.fullmatch(r"\$\{?RANDOM\}?", value):
        return "sometimes below 1024, where only root may listen, or a port in use"
    if re.fullmatch(r"\$\{?SLURM_JOB_?ID\}?", value):
        return "job IDs exceed 65535, the highest port"
    if re.fullmatch(r"\$\(\(\s*\$?\{?SLURM_JOB_?ID\}?\s*%\s*\d+\s*\)\)", value):
        return "sometimes below 1024, where only root may listen"
    return "only root may listen on it" if value.isdecimal() and int(value) < 1024 else ""


def _masks_of(look: ScriptContext, call: Call) -> list[str]:
    for option in call.srun or ():
        found = re.match(r"(?:verbose,|quiet,)?mask_cpu[:=](.+)", look.expand(option.value))
        if option.name in ("cpu-bind", "cpu_bind") and found:
            return found[1].split(",")
    return []


def _mask_reserved(look: ScriptContext) -> Iterator[Fault]:
    for call in look.steps:
        kind = look.node_type()
        reserved = set(kind.reserved_cores) if kind else set()
        taken = sorted(reserved & _bound_cores(look, call))
        if kind and taken:
            what = f"core {taken[0]} is reserved for the system on node type {kind.name}: no job may use it"
            full = look.ranks_per_node(call) == kind.gpus and kind.gpu_cores
            cure = f"--cpu-bind=mask_cpu:{','.join(cpu_masks(kind, kind.gpus))}" if full else "Remove these cores."
            yield call.line, what, cure


def _bound_cores(look: ScriptContext, call: Call) -> set[int]:
    """Return the cores in the masks or the list of --cpu-bind."""
    masks = [int(mask, 16) for mask in _masks_of(look, call) if re.fullmatch(r"(?:0x)?[0-9a-fA-F]+", mask)]
    cores = {core for mask in masks for core in range(mask.bit_length()) if mask >> core & 1}
    option = look.option("cpu-bind", "cpu_bind", call=call)
    listed = re.search(r"map_cpu[:=]([\d,]+)", look.expand(option.value)) if option else None
    return cores | ({int(core) for core in listed[1].split(",") if core} if listed else set())


def refused_launchers(look: ScriptContext) -> dict[str, str]:
    """Return the launchers that the machine refuses or advises against, each with the reason."""
    return dict((*look.site.launcher.discouraged, *look.site.launcher.refused))


def _refused_launcher(look: ScriptContext) -> Iterator[Fault]:
    refused = refused_launchers(look)
    for call in look.distributed:
        for name in launchers_of(call):
            if name in refused:
                cure = "Let srun start the ranks, one per task."
                yield call.line, f"{name} on {look.site.name}: {refused[name]}", cure


def _launcher_tasks(look: ScriptContext) -> Iterator[Fault]:
    for call in look.distributed:
        each = look.ranks_per_node(call)
        for name in launchers_of(call):
            if call.srun is not None and each and each > 1 and name not in refused_launchers(look):
                what = f"{name} starts all ranks of its node, but srun starts it {each} times per node"
                yield call.line, what, f"#SBATCH --ntasks-per-node=1, or remove {name}."


def _early_expansion(look: ScriptContext) -> Iterator[Fault]:
    for command in look.script.commands:
        if not any(word.plain.rpartition("/")[2] == "srun" for word in command.words):
            continue
        numbered = _NUMBERS_NODES.search(" ".join(word.text for word in command.words))
        for word in () if numbered else command.words:
            early = [name for name in _OF_A_TASK if is_unescaped(word.text, name)]
            if early:
                what = f"${early[0]} is expanded by the batch shell, before srun: all ranks get 0"
                yield word.line, what, "Read RANK, LOCAL_RANK and NODE_RANK in your program."
        early = [name for name in _OF_A_TASK for file in command.outputs if f"${name}" in file]
        if early:
            what = f"${early[0]} in the file name is expanded by the batch shell: all ranks write to one file"
            yield command.words[0].line, what, "srun --output=%x-%j-%t.log writes one file for each task."


def _rank_of_the_batch_shell(look: ScriptContext) -> Iterator[Fault]:
    ranks = {variable.line for call in look.calls for variable in call.variables if "RANK" in variable.name}
    for call in look.calls:
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
                what = f"${early[0]} is 0 in the batch script, which runs once, on the first node"
                yield word.line, what, "Read it in the step: srun bash -c '...' in single quotes."


def _device_of_rank(look: ScriptContext) -> Iterator[Fault]:
    steps = {call.line for call in look.steps}
    for call in (call for call in look.calls if call.line in steps):  # what a shell in a step starts, too
        bound = look.option("gpu-bind", call=call)
        ours = call.name == "conda-python-distributed" and look.site.gpu.per_rank == "one"
        free = "gpu-bind=none" in look.text
        alone = (
            ours or (look.number("gpus-per-task", call=call) == 1 and not free) or (bound and "single:1" in bound.value)
        )
        found = re.search(
            r"(?:--(?:gpu|device|local[-_]rank)[= ]|\bcuda:)\\?\$\{?(?:SLURM_LOCALID|LOCAL_RANK)\b", call.arguments()
        )
        if alone and found:
            steps.discard(call.line)
            what = "each rank of this step sees one device, number 0"
            cure = "Use device 0" + ("." if ours else ", or request --gpus-per-node instead of --gpus-per-task.")
            yield call.line, what, cure


RULES: dict[str, Rule] = {
    "no-srun": _no_srun,
    "master-addr": _master_addr,
    "mask-reserved": _mask_reserved,
    "changing-port": _changing_port,
    "refused-launcher": _refused_launcher,
    "launcher-tasks": _launcher_tasks,
    "early-expansion": _early_expansion,
    "rank-of-batch": _rank_of_the_batch_shell,
    "device-of-rank": _device_of_rank,
}
