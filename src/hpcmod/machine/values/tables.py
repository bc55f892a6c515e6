"""Tables of a site profile that are not about nodes and jobs: images, binds, networks, GPUs, modules, host commands.

The string below each field is its meaning in the reference of profiles and in the JSON Schema of `hpcmod site show`.
"""

from __future__ import annotations

from typing import NamedTuple

from hpcmod.core.values.trust import ANYTHING, TrustPolicy
from hpcmod.machine.values.bind import Bind
from hpcmod.machine.values.condition import Condition

Binds = tuple[tuple[Bind, ...], ...]
"""Groups of candidates; each group results in at most one bind: its first whose source exists on the node."""


class Detection(NamedTuple):
    """How this machine is recognised: `[detect]`; any of these is enough."""

    paths: tuple[str, ...] = ()
    """The profile is selected if one of these exists; read only from profiles that come with hpcmod."""
    variables: tuple[tuple[str, str], ...] = ()
    """The profile is selected if one of these variables has this value."""


class Images(NamedTuple):
    """Where images are, and how they are stored: `[images]`."""

    central: tuple[str, ...] = ()
    """Directories with the site's images, searched in order."""
    install_mode: str = "copy"
    """A private copy, a hard link, or the site's file: the meaning of `install_mode = 'auto'` in an easyconfig."""
    places: tuple[str, ...] = ()
    """Where users' private copies belong, best first; may contain variables. `hpcmod install` uses the first that the
    user can write to, or the project's directory in it, which is named after the project's group."""
    compression: str = ""
    """Compression of SIFs made here: zstd, gzip or none, optionally followed by a colon and a level. Empty:
    zstd if the container runtime on PATH reads it, else gzip, which every runtime reads."""
    striping: str = ""
    """Options of `lfs setstripe` for images that hpcmod writes to Lustre, e.g. `-c 8`: over how many servers it
    distributes them. Empty: the default of their directory."""
    cache: str = ""
    """Cache of downloads from registries; may contain variables. Empty: the user's own."""
    cache_group: str = ""
    """Group that shares the cache; empty: the user's own cache."""
    trust: TrustPolicy = ANYTHING
    """How they must be verified."""


class SiteBinds(NamedTuple):
    """Candidates for bind paths, in order: only those whose source exists on the node are bound. `[binds]`."""

    required: Binds = ()
    """Bind paths that a job needs; the module and the wrappers warn if one is missing."""
    optional: Binds = ()
    """Bind paths that are bound if they exist."""
    when: tuple[tuple[Condition, Binds], ...] = ()
    """Optional bind paths for images that satisfy a condition: `"rocm<6.2" = [...]`."""

    @property
    def always(self) -> Binds:
        """Return the candidates for all images."""
        return (*self.required, *self.optional)


class Netstack(NamedTuple):
    """The host's network libraries in containers: `[netstack]`."""

    directory: tuple[Bind, ...] = ()
    """Directories with the host's network libraries, as created by `hpcmod site netstack capture`: the first that
    exists is bound to `/host/lib` and searched first. Patterns work as in binds. Empty: containers use only their
    own libraries."""
    mode: str = "auto"
    """`swap`: the host's libraries precede the image's; `off`: never; `auto`: swap, except for images whose label says
    that they contain all they need, or need none."""
    libraries: tuple[str, ...] = ()
    """Names or paths of the libraries that `hpcmod site netstack capture` copies; empty: its default."""
    leave_out: tuple[str, ...] = ()
    """Names of libraries that it leaves out, in addition to glibc's; `*` matches any characters."""
    search_last: tuple[str, ...] = ()
    """Container directories to search after the image's own, e.g. `/host/usr/lib64`."""


class Bandwidth(NamedTuple):
    """A bus bandwidth measured on this machine, as a reference for the benchmark."""

    collective: str
    """all_reduce, all_gather, ..."""
    nodes: int
    busbw: float
    """GB/s (10^9 bytes a second)."""
    size: int = 0
    """Message size in bytes; 0: not known, the best of all sizes."""


class Network(NamedTuple):
    """The fast network between nodes: `[network]`."""

    interfaces: tuple[str, ...] = ()
    """Network interfaces for traffic between GPUs, in order, e.g. hsn0, hsn1."""
    host_suffix: str = ""
    """Suffix of the host names of the fast network: `i` if `node1` is `node1i` there. `MASTER_ADDR` and the output of
    `get-master` have it, unless you set `MASTER_ADDR`."""
    fabric: str = ""
    """The fast network: a provider of libfabric (`cxi`: HPE Slingshot, `efa`: AWS), or `ib` for InfiniBand and RoCE
    through verbs. `hpcmod check --network` compares logs with it. Empty: not known."""
    netstack: Netstack = Netstack()
    bandwidths: tuple[Bandwidth, ...] = ()


class Gpus(NamedTuple):
    """The GPUs of all nodes that have any: `[gpu]`."""

    vendor: str = ""
    """Vendor of the GPUs."""
    targets: tuple[str, ...] = ()
    """Micro-architectures of all GPUs of the machine, e.g. `gfx90a` or `sm_90`: of several versions of a container,
    those built for them count first. Empty: those of the node's GPUs."""
    visibility: tuple[str, ...] = ()
    """Variables that select GPUs, Slurm's own first; empty: no GPUs."""
    per_rank: str = "all"
    """GPUs that a rank sees if Slurm gives it several. `all`: all of them, and `LOCAL_RANK` is its index on the node,
    as under torchrun; `one`: the GPU with its index, and `LOCAL_RANK` is 0."""
    runtime_flags: tuple[str, ...] = ()
    """Flags that the container runtime needs on nodes with GPUs; none if the site has configured this."""


class Caches(NamedTuple):
    """Directories for caches: `[caches]`."""

    node_local: str = "/tmp"  # noqa: S108 - every Linux has it; a profile names a better place
    """Node-local directory for compiler caches (MIOpen, Triton, ...), with a subdirectory for each job."""
    root: str = ""
    """Where large caches (models, data sets) belong instead of `$HOME`; may contain variables, expanded by bash."""


class Usage(NamedTuple):
    """How loads of modules are counted: `[usage]`."""

    names: str = "groups"
    """Granularity of `hpcmod catalogue usage`, if modules count loads."""


class HostCommands(NamedTuple):
    """Commands of the host that programs in a container may run if the user asks for it: `[host_commands]`."""

    allowed: tuple[str, ...] = ()
    """Commands of the host, by name or absolute path, that programs in a container may run if the user sets
    `HPCMOD_HOST_COMMANDS=1`; empty: none."""
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
    """Variables that these commands take from the container instead of from the host; `*` matches any characters."""
    refused_options: tuple[str, ...] = ("--prolog", "--epilog", "--task-prolog", "--task-epilog")
    """Options that are refused for these commands: they make a scheduler run programs besides the job's own."""


class ModuleRules(NamedTuple):
    """What all modules have, and let their containers use: `[module]`."""

    family: str = "ai_container"
    """Lmod family: only one module of a family can be loaded; `""`: any number of containers."""
    keep_env: tuple[str, ...] = ()
    """Variables of the host's Python that modules pass to the container, as if they were in `$HPCMOD_KEEP_ENV`;
    `PYTHONNOUSERSITE`: the packages in `~/.local`."""
    bind_variable: str = ""
    """Another variable that modules set to their binds, for scripts that read or extend it; empty: none."""
    usage: Usage = Usage()
    caches: Caches = Caches()
    host_commands: HostCommands = HostCommands()
