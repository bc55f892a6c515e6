"""Rules for batch scripts: how ranks are started, where they meet, and which cores and GPUs they get."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.check.jobs.calls import Call
from hpcmod.check.jobs.look import LAUNCHERS, Fault, Look, Rule, is_unescaped
from hpcmod.model.jobs.masks import cpu_masks

_NOTHING_TO_SET = "Leave it out: conda-python-distributed sets it, right on every rank."
_OF_A_TASK = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")
_RANK_VARIABLES = re.compile(
    r"(?:SINGULARITYENV_|APPTAINERENV_)?(?:RANK|LOCAL_RANK|NODE_RANK|\w+_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL)"
)
_ONE_DEVICE = re.compile(r"\d+|.*SLURM_(?:PROCID|LOCALID).*")


def _no_srun(look: Look) -> Iterator[Fault]:
    nodes, ranks = look.nodes() or 1, look.ranks() or 1
    for call in look.calls:
        meant = look.is_distributed(call) or (call.container and call.name.startswith("python") and not _has_step(look))
        if call.srun is not None or not meant or (ranks < 2 and nodes < 2):
            continue
        what = f"runs once, in the batch script, although the job has {max(ranks, nodes)} tasks"
        yield call.line, what, "Put srun before it."


def _has_step(look: Look) -> bool:
    """Say whether anything starts ranks, be it behind another program: timeout 3000 srun."""
    words = (word.plain.rpartition("/")[2] for command in look.script.commands for word in command.words)
    return any(word in ("srun", "mpirun", "mpiexec") for word in words)


FIXED_PORTS = (
    r"\bMASTER_PORT=[\"']?(\d{4,5})\b",
    r"--master[-_]port[= ](\d{4,5})\b",
    r"--main[-_]process[-_]port[= ](\d{4,5})\b",
    r"--rdzv[-_]endpoint[= ].*:(\d{4,5})\b",
    r"(?:dist|init|rdzv|rendezvous|master)[-_]?\w*[= ]+[\"']?tcp://.*:(\d{4,5})\b",
)
"""Ways to say where ranks meet that name one port for every job."""


def _fixed_port(look: Look) -> Iterator[Fault]:
    for number, line in enumerate(look.script.lines, 1):
        code = re.sub(r"(?:^|\s)#.*", "", line)
        found = next((match for pattern in FIXED_PORTS if (match := re.search(pattern, code))), None)
        if found:
            what = f"port {found[1]} is the same for every job: two jobs or steps on one node meet, and both fail"
            yield number, what, "Leave it out: conda-python-distributed makes one from the job and the step."


def _master_addr(look: Look) -> Iterator[Fault]:
    several = max([look.nodes() or 1, *(look.nodes(call) or 1 for call in look.steps)]) > 1
    for call in look.calls:
        for variable in call.variables:
            if variable.name.endswith("MASTER_ADDR") and (
                what := _wrong_address(variable.value, several=several, in_step=variable.in_step)
            ):
                yield variable.line, f"MASTER_ADDR={variable.value}: {what}", _NOTHING_TO_SET


def _wrong_address(value: str, *, several: bool, in_step: bool) -> str:
    if several and re.fullmatch(r"localhost|127\.0\.0\.1|::1|0\.0\.0\.0", value):
        return "each node would wait for ranks of its own"
    if several and in_step and re.search(r"\bhostname\b", value) and "scontrol" not in value:
        return "each node would name itself"
    if re.fullmatch(r"\$\{?SLURM_(?:JOB_|STEP_)?NODELIST\b[^|]*", value):
        return "a host list is no host: nid[001-002]"
    return "one node of one job, written down" if re.fullmatch(r"[a-z]+\d+", value) else ""


_SLEEP = re.compile(r"(?:^|[;&|\s])sleep\s+[\d.]+[smhd]?(?![\w$.])")
"""For a time that is written down; one that differs by rank keeps ranks apart."""


def _sleep(look: Look) -> Iterator[Fault]:
    for call in look.calls:
        inside = [word for word in call.program if _SLEEP.search(word.plain)]
        # Behind the ranks, as a monitor of theirs, it is right.
        if call.srun is not None and not call.background and (inside or _SLEEP.match(call.arguments())):
            what = "sleep does not make ranks meet: it is too long for small jobs and too short for big ones"
            yield (
                (inside[0].line if inside else call.line),
                what,
                "Leave it out: ranks wait for each other by themselves.",
            )


def _masks_of(look: Look, call: Call) -> list[str]:
    for option in call.srun or ():
        found = re.match(r"(?:verbose,|quiet,)?mask_cpu[:=](.+)", look.expand(option.value))
        if option.name in ("cpu-bind", "cpu_bind") and found:
            return found[1].split(",")
    return []


def _mask_count(look: Look) -> Iterator[Fault]:
    for call in look.steps:
        masks, ranks = _masks_of(look, call), look.ranks_per_node(call)
        if masks and ranks and len(masks) < ranks and not masks[0].startswith("$"):
            what = (
                f"{len(masks)} masks for {ranks} ranks a node: Slurm begins again with the first, and ranks share cores"
            )
            yield call.line, what, "One mask a rank; `hpcmod job` computes them."


def _mask_order(look: Look) -> Iterator[Fault]:
    kind = look.node_type()
    if not kind or not kind.gpu_cores:
        return
    for call in look.steps:
        masks = _masks_of(look, call)
        if len(masks) != kind.gpus or not all(re.fullmatch(r"(?:0x)?[0-9A-Fa-f]+", mask) for mask in masks):
            continue
        near = [int(mask, 16) for mask in cpu_masks(kind, kind.gpus)]
        wrong = [rank for rank, mask in enumerate(masks) if int(mask, 16) & near[rank] == 0]
        if wrong:
            what = f"the cores of local rank {wrong[0]} are far from its GPU on node type {kind.name}"
            yield call.line, what, f"--cpu-bind=mask_cpu:{','.join(cpu_masks(kind, kind.gpus))}"


def _launchers_of(call: Call) -> list[str]:
    """Name the launchers that a call starts: as its program, or through the run script."""
    started = [word.plain.rpartition("/")[2] for word in call.program[:2]]
    asked = re.findall(r"--launcher[= ](\w+)", call.arguments()) if started[:1] == ["conda-python-distributed"] else []
    return [name for name in LAUNCHERS if name in started + asked]


def _refused_launcher(look: Look) -> Iterator[Fault]:
    refused = dict((*look.site.launcher.discouraged, *look.site.launcher.refused))
    for call in look.distributed:
        for name in _launchers_of(call):
            if name in refused:
                yield call.line, f"{name} on {look.site.name}: {refused[name]}", "Let srun start the ranks, one a task."


def _launcher_tasks(look: Look) -> Iterator[Fault]:
    for call in look.distributed:
        each = look.ranks_per_node(call)
        for name in _launchers_of(call):
            if call.srun is not None and each and each > 1:
                what = f"{name} starts the ranks of its node itself, and srun starts it {each} times on each"
                yield call.line, what, f"#SBATCH --ntasks-per-node=1, or leave {name} out."


def _rank_in_batch(look: Look) -> Iterator[Fault]:
    for call in look.calls:
        for variable in call.variables:
            if variable.in_step or not _RANK_VARIABLES.fullmatch(variable.name):
                continue
            if "RANK" in variable.name or (_ONE_DEVICE.fullmatch(variable.value) and not _is_one_a_node(look)):
                what = f"{variable.name} is set once, in the batch script: all ranks get {variable.value or 'nothing'}"
                yield variable.line, what, _NOTHING_TO_SET


def _is_one_a_node(look: Look) -> bool:
    return {look.ranks_per_node(call) for call in look.steps or (None,)} == {1}


def _early_expansion(look: Look) -> Iterator[Fault]:
    for command in look.script.commands:
        if not any(word.plain.rpartition("/")[2] == "srun" for word in command.words):
            continue
        for word in command.words:
            early = [name for name in _OF_A_TASK if is_unescaped(word.text, name)]
            if early:
                what = f"${early[0]} is replaced by the batch shell, before srun: all ranks get 0"
                yield word.line, what, "Read RANK, LOCAL_RANK and NODE_RANK in your program."


def _device_of_rank(look: Look) -> Iterator[Fault]:
    for call in look.steps:
        alone = look.number("gpus-per-task", call=call) == 1 or "single:1" in getattr(
            look.option("gpu-bind", call=call), "value", ""
        )
        found = re.search(r"--(?:gpu|device|local[-_]rank)[= ]\\?\$\{?(?:SLURM_LOCALID|LOCAL_RANK)\b", call.arguments())
        if alone and found:
            what = "with one GPU a task each rank sees one device, number 0"
            yield call.line, what, "Take device 0, or leave out --gpus-per-task and ask for --gpus-per-node."


RULES: dict[str, Rule] = {
    "no-srun": _no_srun,
    "fixed-port": _fixed_port,
    "master-addr": _master_addr,
    "sleep": _sleep,
    "mask-count": _mask_count,
    "mask-order": _mask_order,
    "refused-launcher": _refused_launcher,
    "launcher-tasks": _launcher_tasks,
    "rank-in-batch": _rank_in_batch,
    "early-expansion": _early_expansion,
    "device-of-rank": _device_of_rank,
}
