"""Rules for batch scripts: what starts the ranks, where they connect, and what each of them gets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from hpcmod.jobs.values.masks import cpu_masks
from hpcmod.lint.jobs.reading.calls import Call, Variable
from hpcmod.lint.jobs.reading.context import GPU_OPTIONS, Fault, ScriptContext, is_distributed, is_read, launchers_of
from hpcmod.lint.jobs.reading.names import READ, SERIAL, TOOLS
from hpcmod.lint.jobs.rules.container import module_variable

_OF_A_TASK = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")
_NUMBERS_NODES = re.compile(r"--rdzv[-_]backend[= ]+[\"']?(?:c10d|etcd)")
"""Torchrun then numbers the nodes itself, and ignores --node-rank."""
_STARTERS = {"srun", "ssh", "pdsh", "clush", "parallel"}
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
_INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME")
_OWN_RANKS = re.compile(
    r"lightning|--deepspeed|--gpus\b.*--nodes\b|\bnum[-_]nodes|--devices\b|mpi4py|submitit|horovod|SLURM_PROCID|"
    r"SLURM_LOCALID|PMI_RANK|OMPI_COMM|\bjax|\bRANK=|--rank\b|--machine_rank|ray start|tensorflow|keras|TF_CONFIG|"
    r"megatron|modulus|idr_torch",
    re.IGNORECASE,
)  # signs that a program, or something in the script, determines the rank itself
_OF_ONE = re.compile(r"plot|prepare|preproc|download|convert|tokeniz|check|test_|export|print|info", re.IGNORECASE)
"""Names of programs that do not train."""
_TRAINS = re.compile(r"train|mnist|finetun|imagenet|resnet|cifar|ddp", re.IGNORECASE)
_ON_THE_HOST = {"srun", "sbatch", "scontrol", "squeue", "scancel", "sacct", "sbcast", "salloc", "sinfo", "module", "ml"}
_ADVICE = {
    "srun": 'Reverse the order: srun ... singularity exec "$SIF" program',
    "module": "Remove it: the container has what the program needs. Load modules before srun.",
}
_DEVICE_OF_RANK = re.compile(r"(?:--(?:gpu|device|local[-_]rank)[= ]|\bcuda:)\\?\$\{?(?:SLURM_LOCALID|LOCAL_RANK)\b")
_CALLED = re.compile(r"^'[^']*[`(]\s*(scontrol|squeue)\b|\\(?:`|\$\()\s*(scontrol|squeue)\b")
"""What the batch shell does not expand."""
_STARTS_RANKS = re.compile(
    r"srun|mpi|i?brun\b|aprun|prun\b|ssh|NODELIST|NODEFILE|hosts|NTASKS|NPROCS|NNODES|NUM_NODES|launch|distributed|"
    r"deepspeed|accelerate|parallel\b|snakemake|nextflow|\bray\b|dask|spark|sbatch|\base\b|vasp|deepy|"
    r"(?:run_|submit|workflow)\w*\.py",
    re.IGNORECASE,
)  # signs that something starts several programs, or reads how many were requested
_ON_ONE_NODE = re.compile(r"python[\d.]*|bwa.*|hisat2.*|bowtie2?.*|bismark.*|TransDecoder.*|.*\.(?:out|x|exe)")
_SETUP = TOOLS | {"", *re.findall(r"\w+", "conda mamba deactivate git pip pip3 nvcc shopt scp rmmod paste virtualenv")}
MPIRUN = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun")


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
            yield variable.line, f"MASTER_ADDR={variable.value}: {problem}", cure


def rule_changing_port(job: ScriptContext) -> Iterator[Fault]:
    for variable, _ in job.settings:
        value = job.expand(variable.value)
        problem = next((problem for pattern, problem in _PORTS if re.fullmatch(pattern, value)), "")
        if variable.in_step and re.search(_OF_EACH_RANK, value):
            problem = "every rank has a different port, and they do not connect"
        if variable.name.endswith("MASTER_PORT") and problem:
            cure = "export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000)), before srun."
            yield variable.line, f"MASTER_PORT={variable.value}: {problem}", cure


def rule_mask_reserved(job: ScriptContext) -> Iterator[Fault]:
    kind = job.node_type
    for call in job.steps if kind else ():
        option = job.option("cpu-bind", call=call)
        name, _, bound = job.expand(option.value if option else "").partition("_cpu")
        given = [int(text, 16 if name == "mask" else 10) for text in re.findall(r"\b(?:0x)?([0-9a-fA-F]+)\b", bound)]
        reserved = kind.reserved_cores if kind else ()
        taken = [core for core in reserved for one in given if (one >> core & 1 if name == "mask" else one == core)]
        if kind and taken:
            problem = f"core {taken[0]} is reserved for the system on node type {kind.name}: no job may use it"
            full = job.ranks_per_node(call) == kind.gpus and kind.gpu_cores
            cure = f"--cpu-bind=mask_cpu:{','.join(cpu_masks(kind, kind.gpus))}" if full else "Remove these cores."
            yield call.line, problem, cure


def rule_refused_launcher(job: ScriptContext) -> Iterator[Fault]:
    unwanted = job.site.launcher.unwanted
    for call in filter(is_distributed, job.calls):
        for name in unwanted.keys() & launchers_of(call):
            yield call.line, f"{name} on {job.site.name}: {unwanted[name]}", "Let srun start the ranks, one per task."


def rule_launcher_tasks(job: ScriptContext) -> Iterator[Fault]:
    for call in filter(is_distributed, job.calls):
        each = (job.ranks_per_node(call) or 1) if call.srun is not None else 1
        for name in launchers_of(call) if each > 1 else ():
            if name not in job.site.launcher.unwanted:
                problem = f"{name} starts all ranks of its node, but srun starts it {each} times per node"
                given = "srun" if call.of_srun("ntasks-per-node") else "#SBATCH"
                yield call.line, problem, f"Write {given} --ntasks-per-node=1, or remove {name}."


def rule_early_expansion(job: ScriptContext) -> Iterator[Fault]:
    names = [*_OF_A_TASK]
    for call in job.own if job.several_nodes or (job.ranks() or 1) > 1 else ():
        copies = not call.srun and not call.places and any(is_read(call.words[-1].text, name) for name in names)
        copied = [variable.name for variable in call.variables if copies and len(call.variables) == 1]
        names += [name for name in copied if len(re.findall(rf"\b{name}=", job.body)) == 1]
    for command in job.script.commands:
        if not any(word.name == "srun" for word in command.words):
            continue
        numbered = _NUMBERS_NODES.search(" ".join(word.text for word in command.words))
        for name in names:
            for word in command.words:
                if not numbered and is_read(word.text, name):
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


def _seen(variable: Variable) -> str:
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
        elif variable.exported and variable.name not in READ and f"${variable.name}" not in job.text:
            for right in get_close_matches(variable.name, READ, 1, 0.93):
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
    tasks = job.ranks() or 0
    for call in (call for call in job.own if call.name in MPIRUN and not re.search("oversub|-host|-machine", job.body)):
        number = re.match(r"\S+ (?:--?[a-z-]+ )??-(?:np?|c) (\d+) ", call.arguments())
        if number and int(number[1]) > tasks > 0 and call.srun is None and not job.option("overcommit"):
            problem = f"{number[1]} ranks in a job of {tasks} task{'s' * (tasks > 1)}: Open MPI refuses to start them"
            yield call.line, problem, f"Request --ntasks={number[1]}."
            return


def rule_idle_tasks(job: ScriptContext) -> Iterator[Fault]:
    option, nodes, partition = (job.option(name) for name in ("ntasks", "nodes", "partition"))
    most = (job.number("nodes") or 0) * (job.number("ntasks-per-node") or 0)
    if option and 0 < (job.number("ntasks") or 0) < most:
        yield option.line, f"{option.value} tasks on nodes for {most}: --ntasks sets the total", "Remove --ntasks."
    programs = [call for call in job.calls if call.name not in _SETUP]
    placed = job.option("nodes", "ntasks-per-node", "exclusive", "gpus-per-task", "nodelist", "mincpus")
    by_core = partition and partition.value in ("core", "node", "devcore")  # of UPPMAX: on one node
    started = _STARTS_RANKS.search(re.sub(r"(?m)^[ \t]*(?:echo|printf|module|ml)\b[^>\n]*$", "", job.body))
    apart = len(programs) > 1 and any(call.background for call in programs)
    known = all(call.name in SERIAL or _ON_ONE_NODE.fullmatch(call.name) for call in programs)
    total = rf"\b{(job.number('nodes') or 1) * (job.number('ntasks-per-node') or 1)}\b"
    counts = nodes and job.option("ntasks-per-node") and any(re.search(total, call.arguments()) for call in programs)
    if not programs or started or apart or not known or counts:
        return
    kind = job.node_type
    own = job.option("ntasks-per-node") and (kind.gpus if kind else job.asks_for_gpus())  # a framework that finds ranks
    if nodes and (job.number("nodes") or 1) > 1 and not own and not any(call.container for call in programs):
        problem = f"{nodes.value} nodes, but {programs[-1].name} runs once, on the first"
        yield nodes.line, problem, "Write --nodes=1; for ranks on all nodes, srun before it."
    if option and (tasks := job.number("ntasks") or 1) > 1 and not (placed or by_core):
        problem = f"{tasks} tasks, perhaps on several nodes, but {programs[-1].name} runs once, on the first"
        yield option.line, problem, f"For threads, write --ntasks=1 --cpus-per-task={tasks}; for ranks, srun before it."


def rule_too_many_workers(job: ScriptContext) -> Iterator[Fault]:
    for call in (call for call in job.calls if launchers_of(call)):
        text = job.expand(call.arguments())
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
