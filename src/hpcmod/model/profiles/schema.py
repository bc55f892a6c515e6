"""The schema of site profiles: every key, how it is checked, and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hpcmod.model.profiles import checks as check
from hpcmod.model.site import LAUNCHERS, NETSTACK_MODES
from hpcmod.model.trust import parse_keys, parse_needs


@dataclass(frozen=True)
class Key:
    """One key of a profile."""

    check: check.Check
    form: str
    """Type of the value, for the reference page."""
    meaning: str
    field: str = ""
    """Field of Site that takes the checked value unchanged; empty if it needs further processing."""


SCHEMA: Mapping[str, Key] = {
    "name": Key(check.check_text, "text", "the only key that must be there", "name"),
    "description": Key(check.check_text, "text", "one line, for people", "description"),
    "extends": Key(
        check.check_text,
        "text",
        "name or file of a profile to start from, or `machine`: the one that would be used without this file. A key "
        "given here replaces that one's; tables are added to, entry by entry",
    ),
    "detect.paths": Key(
        check.paths,
        "list of paths",
        "a machine where one of these exists is this one; read in the profiles that come with hpcmod",
        "detect_paths",
    ),
    "detect.variables": Key(
        check.variables,
        "table of texts",
        "a machine where one of these variables has this value is this one",
        "detect_variables",
    ),
    "catalogues": Key(
        check.paths,
        "list of paths",
        "directories of catalogues, the first has priority; `$HPCMOD_CATALOGUE` comes before them",
        "catalogues",
    ),
    "usage.names": Key(
        check.one_of("groups", "users"),
        "`groups` or `users`",
        "whose loads `hpcmod catalogue usage` tells apart, where modules count them (default: `groups`)",
        "usage_names",
    ),
    "images.central": Key(
        check.paths, "list of paths", "directories with the site's images, the first that has the image wins", "central"
    ),
    "images.install_mode": Key(
        check.one_of("copy", "link", "central"),
        "`copy`, `link` or `central`",
        "an own copy, a hard link, or the site's file; what `install_mode = 'auto'` of an easyconfig means here",
        "install_mode",
    ),
    "images.places": Key(
        check.places,
        "list of paths",
        "where users' own copies belong, best first; may hold variables. `hpcmod install` takes the first that the "
        "user can write to, or the project's directory in it, named after its group",
        "image_places",
    ),
    "images.compression": Key(
        check.compression,
        "text",
        "how SIFs are compressed that are made here: `zstd`, `gzip`, `lz4` or `none`, and a level behind a colon",
        "compression",
    ),
    "images.cache": Key(check.place, "path", "cache of what comes from registries; may hold variables", "cache"),
    "images.cache_group": Key(check.check_text, "text", "group that shares the cache", "cache_group"),
    "trust.needs": Key(
        parse_needs,
        "list of `digest`, `checksum`, `signature`",
        "proof that an image needs if no rule names its source; an empty list: none",
    ),
    "trust.keys": Key(parse_keys, "list of paths", "public keys, PEM or PGP, one of which must have signed"),
    "trust.rules": Key(
        check.rules,
        "list of tables",
        '`{ source = "docker://HOST/*", needs = ["signature"], keys = [] }`: the first rule that fits counts; '
        "`*` stands for any characters, in a host not for `/`. "
        "Optional `identities`: the names that signatures of a mirror have",
    ),
    "binds.required": Key(
        check.binds(required=True),
        "list of bind paths",
        "bind paths that a job needs; where one is missing, loading the module says so, and so do wrappers",
    ),
    "binds.optional": Key(
        check.binds(required=False), "list of bind paths", "bind paths that are bound where they exist"
    ),
    "netstack.directory": Key(
        check.library_directories,
        "list of paths",
        "directories with the host's network libraries, as `hpcmod netstack capture` makes them: the first that exists "
        "is bound to `/host/lib`, and searched for libraries first. Patterns as in binds: the newest that fits",
    ),
    "netstack.mode": Key(
        check.one_of(*NETSTACK_MODES),
        "`auto`, `swap` or `off`",
        "`swap`: the host's libraries come before the image's; `off`: never; `auto`: swap, but for images whose label "
        "says that they bring all they need, or need none",
    ),
    "netstack.libraries": Key(
        check.texts, "list of texts", "names or paths of the libraries that `hpcmod netstack capture` takes"
    ),
    "netstack.leave_out": Key(
        check.texts,
        "list of texts",
        "names of libraries that it leaves out, besides those of glibc; `*` stands for any characters",
    ),
    "netstack.search_last": Key(
        check.library_places,
        "list of paths",
        "directories of the container to search after the image's own, e.g. `/host/usr/lib64`",
    ),
    "environment": Key(
        check.tunables,
        "table of texts",
        'variables for every run; a value the user set wins. `NAME = { value = "...", when = "multi-node", '
        'why = "..." }`: with a condition and a reason to print; a list of such tables: the first case that holds '
        "counts; `NAME = false`: not set after all, although the extended profile sets it",
    ),
    "network.interfaces": Key(
        check.texts, "list of texts", "network interfaces for the traffic between GPUs, in order", "nics"
    ),
    "gpu.vendor": Key(check.one_of("amd", "nvidia", "none"), "`amd`, `nvidia` or `none`", "who made the GPUs"),
    "gpu.visibility": Key(
        check.variable_names,
        "list of names",
        "variables that choose GPUs, Slurm's own first; none: no GPUs",
        "gpu_visibility",
    ),
    "gpu.per_rank": Key(
        check.one_of("one", "all"),
        "`one` or `all`",
        "GPUs that a rank sees where Slurm shows it several. `all`: all of them, and `LOCAL_RANK` is its place on the "
        "node, as under torchrun; `one`: that of its place, and `LOCAL_RANK` is 0",
        "gpus_per_rank",
    ),
    "gpu.runtime_flags": Key(
        check.some_of("--nv", "--rocm", "--nvccli"),
        "list of texts",
        "flags that the container runtime needs to show the GPUs; none where the site has set that up",
        "runtime_flags",
    ),
    "caches.node_local": Key(
        check.path,
        "path",
        "node-local directory for the caches of compilers (MIOpen, Triton, ...), one below it for each job",
        "node_local",
    ),
    "caches.root": Key(
        check.place,
        "path",
        "where large caches (models, data sets) belong instead of `$HOME`; may hold variables",
        "cache_root",
    ),
    "module.family": Key(check.check_text, "text", "no two modules of one family are loaded together", "family"),
    "nodes.default": Key(
        check.check_text, "text", "the node type that a job gets unless it says otherwise", "default_node_type"
    ),
    "nodes.*.cores": Key(check.count, "number", "physical cores that a job may use"),
    "nodes.*.threads_per_core": Key(check.count, "number", "hardware threads of a core"),
    "nodes.*.gpus": Key(check.count, "number", "GPUs, as the scheduler counts them"),
    "nodes.*.gpu_cores": Key(
        check.cores_by_gpu,
        "list of ranges",
        'by GPU, in the order of the runtime: the cores near it that a job may use, as `"1-7"`: for masks',
    ),
    "nodes.*.reserved_cores": Key(check.cores, "ranges", 'cores that the system keeps for itself, as `"0,8,16"`'),
    "nodes.*.partitions": Key(
        check.texts, "list of texts", "Slurm partitions of such nodes, the one to use by default first"
    ),
    "nodes.*.qos": Key(
        check.texts,
        "list of texts",
        "qualities of service (`--qos`) that give such nodes; `*` stands for any characters",
    ),
    "nodes.*.memory_gib": Key(
        check.count, "number", "memory that a job may use, in GiB: a job asks for it, or for its share by GPUs"
    ),
    "launcher.kind": Key(
        check.one_of(*LAUNCHERS), "`srun`, `torchrun`, `deepspeed` or `accelerate`", "what starts the ranks of a job"
    ),
    "launcher.verb": Key(
        check.one_of("exec", "run"),
        "`exec` or `run`",
        "verb of the container runtime; `run` where images need their own entry script, e.g. to take the host's "
        "libraries",
    ),
    "launcher.srun": Key(check.options, "list of texts", "flags that every srun needs here"),
    "launcher.cpu_bind": Key(
        check.one_of("mask", "cores", "socket", "none"),
        "`mask`, `cores`, `socket` or `none`",
        "`mask`: the masks computed from `gpu_cores`; `cores`, `socket`: srun's own; `none`: left to Slurm",
    ),
    "launcher.distribution": Key(check.check_text, "text", "value of srun's `--distribution`"),
    "launcher.cpus_per_gpu": Key(check.count, "number", "CPUs that a job must ask for with each GPU"),
    "launcher.mpi": Key(
        check.texts, "list of texts", "types of MPI that srun offers, as `srun --mpi=list` names them: pmix, pmi2, ..."
    ),
    "launcher.mpi_default": Key(
        check.check_text,
        "text",
        "`--mpi` for images whose MPI is unknown or needs none; default: that of srun",
    ),
    "launcher.refused": Key(check.reasons, "table of texts", "launchers that must not be used here, with the reason"),
    "launcher.discouraged": Key(
        check.reasons,
        "table of texts",
        "launchers that the site advises against, with the reason, which jobs then print",
    ),
    "job.required": Key(
        check.some_of("account", "qos", "time", "partition", "constraint", "reservation"),
        "list of names",
        "options of sbatch, without dashes, that the user has to give",
    ),
    "job.lines": Key(check.options, "list of texts", "options that every batch script gets, as behind `#SBATCH`"),
    "job.gpus": Key(
        check.text_or_nothing,
        "text",
        "how GPUs are asked for; `{gpus}`: as many as each node is to give. Empty: a node comes with all of them",
    ),
    "job.exclusive": Key(check.texts, "list of texts", "partitions that give whole nodes only"),
    "job.command": Key(
        check.texts, "list of texts", "lines of bash that every batch script needs before the first srun"
    ),
    "job.module_init": Key(
        check.path,
        "path",
        "file that defines the `module` command in bash, sourced by batch scripts where there is none; default: that "
        "of the shell in which `hpcmod job` runs",
    ),
    "job.network_one_node": Key(
        check.texts, "list of texts", "values of sbatch's `--network` for jobs on one node, e.g. `single_node_vni`"
    ),
    "job.network_several_nodes": Key(
        check.texts, "list of texts", "values of sbatch's `--network` for jobs on several nodes"
    ),
    "job.network_several_steps": Key(
        check.texts, "list of texts", "values of sbatch's `--network` for jobs with several steps at a time: `job_vni`"
    ),
    "job.slurm": Key(check.slurm_release, "text", "release of Slurm, as `24.11`, for `hpcmod lint`"),
    "stage.*.directory": Key(
        check.place, "path", "a node-local place that a job may fill, `nvme` or `ram`; may hold variables"
    ),
    "stage.*.flag": Key(check.option, "text", "option of sbatch that a job needs to get the place"),
    "proxies": Key(
        check.variables,
        "table of texts",
        "variables that lead to the internet from a compute node; set only where a user asks for them",
        "proxies",
    ),
    "bandwidth.*": Key(
        check.bandwidths,
        "table of numbers",
        "bus bandwidths measured here, in GB/s by number of nodes; `{ busbw = GB/s, bytes = N }` with the size of the "
        "messages; `NAME` is the collective, e.g. `all_reduce`",
    ),
}
"""Every key a profile may have; `*` is a name chosen by the profile."""

TABLES_THAT_ADD = ("environment", "proxies", "detect.variables", "launcher.refused", "launcher.discouraged")
"""Tables that are merged with those of the extended profile; every other value replaces."""
