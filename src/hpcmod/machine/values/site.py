"""Facts about one machine: node types, directories, binds, settings, launcher and job rules."""

from __future__ import annotations

import re
from typing import NamedTuple

from hpcmod.core.values.trust import ANYTHING, TrustPolicy
from hpcmod.machine.values.bind import Bind
from hpcmod.machine.values.condition import ALWAYS, Condition

INSTALL_MODES = ("auto", "copy", "link", "central")
"""copy: a private copy; link: a hard link; central: the site's file in place; auto: the profile's mode, else copy."""

NETSTACK_MODES = ("auto", "swap", "off")
"""swap: the host's network libraries precede the image's; off: never; auto: the image's label decides."""

IN_CONTAINER = "/host/lib"
"""Where containers have the host's network libraries: HPE's images search this directory by default."""

RUNTIMES = ("singularity", "apptainer")
"""In the order that wrappers try them; Apptainer provides both names."""

BY_TASKS = "srun"
"""The launcher for which each rank is a task that the scheduler starts, whatever its own command is called."""

FABRICS = ("cxi", "efa", "ib")
"""Fast networks: providers of libfabric, or InfiniBand and RoCE through verbs."""

LAUNCHERS = (BY_TASKS, "torchrun", "deepspeed", "accelerate")
"""Programs that can start the ranks of a job."""

RAY = "ray"
"""The launcher that starts one program on a cluster of nodes, rather than ranks."""

HOST_PYTHON = (
    "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "LD_PRELOAD", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV",
    "CONDA_EXE", "CONDA_PYTHON_EXE", "CONDA_SHLVL", "CONDA_PROMPT_MODIFIER", "_CE_CONDA", "_CE_M",
)  # fmt: skip
"""Host variables that affect Python in the container: Apptainer passes all of them on (1.4.5, tested)."""

USER_SITE = "PYTHONNOUSERSITE"
"""Variable that keeps Python from using the packages in ~/.local."""

SLURM = "slurm"
SCHEDULERS = (SLURM, "pbs", "flux")
"""Schedulers that a profile can name; hpcmod writes jobs for the first."""

STAGE_PLACES = ("nvme", "ram")
"""Kinds of node-local storage: a disk of the node, or its memory."""

Binds = tuple[tuple[Bind, ...], ...]
"""Groups of candidates; each group results in at most one bind: its first whose source exists on the node."""


class NodeType(NamedTuple):
    """One kind of node of a machine: `[nodes.NAME]` of its profile."""

    name: str
    cores: int = 0
    """Physical cores that a job may use; 0: not known."""
    threads_per_core: int = 1
    """Hardware threads per core; the second thread of core c is CPU c + the node's number of physical cores."""
    gpus: int = 0
    """GPUs as the scheduler counts them: on LUMI-G the 8 halves (GCDs) of 4 MI250X."""
    gpu_cores: tuple[tuple[int, ...], ...] = ()
    """For each GPU, in the runtime's order: the nearby physical cores that a job may use; empty: not known."""
    reserved_cores: tuple[int, ...] = ()
    """Physical cores reserved for the system."""
    partitions: tuple[str, ...] = ()
    """Slurm partitions with such nodes, the default first."""
    qos: tuple[str, ...] = ()
    """Qualities of service that provide such nodes; `*` matches any characters."""
    memory_gib: int = 0
    """Memory that a job may use, in GiB; 0: not known."""

    def has_qos(self, name: str) -> bool:
        """Return whether a quality of service provides such nodes."""
        return any(re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name) for pattern in self.qos)

    @property
    def all_cores(self) -> int:
        """Return the number of physical cores of the node, including reserved ones."""
        return self.cores + len(self.reserved_cores)


class Launcher(NamedTuple):
    """How the ranks of a job are started here: `[launcher]`."""

    kind: str = BY_TASKS
    """One of LAUNCHERS; the default."""
    verb: str = "exec"
    """Verb of the container runtime. run: the image's entry script starts the program; exec: no entry script."""
    srun: tuple[str, ...] = ()
    """Flags that every srun needs on this machine, e.g. --mpi=pmi2, --gpu-bind=closest."""
    cpu_bind: str = "none"
    """mask: the computed masks; cores, socket: srun's own; none: left to Slurm."""
    distribution: str = ""
    """Value of srun's --distribution; empty: left to Slurm."""
    cpus_per_gpu: int = 0
    """CPUs that a job must request for each GPU; 0: no such rule."""
    refused: tuple[tuple[str, str], ...] = ()
    """Launchers that must not be used here, each with the reason."""
    discouraged: tuple[tuple[str, str], ...] = ()
    """Launchers that the site advises against, each with the reason; they still work, with a warning."""
    mpi: tuple[str, ...] = ()
    """MPI types that srun supports here, as listed by `srun --mpi=list`; empty: not known."""
    mpi_default: str = ""
    """MPI type for images whose MPI is not known or does not need one; empty: srun's own default."""


class Tunable(NamedTuple):
    """A default environment setting (NCCL_*, FI_*, MIOPEN_*, ...); a value set by the user wins."""

    name: str
    value: str
    condition: Condition = ALWAYS
    why: str = ""
    """What the value is for and who recommends it, in one line; empty: the profile does not say."""


class StagePlace(NamedTuple):
    """Node-local storage that a job may fill: `[stage.NAME]`."""

    name: str
    """nvme: a disk of the node; ram: its memory, which counts towards the job's memory."""
    directory: str
    """May contain $USER or $SLURM_JOB_ID, expanded by the job."""
    flag: str = ""
    """Option of sbatch that a job needs to get this storage, e.g. `-C nvme`; empty: always available."""


class Limits(NamedTuple):
    """What a scheduler accepts in one partition or quality of service: `[limits.NAME]`."""

    name: str
    nodes: int = 0
    """Largest number of nodes of a job; 0: not known."""
    hours: tuple[tuple[int, float], ...] = ()
    """Longest time limit, each with the smallest number of nodes that it applies to, in order; empty: not known."""
    cores: int = 0
    """Largest number of cores of a job; 0: not known."""
    required: tuple[str, ...] = ()
    """Long options of sbatch, without dashes, that the user must give here."""

    def hours_of(self, nodes: int) -> float:
        """Return the longest time limit of a job on a number of nodes, in hours; 0: not known."""
        return next((hours for least, hours in reversed(self.hours) if nodes >= least), 0)


class JobRules(NamedTuple):
    """Required content of batch scripts: `[job]`."""

    scheduler: str = SLURM
    """Name of the scheduler, one of SCHEDULERS."""
    required: tuple[str, ...] = ()
    """Long options of sbatch, without dashes, that the user must give: account, qos, time."""
    lines: tuple[str, ...] = ()
    """Options that every batch script gets, as written after #SBATCH."""
    gpus: str = "--gpus-per-node={gpus}"
    """Option that requests GPUs; {gpus}: GPUs per node. Empty: a node always comes with all of them."""
    exclusive: tuple[str, ...] = ()
    """Partitions that allocate only full nodes, where CPU masks are always correct."""
    command: tuple[str, ...] = ()
    """Lines of bash that every batch script needs before the first srun."""
    module_init: str = ""
    """File that defines the `module` command, for batch scripts; empty: the one of the shell that writes the script."""
    network_one_node: tuple[str, ...] = ()
    """Values of sbatch's --network for jobs on one node, e.g. single_node_vni."""
    network_several_nodes: tuple[str, ...] = ()
    """Values of sbatch's --network for jobs on several nodes."""
    network_several_steps: tuple[str, ...] = ()
    """Values of sbatch's --network for jobs with concurrent steps, e.g. job_vni."""
    slurm: str = ""
    """Release of Slurm, e.g. 24.11; empty: not known."""


class HostCommands(NamedTuple):
    """Commands of the host that programs in a container may run if the user asks for it: `[host_commands]`."""

    allowed: tuple[str, ...] = ()
    """Names, or absolute paths; empty: none."""
    environment: tuple[str, ...] = (
        "SLURM_*",
        "SBATCH_*",
        "SALLOC_*",
        "SQUEUE_*",
        "SINFO_*",
        "TERM",
        "COLUMNS",
        "LINES",
    )
    """Variables that such a command takes from the container instead of from the host; `*` matches any characters."""
    refused_options: tuple[str, ...] = ("--prolog", "--epilog", "--task-prolog", "--task-epilog")
    """Options that are refused: they make a scheduler run programs besides the job's own."""


class Bandwidth(NamedTuple):
    """A bus bandwidth measured on this machine, as a reference for the benchmark."""

    collective: str
    """all_reduce, all_gather, ..."""
    nodes: int
    busbw: float
    """GB/s (10^9 bytes a second)."""
    size: int = 0
    """Message size in bytes; 0: not known, the best of all sizes."""


class Netstack(NamedTuple):
    """The host's network libraries in containers: `[netstack]`."""

    directory: tuple[Bind, ...] = ()
    """Candidates, of which the first that exists is bound; empty: containers use only their own libraries."""
    mode: str = "auto"
    """swap: the host's come first; off: never; auto: swap, except for images that contain all they need."""
    libraries: tuple[str, ...] = ()
    """Libraries that `hpcmod site netstack capture` copies; empty: its default."""
    leave_out: tuple[str, ...] = ()
    """Libraries that it leaves out; `*` matches any characters."""
    search_last: tuple[str, ...] = ()
    """Container directories that are searched after the image's own LD_LIBRARY_PATH."""


class Detection(NamedTuple):
    """How this machine is recognised: `[detect]`; any of these is enough."""

    paths: tuple[str, ...] = ()
    """Paths of which one exists."""
    variables: tuple[tuple[str, str], ...] = ()
    """Variables of which one has this value."""


class Images(NamedTuple):
    """Where images are, and how they are stored: `[images]`."""

    central: tuple[str, ...] = ()
    """Directories with the site's images, searched in order."""
    install_mode: str = "copy"
    places: tuple[str, ...] = ()
    """Where users' own images belong, best first; may contain $USER and other variables, shown to people."""
    compression: str = ""
    """Compressor for SIFs made here, see model.compression, and its level: `gzip:6`; empty: hpcmod's default."""
    striping: str = ""
    """Options of `lfs setstripe` for images on Lustre; empty: the default of their directory."""
    cache: str = ""
    """Directory of the blob cache; may contain variables. Empty: the user's own cache."""
    cache_group: str = ""
    """Group that shares the cache; empty: the user's own cache."""


class SiteBinds(NamedTuple):
    """Candidates for bind paths, in order: only those whose source exists on the node are bound. `[binds]`."""

    required: Binds = ()
    optional: Binds = ()
    when: tuple[tuple[Condition, Binds], ...] = ()
    """Further candidates, each for images that satisfy a condition."""

    @property
    def always(self) -> Binds:
        """Return the candidates for all images."""
        return (*self.required, *self.optional)


class Network(NamedTuple):
    """The fast network between nodes: `[network]`."""

    interfaces: tuple[str, ...] = ()
    """Network interfaces for GPU traffic, in order, e.g. hsn0, hsn1."""
    host_suffix: str = ""
    """Suffix of the host names of this network: `i` if node1 is node1i there; empty: none."""
    fabric: str = ""
    """One of FABRICS; empty: not known."""


class Gpus(NamedTuple):
    """The GPUs of all nodes that have any: `[gpu]`."""

    vendor: str = ""
    """amd or nvidia; empty: no GPUs."""
    targets: tuple[str, ...] = ()
    """Micro-architectures, such as gfx90a or sm_90; empty: not known."""
    visibility: tuple[str, ...] = ()
    """Variables that select GPUs, Slurm's own first; empty: no GPUs."""
    per_rank: str = "all"
    """Which GPUs a rank sees: `all` of its node, as under torchrun, or `one`."""
    runtime_flags: tuple[str, ...] = ()
    """Flags that Apptainer and SingularityCE need here for GPUs: --nv, --rocm, or none."""


class Caches(NamedTuple):
    """Directories for caches: `[caches]`."""

    node_local: str = "/tmp"  # noqa: S108 - every Linux has it; a profile names a better place
    root: str = ""
    """Where large caches (models, data sets) belong instead of $HOME; may contain variables, expanded by bash."""


class ModuleRules(NamedTuple):
    """What all modules have: `[module]`."""

    family: str = "ai_container"
    """Lmod family: only one module of a family can be loaded; empty: any number of containers."""
    keep_env: tuple[str, ...] = ()
    """Variables of the host's Python that modules pass to the container, as if they were in HPCMOD_KEEP_ENV."""
    bind_variable: str = ""
    """Another variable with the binds of modules, for scripts that read it: SINGULARITY_BIND; empty: none."""


class Nodes(NamedTuple):
    """The kinds of nodes of a machine: `[nodes]`."""

    types: tuple[NodeType, ...] = ()
    default: str = ""
    """Default node type for jobs; empty: the first."""

    @property
    def usual(self) -> NodeType:
        """Return the default node type for jobs, or one without known facts if the profile has none."""
        return (*self.usual_first, NodeType("node"))[0]

    @property
    def usual_first(self) -> tuple[NodeType, ...]:
        """Return the node types, with the default type for jobs first."""
        return tuple(sorted(self.types, key=lambda node: node.name != self.default))


class Usage(NamedTuple):
    """How loads of modules are counted: `[usage]`."""

    names: str = "groups"
    """Granularity: `groups` or `users`."""


class Site(NamedTuple):
    """The facts of one machine that an installation or a job depends on, by the tables of its profile."""

    name: str
    description: str = ""
    profile: str = ""
    """By which the profile is found again: the name of a shipped one, or a path; empty: it was not read from one."""
    detect: Detection = Detection()
    catalogues: tuple[str, ...] = ()
    """Directories of the site's catalogues, highest priority first."""
    usage: Usage = Usage()
    images: Images = Images()
    trust: TrustPolicy = ANYTHING
    """How images must be verified."""
    binds: SiteBinds = SiteBinds()
    netstack: Netstack = Netstack()
    tunables: tuple[Tunable, ...] = ()
    """Environment defaults; a value set by the user wins."""
    network: Network = Network()
    gpu: Gpus = Gpus()
    caches: Caches = Caches()
    module: ModuleRules = ModuleRules()
    nodes: Nodes = Nodes()
    launcher: Launcher = Launcher()
    job: JobRules = JobRules()
    limits: tuple[Limits, ...] = ()
    stage_places: tuple[StagePlace, ...] = ()
    host_commands: HostCommands = HostCommands()
    proxies: tuple[tuple[str, str], ...] = ()
    """Proxy variables for internet access from compute nodes; set only on request."""
    bandwidths: tuple[Bandwidth, ...] = ()

    @property
    def all_binds(self) -> Binds:
        """Return the binds of this machine's modules, with the host's network libraries for images that use them."""
        wanted = self.netstack.directory and self.netstack.mode != "off"
        return (self.netstack.directory, *self.binds.always) if wanted else self.binds.always


TABLES = {name: usual for name, usual in Site._field_defaults.items() if hasattr(usual, "_fields")}
"""The tables that are named tuples, by the name of the field and of the table, with their defaults."""
