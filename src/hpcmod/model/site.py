"""What is true of one machine: node types, places, binds, settings, launcher and rules for jobs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hpcmod.model.bind import Bind
from hpcmod.model.condition import ALWAYS, Condition
from hpcmod.model.trust import ANYTHING, TrustPolicy

INSTALL_MODES = ("auto", "copy", "link", "central")
"""copy: an own copy; link: a hard link; central: the site's file in place; auto: what the profile says, else copy."""

NETSTACK_MODES = ("auto", "swap", "off")
"""swap: the host's network libraries before the image's; off: never; auto: the image's label decides."""

IN_CONTAINER = "/host/lib"
"""Where containers have the host's network libraries: HPE's images look for them there by themselves."""

RUNTIMES = ("singularity", "apptainer")
"""In the order the wrappers try them; Apptainer answers to both names."""

LAUNCHERS = ("srun", "torchrun", "deepspeed", "accelerate")
"""What can start the ranks of a job."""

STAGE_PLACES = ("nvme", "ram")
"""What a node-local place can be: a disk of the node, or its memory."""

Binds = tuple[tuple[Bind, ...], ...]
"""Groups of candidates; each group gives at most one bind: its first whose source exists on the node."""


@dataclass(frozen=True)
class NodeType:
    """One kind of node of a machine: `[nodes.NAME]` of its profile."""

    name: str
    cores: int = 0
    """Physical cores that a job may use; 0: not known."""
    threads_per_core: int = 1
    """Hardware threads of a core; the second thread of core c is CPU number c + all physical cores of the node."""
    gpus: int = 0
    """GPUs as the scheduler counts them: on LUMI-G the 8 halves (GCDs) of 4 MI250X."""
    gpu_cores: tuple[tuple[int, ...], ...] = ()
    """By GPU, in the runtime's order: the physical cores near it that a job may use; empty: not known."""
    reserved_cores: tuple[int, ...] = ()
    """Physical cores that the system keeps for itself."""
    partitions: tuple[str, ...] = ()
    """Slurm partitions that have such nodes, the one to use by default first."""
    qos: tuple[str, ...] = ()
    """Qualities of service that give such nodes; `*` stands for any characters."""
    memory_gib: int = 0
    """Memory that a job may use, in GiB; 0: not known."""

    def has_qos(self, name: str) -> bool:
        """Return whether a quality of service gives such nodes."""
        return any(re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name) for pattern in self.qos)

    @property
    def all_cores(self) -> int:
        """Physical cores of the node, those of the system among them."""
        return self.cores + len(self.reserved_cores)


@dataclass(frozen=True)
class Launcher:
    """How the ranks of a job are started here: `[launcher]`."""

    kind: str = "srun"
    """One of LAUNCHERS, taken where the user names none."""
    verb: str = "exec"
    """Of the container runtime. run: the image's own entry script starts the program; exec: nothing in between."""
    srun: tuple[str, ...] = ()
    """Flags that every srun of a job needs on this machine, e.g. --mpi=pmi2, --gpu-bind=closest."""
    cpu_bind: str = "none"
    """mask: the computed masks; cores, socket: srun's own; none: left to Slurm."""
    distribution: str = ""
    """Value of srun's --distribution; empty: left to Slurm."""
    cpus_per_gpu: int = 0
    """CPUs that a job must ask for with each GPU; 0: no such rule."""
    refused: tuple[tuple[str, str], ...] = ()
    """Launchers that must not be used here, each with the reason."""
    discouraged: tuple[tuple[str, str], ...] = ()
    """Launchers that the site advises against, each with the reason; a job that asks for one says so and has it."""
    mpi: tuple[str, ...] = ()
    """Types of MPI that srun offers here, as `srun --mpi=list` names them; empty: not known."""
    mpi_default: str = ""
    """Type for images whose MPI is not known, or needs none; empty: srun's own default."""


@dataclass(frozen=True)
class Tunable:
    """A default of the environment (NCCL_*, FI_*, MIOPEN_*, ...); a value the user set wins."""

    name: str
    value: str
    condition: Condition = ALWAYS
    why: str = ""
    """What the value is for and who recommends it, in one line; empty: the profile does not say."""


@dataclass(frozen=True)
class StagePlace:
    """A node-local place that a job may fill: `[stage.NAME]`."""

    name: str
    """nvme: a disk of the node; ram: its memory, where each byte is taken from the job's."""
    directory: str
    """May hold $USER or $SLURM_JOB_ID, for the job to expand."""
    flag: str = ""
    """Option of sbatch that a job needs to get the place, e.g. `-C nvme`; empty: it is there anyway."""


@dataclass(frozen=True)
class JobRules:
    """What a batch script must have here: `[job]`."""

    required: tuple[str, ...] = ()
    """Long options of sbatch, without dashes, that the user has to give: account, qos, time."""
    lines: tuple[str, ...] = ()
    """Options that every batch script gets, each as it stands behind #SBATCH."""
    gpus: str = "--gpus-per-node={gpus}"
    """How GPUs are asked for; {gpus}: as many as each node is to give. Empty: a node comes with all of them."""
    exclusive: tuple[str, ...] = ()
    """Partitions that give whole nodes only: masks of CPUs are right there, whatever else runs."""
    command: tuple[str, ...] = ()
    """Lines of bash that every batch script needs before the first srun."""
    module_init: str = ""
    """File that defines the `module` command, for batch scripts; empty: the one of the shell that writes the script."""
    network_one_node: tuple[str, ...] = ()
    """Values of sbatch's --network for jobs on one node, e.g. single_node_vni."""
    network_several_nodes: tuple[str, ...] = ()
    """Values of sbatch's --network for jobs on several nodes."""
    network_several_steps: tuple[str, ...] = ()
    """Values of sbatch's --network for jobs in which several steps run at the same time, e.g. job_vni."""
    slurm: str = ""
    """Release of Slurm, as 24.11; empty: not known."""


@dataclass(frozen=True)
class Bandwidth:
    """A bus bandwidth that somebody measured here, for the benchmark to compare with."""

    collective: str
    """all_reduce, all_gather, ..."""
    nodes: int
    busbw: float
    """GB/s (10^9 bytes a second)."""
    size: int = 0
    """Size of the messages, in bytes; 0: not known, and the best of all sizes."""


@dataclass(frozen=True)
class Netstack:
    """The host's network libraries in containers: `[netstack]`."""

    directory: tuple[Bind, ...] = ()
    """Candidates, the first that exists is bound; empty: containers keep their own libraries."""
    mode: str = "auto"
    """swap: the host's come first; off: never; auto: swap, but for images that bring all they need."""
    libraries: tuple[str, ...] = ()
    """What `hpcmod netstack capture` takes; empty: its default."""
    leave_out: tuple[str, ...] = ()
    """What it leaves out; `*` stands for any characters."""
    search_last: tuple[str, ...] = ()
    """Directories of the container that are searched after the image's own LD_LIBRARY_PATH."""


@dataclass(frozen=True)
class Site:
    """The facts of one machine that an installation or a job depends on."""

    name: str
    description: str = ""
    detect_paths: tuple[str, ...] = ()
    """A machine where any of these exists is this one."""
    detect_variables: tuple[tuple[str, str], ...] = ()
    """A machine where any of these variables has this value is this one."""
    central: tuple[str, ...] = ()
    """Directories with the site's images, the first that has an image wins."""
    catalogues: tuple[str, ...] = ()
    """Directories of the site's catalogues, the first has priority."""
    usage_names: str = "groups"
    """Whose loads of modules are told apart: `groups` or `users`."""
    install_mode: str = "copy"
    compression: str = ""
    """Compressor of the SIFs that are made here, and its level: `zstd`, `gzip:6`, ...; empty: hpcmod's default."""
    cache: str = ""
    """Directory of the cache of blobs; may hold variables. Empty: the user's own."""
    cache_group: str = ""
    """Group that shares the cache; empty: the user's own."""
    trust: TrustPolicy = ANYTHING
    """How an image must be verified."""
    image_places: tuple[str, ...] = ()
    """Where a user's own images belong, best first; may hold $USER and the like, for people to read."""
    binds: Binds = ()
    """Candidates, in order: only those whose source exists on the node are bound."""
    netstack: Netstack = Netstack()
    tunables: tuple[Tunable, ...] = ()
    """Environment defaults; a value the user set wins."""
    gpu_vendor: str = ""
    """amd or nvidia; empty: no GPUs."""
    gpu_visibility: tuple[str, ...] = ()
    """Variables that choose GPUs, Slurm's own first; empty: no GPUs."""
    gpus_per_rank: str = "all"
    """Which GPUs a rank sees: `all` of its node, as under torchrun, or `one`."""
    runtime_flags: tuple[str, ...] = ()
    """Flags that Apptainer and SingularityCE need here to show the GPUs: --nv, --rocm, or none."""
    nics: tuple[str, ...] = ()
    """Network interfaces for GPU traffic, in order, e.g. hsn0, hsn1."""
    node_local: str = "/tmp"  # noqa: S108 - every Linux has it; a profile names a better place
    """Node-local directory for caches."""
    cache_root: str = ""
    """Where large caches (models, data sets) belong instead of $HOME; may hold variables, for bash to expand."""
    family: str = "ai_container"
    """Lmod family: no two modules of one family are loaded together."""
    node_types: tuple[NodeType, ...] = ()
    default_node_type: str = ""
    """Name of the node type a job gets unless it says otherwise; empty: the first."""
    launcher: Launcher = Launcher()
    job: JobRules = JobRules()
    stage_places: tuple[StagePlace, ...] = ()
    proxies: tuple[tuple[str, str], ...] = ()
    """Variables that lead to the internet from a compute node; set only where a user asks for them."""
    bandwidths: tuple[Bandwidth, ...] = ()

    @property
    def all_binds(self) -> Binds:
        """Binds of this machine's modules, the host's network libraries among them, where an image wants those."""
        wanted = self.netstack.directory and self.netstack.mode != "off"
        return (self.netstack.directory, *self.binds) if wanted else self.binds

    @property
    def node_type(self) -> NodeType:
        """The node type a job gets unless it says otherwise; one of nothing known where the profile names none."""
        named = [node for node in self.node_types if node.name == self.default_node_type]
        return (*named, *self.node_types, NodeType("node"))[0]
