"""Rules for batch scripts: what starts the ranks, how many there are, and what each of them gets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.lint.jobs.reading.calls import Call
from hpcmod.lint.jobs.reading.context import GPU_OPTIONS, TOOLS, Fault, ScriptContext, is_distributed, launchers_of
from hpcmod.lint.jobs.rules.container import module_variable

_OWN_RANKS = re.compile(
    r"lightning|--deepspeed|--gpus\b.*--nodes\b|\bnum[-_]nodes|--devices\b|mpi4py|submitit|horovod|SLURM_PROCID|"
    r"SLURM_LOCALID|PMI_RANK|OMPI_COMM|\bjax|\bRANK=|--rank\b|--machine_rank|ray start|tensorflow|keras|TF_CONFIG|"
    r"megatron|modulus|idr_torch",
    re.IGNORECASE,
)
"""Signs that a program, or something in the script, determines the rank itself."""
_OF_ONE = re.compile(r"plot|prepare|preproc|download|convert|tokeniz|check|test_|export|print|info", re.IGNORECASE)
"""Names of programs that do not train."""
_TRAINS = re.compile(r"train|mnist|finetun|imagenet|resnet|cifar|ddp", re.IGNORECASE)
_ON_THE_HOST = {"srun", "sbatch", "scontrol", "squeue", "scancel", "sacct", "sbcast", "salloc", "sinfo", "module", "ml"}
_ADVICE = {
    "srun": 'Reverse the order: srun ... singularity exec "$SIF" program',
    "module": "Remove it: the container has what the program needs. Load modules before srun.",
}
_CALLED = re.compile(r"^'[^']*[`(]\s*(scontrol|squeue)\b|\\(?:`|\$\()\s*(scontrol|squeue)\b")
"""What the batch shell does not expand."""
_STARTS_RANKS = re.compile(
    r"srun|mpi|i?brun\b|aprun|prun\b|ssh|NODELIST|NODEFILE|hosts|NTASKS|NPROCS|NNODES|NUM_NODES|launch|distributed|"
    r"deepspeed|accelerate|parallel\b|snakemake|nextflow|\bray\b|dask|spark|sbatch|\base\b|vasp|(?:run|submit|workflow)\w*\.py",
    re.IGNORECASE,
)
"""Signs that something starts several programs, or reads how many were requested."""
_ON_ONE_NODE = re.compile(r"python[\d.]*|R|Rscript|matlab|gmx|STAR|bwa|hisat2|bowtie2|samtools|fastqc")
_SETUP = TOOLS | {"", "conda", "mamba", "deactivate", "git", "pip", "pip3", "nvcc"}
MPIRUN = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun")


def is_python(call: Call) -> bool:
    """Return whether a call starts a Python script or module."""
    tool = re.search(r" (?:-c|-V|--version)\b| -m +(?:pip|venv|json)", call.arguments())
    return re.fullmatch(r"python[\d.]*|conda-python-simple", call.name) is not None and not tool


def rule_no_ranks(job: ScriptContext) -> Iterator[Fault]:
    if _OWN_RANKS.search(job.text) or job.sources:
        return
    for call in (call for call in job.calls if call.srun is not None and call.container and is_python(call)):
        script = next((word.plain for word in call.program[1:] if word.plain.endswith(".py")), "")
        ranks = job.ranks(call) or 1
        trains = (job.asks_for_gpus(call) or _TRAINS.search(script)) and not _OF_ONE.search(script)
        started = launchers_of(call) or "--launcher" in call.arguments() or call.wrappers
        is_ours = module_variable(call) or "WORLD_SIZE" in job.names  # others start programs that find their rank
        if ranks > 1 and trains and is_ours and not started:
            problem = f"{ranks} tasks start {call.name}, and nothing sets RANK: each trains alone or reads SLURM_PROCID"
            ours = f"Start it by the run script: conda-python-distributed {call.arguments().partition(' ')[2]}"
            told = "RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS"
            theirs = f"In each task: bash -c '{told} exec {call.arguments()}'; export MASTER_ADDR and MASTER_PORT."
            yield call.line, problem, ours if module_variable(call) else theirs


def rule_host_command(job: ScriptContext) -> Iterator[Fault]:
    for call in (call for call in job.calls if call.container):
        defined = call.inner and re.search(r"sh +(?:-l\b|--login)|/init/\w*sh\b", job.text)
        has_it = defined and call.name in ("module", "ml")
        tools = {call.name: call.program[0].line} if call.name in _ON_THE_HOST and not has_it else {}
        for word in () if call.inner else call.program:
            if match := _CALLED.search(word.text):
                tools[match[1] or match[2]] = word.line + word.text.count("\n", 0, match.end())
        for tool, line in tools.items():
            name = "module" if tool == "ml" else tool
            problem = f"{name} is a command of the host, which is missing in the container"
            yield line, problem, _ADVICE.get(name, "Call it before srun, and export its output.")


def rule_mpirun(job: ScriptContext) -> Iterator[Fault]:
    for call in (call for call in job.calls if call.name in MPIRUN):
        name, line = call.name, call.program[0].line
        if call.srun is not None and (job.ranks(call) or 1) > 1:
            problem = f"srun starts {job.ranks(call)} tasks, and each starts {name}: as many separate jobs"
            yield line, problem, f"Remove {name} and its options: srun starts the ranks."
        elif call.container and (job.number("nodes", call=call) or 1) > 1:
            problem = f"{name} in the container cannot start ranks on other nodes: all run on the first"
            yield line, problem, f"Write srun before {call.runtime}, and remove {name}."


def rule_idle_tasks(job: ScriptContext) -> Iterator[Fault]:
    option, nodes, partition = (job.option(name) for name in ("ntasks", "nodes", "partition"))
    most = (job.number("nodes") or 0) * (job.number("ntasks-per-node") or 0)
    if option and 0 < (job.number("ntasks") or 0) < most:
        yield option.line, f"{option.value} tasks on nodes for {most}: --ntasks sets the total", "Remove --ntasks."
    programs = [call for call in job.calls if call.name not in _SETUP]
    placed = job.option("nodes", "ntasks-per-node", "exclusive", "gpus-per-task", "nodelist", "mincpus")
    by_core = partition and partition.value in ("core", "node", "devcore")  # of UPPMAX: on one node
    started = _STARTS_RANKS.search("\n".join(line for _, line in job.script.code))
    if not programs or started or any(call.background or not _ON_ONE_NODE.fullmatch(call.name) for call in programs):
        return
    each = job.option("ntasks-per-node", "tasks-per-node") or any(call.container for call in programs)
    if nodes and (job.number("nodes") or 1) > 1 and not each:
        yield nodes.line, f"{nodes.value} nodes, but {programs[-1].name} runs once, on the first", "Write --nodes=1."
    if option and (tasks := job.number("ntasks") or 1) > 1 and not (placed or by_core):
        problem = f"{tasks} tasks, perhaps on several nodes, but {programs[-1].name} runs once, on the first"
        yield option.line, problem, f"For threads, write --ntasks=1 --cpus-per-task={tasks}; for ranks, srun before it."


def rule_too_many_workers(job: ScriptContext) -> Iterator[Fault]:
    each = job.number("ntasks-per-node")
    for call in (call for call in job.calls if launchers_of(call)):
        text = job.expand(call.arguments())
        text = re.sub(r"\$\{?SLURM_NTASKS_PER_NODE\}?", str(each), text) if each else text
        workers = re.search(r"--(?:nproc[-_]per[-_]node|num_gpus)[= ](\d+)\b", text)
        given = job.gpus_per_node(call) or job.number("gpus") or (job.node_type.gpus if job.node_type else 0)
        if workers and given and int(workers[1]) > given:
            problem = f"{workers[1]} workers, but each node of the job has {given} GPU{'s' * (given > 1)}"
            yield call.program[0].line, problem, f"Write {workers[0].replace(workers[1], str(given))}."


def rule_shared_gpus(job: ScriptContext) -> Iterator[Fault]:
    option = job.option(*GPU_OPTIONS)
    for call in job.ranked if option else ():
        each, gpus = job.ranks_per_node(call) or 0, job.gpus_per_node(call) or 0
        apart = launchers_of(call) or "--launcher" in call.arguments() or job.option("gpus-per-task", call=call)
        if option and each > gpus > 0 and not apart:
            counted = f" (--{option.name}={option.value} counts all nodes)" if option.name == "gpus" else ""
            problem = f"{each} ranks on each node share {gpus} GPUs{counted}"
            yield option.line, problem, f"Write --gpus-per-node={each}, or --ntasks-per-node={gpus}."
            return


def rule_billed_gpus(job: ScriptContext) -> Iterator[Fault]:
    kind, asked, exclusive = job.node_type, job.gpus_per_node(), job.site.job.exclusive
    partition, option = job.option("partition"), job.option(*GPU_OPTIONS)
    if not kind or not partition or partition.value not in exclusive or job.option("gpus-per-task"):
        return
    if option and asked and asked < kind.gpus:
        shared = ", ".join(name for name in kind.partitions if name not in exclusive)
        problem = f"{partition.value} gives whole nodes: {kind.gpus - asked} GPUs of each stay idle, but are billed"
        yield option.line, problem, f"Request all {kind.gpus}, or use a partition with shared nodes: {shared}."


def rule_no_cpus(job: ScriptContext) -> Iterator[Fault]:
    kind = job.node_type
    if "SRUN_CPUS_PER_TASK" in job.names or job.whole_nodes or not kind or not kind.gpus:
        return
    told = ("cpus-per-task", "cpus-per-gpu", "cpu-bind", "cores-per-socket")
    for call in (call for call in job.calls if call.srun is not None and not job.option(*told, call=call)):
        trains = job.asks_for_gpus(call) and (launchers_of(call) or call in job.ranked)
        share = kind.cores // kind.gpus * (job.gpus_per_node(call) or 1) // (job.ranks_per_node(call) or 1)
        if trains and share > 1:
            problem = "without --cpus-per-task, each task has one CPU for its program, its workers and its data loaders"
            yield call.line, problem, f"#SBATCH --cpus-per-task={share}, and the same option for srun"
            return


def rule_gpus_not_asked(job: ScriptContext) -> Iterator[Fault]:
    kind, by_srun = job.node_type, any(flag.startswith("--gpus") for flag in job.site.launcher.srun)
    if not kind or not kind.gpus or any(job.option(*GPU_OPTIONS, call=call) for call in (None, *job.steps)):
        return
    for call in (call for call in job.calls if call.flags & {"nv", "rocm"}):
        trains = is_python(call) or launchers_of(call) or is_distributed(call)
        if by_srun and call.srun is not None and trains:
            problem = f"srun requests no GPUs, and on {job.site.name} a step only gets those that it requests"
            yield call.line, problem, f"srun {' '.join(job.site.launcher.srun)} ..."
            return
        if job.site.job.gpus and trains and not is_distributed(call):
            cure = f"Add #SBATCH {job.site.job.gpus.format(gpus=1)}."
            yield call.line, "the container needs GPUs, but the job requests none", cure
            return
