"""Rules for batch scripts: what starts the ranks, how many there are, and what each of them gets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.lint.jobs.reading.calls import RUNTIMES, Call
from hpcmod.lint.jobs.reading.look import GPU_OPTIONS, Fault, Rule, ScriptContext, launchers_of

_OWN_RANKS = re.compile(
    r"lightning|--deepspeed|--gpus\b.*--nodes\b|--num[-_]nodes|--devices\b|mpi4py|submitit|horovod|SLURM_PROCID|SLURM_LOCALID|PMI_RANK|OMPI_COMM|\bjax|\bRANK=|--rank\b|"
    r"--machine_rank|ray start|tensorflow|\bSIFTENSORFLOW|keras|TF_CONFIG|megatron|idr_torch",
    re.IGNORECASE,
)
"""Signs that a program, or something in the script, determines the rank itself."""
_OF_ONE = re.compile(r"plot|prepare|preproc|download|convert|tokeniz|check|test_|export|print|info", re.IGNORECASE)
"""Names of programs that do not train."""
_TRAINS = re.compile(r"train|mnist|finetun|imagenet|resnet|cifar|ddp", re.IGNORECASE)
_ON_THE_HOST = {
    "srun": "srun", "sbatch": "sbatch", "scontrol": "scontrol", "squeue": "squeue", "scancel": "scancel",
    "sacct": "sacct", "sbcast": "sbcast", "salloc": "salloc", "sinfo": "sinfo",
    "module": "module", "ml": "module",
}  # fmt: skip


def is_python(call: Call) -> bool:
    """Return whether a call starts a Python script or module."""
    return bool(re.fullmatch(r"python[\d.]*|conda-python-simple", call.name)) and not re.search(
        r"\s(?:-c|-V|--version)\b|-m\s+(?:pip|venv|json)", " " + call.arguments()
    )


def _no_ranks(look: ScriptContext) -> Iterator[Fault]:
    if _OWN_RANKS.search(look.text) or look.sources:
        return
    for call in look.calls:
        if call.srun is None or not call.container or not is_python(call) or "--launcher" in call.arguments():
            continue
        script = next((word.plain for word in call.program[1:] if word.plain.endswith(".py")), "")
        ranks = look.ranks(call) or 1
        trains = look.asks_for_gpus(call) or _TRAINS.search(script)
        if ranks < 2 or not trains or launchers_of(call) or _OF_ONE.search(script) or call.wrappers:
            continue
        what = f"{ranks} tasks start {call.name}, but their ranks are not set: each trains alone, as rank 0"
        yield call.line, what, _start_by(call)


def _start_by(call: Call) -> str:
    program = call.arguments().partition(" ")[2]
    if call.container and call.container.image and "SIF" in call.container.image.text:
        return f"Start it by the module's run script: conda-python-distributed {program}"
    ranks = "RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS"
    return f"Set them in each task: bash -c '{ranks} exec {call.name} {program}'; export MASTER_ADDR and MASTER_PORT."


def _nothing_in_container(look: ScriptContext) -> Iterator[Fault]:
    for call in () if look.placeholders else look.calls:
        if (
            call.container
            and call.container.verb == "exec"
            and call.container.image
            and not call.program
            and not call.inner
        ):
            image = call.container.image.plain
            what = f"exec without a program: it fails, and later lines do not run in {image}"
            yield call.line, what, "Put the program after the image, on the same line."


def _host_command(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        if not call.container:
            continue
        where = {_ON_THE_HOST[call.name]: call.program[0].line} if call.name in _ON_THE_HOST else {}
        for word in () if call.inner else call.program:  # what the batch shell does not expand
            if found := re.search(r"^'[^']*[`(]\s*(scontrol|squeue)\b|\\(?:`|\$\()\s*(scontrol|squeue)\b", word.text):
                where[found[1] or found[2]] = word.line + word.text.count("\n", 0, found.end())
        for tool, line in where.items():
            yield line, f"{tool} is a command of the host, which is missing in the container", _outside(tool)


def _outside(tool: str) -> str:
    if tool == "srun":
        return 'Reverse the order: srun ... singularity exec "$SIF" program'
    if tool == "module":
        return "Remove it: the container has what the program needs. Load modules before srun."
    return "Call it before srun, and export its output."


def _mpirun(look: ScriptContext) -> Iterator[Fault]:
    for call in look.calls:
        name = call.name
        if name not in ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun"):
            continue
        several = (look.nodes(call) or 1) > 1
        if call.srun is not None and (look.ranks(call) or 1) > 1:
            what = f"srun starts {look.ranks(call)} tasks, and each starts {name}: as many separate jobs"
            yield call.program[0].line, what, f"Remove {name} and its options: srun starts the ranks."
        elif call.srun is None and _starts_container(call) and not _has_mpi(look):
            what = f"{name} is not available: no MPI module is loaded, and {look.site.name} starts ranks with srun"
            yield call.program[0].line, what, f"srun {_behind(call)}"
        elif call.container and several:
            what = f"{name} in the container cannot start ranks on other nodes: all run on the first"
            yield call.program[0].line, what, f"Write srun before {call_of(call)}, and remove {name}."


def _starts_container(call: Call) -> bool:
    return not call.container and any(word.plain.rpartition("/")[2] in RUNTIMES for word in call.program)


def _behind(call: Call) -> str:
    words = [word.text for word in call.program]
    at = next(at for at, word in enumerate(words) if word.rpartition("/")[2] in RUNTIMES)
    return " ".join(words[at:])


def _has_mpi(look: ScriptContext) -> bool:
    return look.site.launcher.kind != "srun" or look.sources or any("mpi" in name.lower() for _, name in look.loads)


def call_of(call: Call) -> str:
    """Return the runtime's name as the script calls it."""
    names = (word.plain.rpartition("/")[2] for word in call.words)
    return next((name for name in names if name in ("singularity", "apptainer")), "singularity")


def _with_counts(look: ScriptContext, call: Call) -> str:
    """Return the arguments with variables replaced that Slurm sets from the job's options."""
    each = look.number("ntasks-per-node", "tasks-per-node")
    text = look.expand(call.arguments())
    return re.sub(r"\$\{?SLURM_NTASKS_PER_NODE\}?", str(each), text) if each else text


def _workers(look: ScriptContext) -> Iterator[Fault]:
    kind = look.node_type()
    for call in look.calls:
        if not launchers_of(call):
            continue
        text = _with_counts(look, call)
        found = re.search(r"--(?:nproc[-_]per[-_]node|num_gpus)[= ](\d+)\b", text)
        given = look.gpus_per_node(call) or (kind.gpus if kind else 0)
        if found and given and int(found[1]) > given:
            what = f"{found[1]} workers, but each node of the job has {given} GPU{'s' * (given > 1)}"
            yield (call.program or call.words)[0].line, what, f"Write {found[0].replace(found[1], str(given))}."
        elif (
            found
            and given > int(found[1]) == 1
            and look.option(*GPU_OPTIONS, call=call)
            and (look.ranks_per_node(call) or 1) == 1
        ):
            what = f"1 worker on each node with {given} GPUs: {given - 1} of them stay idle"
            yield (call.program or call.words)[0].line, what, f"Write {found[0][:-1]}{given}."


def _ranks_and_gpus(look: ScriptContext) -> Iterator[Fault]:
    option = look.option(*GPU_OPTIONS)
    for call in look.ranked:
        each, gpus = look.ranks_per_node(call), look.gpus_per_node(call)
        if not each or not gpus or launchers_of(call) or "--launcher" in call.arguments():
            continue
        shared = look.option("gpus-per-task", call=call)
        if each > gpus and option and not shared:
            counted = f" (--{option.name}={option.value} counts all nodes)" if option.name == "gpus" else ""
            what = f"{each} ranks on each node share {gpus} GPUs{counted}"
            yield option.line, what, f"Write --gpus-per-node={each}, or --ntasks-per-node={gpus}."
            return


def _paid_gpus(look: ScriptContext) -> Iterator[Fault]:
    kind, asked, partition = look.node_type(), look.gpus_per_node(), look.option("partition")
    option = look.option(*GPU_OPTIONS)
    if kind and asked and option and partition and partition.value in look.site.job.exclusive and asked < kind.gpus:
        if look.option("gpus-per-task"):
            return
        shared = [name for name in kind.partitions if name not in look.site.job.exclusive]
        what = f"{partition.value} gives whole nodes: {kind.gpus - asked} GPUs of each stay idle, but are billed"
        cure = f"Request all {kind.gpus}, or use a partition with shared nodes: {', '.join(shared)}."
        yield option.line, what, cure


def _no_cpus(look: ScriptContext) -> Iterator[Fault]:
    if "SRUN_CPUS_PER_TASK" in look.names or look.whole_nodes():
        return
    for call in look.calls:
        asked = look.option("cpus-per-task", "cpus-per-gpu", "cpu-bind", "cpu_bind", "cores-per-socket", call=call)
        kind = look.node_type()
        if call.srun is None or asked or not kind or not kind.gpus or not look.asks_for_gpus(call):
            continue
        if not (launchers_of(call) or call in look.ranked):
            continue
        gpus, ranks = look.gpus_per_node(call) or 1, look.ranks_per_node(call) or 1
        share = max(kind.cores // kind.gpus * gpus // ranks, 1) if kind.cores else 0
        if share < 2:
            continue
        what = "without --cpus-per-task, each task has one CPU for its program, its workers and its data loaders"
        yield call.line, what, f"#SBATCH --cpus-per-task={share}, and the same option for srun"
        return


def _gpus_not_asked(look: ScriptContext) -> Iterator[Fault]:
    kind, needed = look.node_type(), [flag for flag in look.site.launcher.srun if flag.startswith("--gpus")]
    if not kind or not kind.gpus or any(look.option(*GPU_OPTIONS, call=call) for call in (None, *look.steps)):
        return
    for call in look.calls:
        flags = {option.name for option in call.container.options} if call.container else set()
        meant = flags & {"nv", "rocm"} and (is_python(call) or launchers_of(call) or look.is_distributed(call))
        if needed and call.srun is not None and meant:
            what = f"srun requests no GPUs, and on {look.site.name} a step only gets those that it requests"
            yield call.line, what, f"srun {' '.join(look.site.launcher.srun)} ..."
            return
        if look.site.job.gpus and meant and call not in look.distributed:
            cure = f"Add #SBATCH {look.site.job.gpus.format(gpus=1)}."
            yield call.line, "the container needs GPUs, but the job requests none", cure
            return


RULES: dict[str, Rule] = {
    "no-ranks": _no_ranks,
    "nothing-in-container": _nothing_in_container,
    "host-command": _host_command,
    "mpirun": _mpirun,
    "too-many-workers": _workers,
    "shared-gpus": _ranks_and_gpus,
    "billed-gpus": _paid_gpus,
    "no-cpus": _no_cpus,
    "gpus-not-asked": _gpus_not_asked,
}
