"""Facts about one machine: its nodes, its rules for jobs, and the tables of its profile.

The string below each field is its meaning in the reference of profiles and in the JSON Schema of `hpcmod site show`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from hpcmod.machine.values.condition import ALWAYS, Condition
from hpcmod.machine.values.tables import Binds, Detection, Gpus, Images, ModuleRules, Network, SiteBinds

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

LAUNCHERS = (BY_TASKS, "torchrun", "accelerate")
"""Programs that can start the ranks of a job."""

RAY = "ray"
"""The launcher that starts one program on a cluster of nodes, rather than ranks."""

HOST_PYTHON = (
    "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "LD_PRELOAD", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV",
    "CONDA_EXE", "CONDA_PYTHON_EXE", "CONDA_SHLVL", "CONDA_PROMPT_MODIFIER",
)  # fmt: skip
"""Host variables that affect Python in the container: Apptainer passes all of them on (1.4.5, tested)."""

USER_SITE = "PYTHONNOUSERSITE"
"""Variable that keeps Python from using the packages in ~/.local."""

SLURM = "slurm"
SCHEDULERS = (SLURM, "pbs", "flux")
"""Schedulers that a profile can name; hpcmod writes jobs for the first."""

STAGE_PLACES = ("nvme", "ram")
"""Kinds of node-local storage: a disk of the node, or its memory."""


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
    """For each GPU, in the order of the runtime: the nearby cores that a job may use, e.g. `"1-7"`; used for masks."""
    reserved_cores: tuple[int, ...] = ()
    """Cores reserved for the system, e.g. `"0,8,16"`."""
    partitions: tuple[str, ...] = ()
    """Slurm partitions with such nodes, the default first."""
    qos: tuple[str, ...] = ()
    """Qualities of service (`--qos`) that provide such nodes; `*` matches any characters."""
    memory_gib: int = 0
    """Memory that a job may use, in GiB: a job requests all of it, or its share by GPUs. 0: not known."""

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
    """What starts the ranks of a job that names no launcher."""
    verb: str = "exec"
    """Verb of the container runtime: `exec`, or `run` if images need their own entry script, e.g. to use the host's
    libraries: jobs use it for images whose run script starts a program."""
    srun: tuple[str, ...] = ()
    """Flags that every srun needs here, e.g. `--mpi=pmi2`."""
    cpu_bind: str = "none"
    """`mask`: the masks computed from `gpu_cores`; `cores`, `socket`: srun's own; `none`: left to Slurm."""
    distribution: str = ""
    """Value of srun's `--distribution`; empty: left to Slurm."""
    cpus_per_gpu: int = 0
    """CPUs that a job must request for each GPU; 0: no such rule."""
    refused: tuple[tuple[str, str], ...] = ()
    """Launchers that must not be used here, each with the reason."""
    discouraged: tuple[tuple[str, str], ...] = ()
    """Launchers that the site advises against, each with the reason, which jobs print."""
    mpi: tuple[str, ...] = ()
    """Types of MPI that srun offers, as `srun --mpi=list` names them: pmix, pmi2, ...; empty: not known."""
    mpi_default: str = ""
    """`--mpi` for images whose MPI is unknown or does not need it; empty: srun's own."""

    @property
    def unwanted(self) -> dict[str, str]:
        """The launchers that are refused or discouraged, each with the reason."""
        return dict((*self.discouraged, *self.refused))


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
    """A node-local directory that a job may fill, `nvme` (a disk) or `ram`; may contain variables, e.g. `$USER`."""
    flag: str = ""
    """Option of sbatch that a job needs to get this storage, e.g. `-C nvme`; empty: always available."""


class Limits(NamedTuple):
    """What a scheduler accepts in one partition or quality of service: `[limits.NAME]`."""

    name: str
    nodes: int = 0
    """Largest number of nodes of a job in the quality of service `NAME`, or else that partition; 0: not known."""
    hours: tuple[tuple[int, float], ...] = ()
    """Longest time limit in hours, by the smallest number of nodes; `{ 1 = 2, 92 = 6 }`: 6 hours from 92 nodes on."""
    cores: int = 0
    """Largest number of cores of a job there, on all nodes together; 0: not known."""
    required: tuple[str, ...] = ()
    """As `job.required`, for jobs there."""

    def hours_of(self, nodes: int) -> float:
        """Return the longest time limit of a job on a number of nodes, in hours; 0: not known."""
        return next((hours for least, hours in reversed(self.hours) if nodes >= least), 0)


class JobRules(NamedTuple):
    """Required content of batch scripts: `[job]`."""

    scheduler: str = SLURM
    """Scheduler of the machine, `slurm`, `pbs` or `flux`; hpcmod writes jobs for Slurm only."""
    required: tuple[str, ...] = ()
    """Options of sbatch, without dashes, that the user must give: `account`, `qos`, `time`, ..."""
    lines: tuple[str, ...] = ()
    """Options that every batch script gets, as written after `#SBATCH`."""
    gpus: str = "--gpus-per-node={gpus}"
    """Option that requests GPUs; `{gpus}`: GPUs per node. Empty: a node always comes with all of them."""
    exclusive: tuple[str, ...] = ()
    """Partitions that allocate only full nodes, where CPU masks are always correct."""
    command: tuple[str, ...] = ()
    """Lines of bash that every batch script needs before the first srun."""
    module_init: str = ""
    """File that defines the `module` command in bash, sourced by batch scripts if undefined; empty: the file of the
    shell in which `hpcmod job` runs."""
    network_one_node: tuple[str, ...] = ()
    """Values of sbatch's `--network` for jobs on one node, e.g. `single_node_vni`."""
    network_several_nodes: tuple[str, ...] = ()
    """Values of sbatch's `--network` for jobs on several nodes."""
    network_several_steps: tuple[str, ...] = ()
    """Values of sbatch's `--network` for jobs with concurrent steps, e.g. `job_vni`."""
    slurm: str = ""
    """Release of Slurm, e.g. `24.11`, for `hpcmod lint`; empty: not known."""
    limits: tuple[Limits, ...] = ()
    stage_places: tuple[StagePlace, ...] = ()


class Nodes(NamedTuple):
    """The kinds of nodes of a machine: `[nodes]`."""

    types: tuple[NodeType, ...] = ()
    default: str = ""
    """The node type for jobs that do not request one; empty: the first."""

    @property
    def usual(self) -> NodeType:
        """Return the default node type for jobs, or one without known facts if the profile has none."""
        return (*self.usual_first, NodeType("node"))[0]

    @property
    def usual_first(self) -> tuple[NodeType, ...]:
        """Return the node types, with the default type for jobs first."""
        return tuple(sorted(self.types, key=lambda node: node.name != self.default))


class Site(NamedTuple):
    """The facts of one machine that an installation or a job depends on, by the tables of its profile.

    Of tables that belong together, one has the others.
    """

    name: str
    """Name of the profile, the only required key."""
    description: str = ""
    """One line, for people."""
    profile: str = ""
    """By which the profile is found again: the name of a shipped one, or a path; empty: it was not read from one."""
    detect: Detection = Detection()
    catalogues: tuple[str, ...] = ()
    """Directories of catalogues, highest priority first; `$HPCMOD_CATALOGUE` precedes them."""
    images: Images = Images()
    binds: SiteBinds = SiteBinds()
    tunables: tuple[Tunable, ...] = ()
    """Environment defaults; a value set by the user wins."""
    network: Network = Network()
    gpu: Gpus = Gpus()
    module: ModuleRules = ModuleRules()
    nodes: Nodes = Nodes()
    launcher: Launcher = Launcher()
    job: JobRules = JobRules()
    proxies: tuple[tuple[str, str], ...] = ()
    """Proxy variables for internet access from compute nodes; set only on request."""

    @property
    def all_binds(self) -> Binds:
        """Return the binds of this machine's modules, with the host's network libraries for images that use them."""
        netstack = self.network.netstack
        wanted = netstack.directory and netstack.mode != "off"
        return (netstack.directory, *self.binds.always) if wanted else self.binds.always


def _tables_in(table: Any) -> Iterator[tuple[str, Any]]:
    for name, usual in table._field_defaults.items():
        if hasattr(usual, "_fields"):
            yield from ((name, usual), *_tables_in(usual))


TABLES = dict(_tables_in(Site))
"""The tables that are named tuples, by the name of the field and of the table in the profile, with their defaults."""
