"""The schema of site profiles: every key, how it is checked, and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hpcmod.core.values.compression import ANY_OF
from hpcmod.core.values.trust import parse_keys, parse_needs
from hpcmod.machine.values import checks as check
from hpcmod.machine.values.site import (
    FABRICS,
    HOST_PYTHON,
    LAUNCHERS,
    NETSTACK_MODES,
    SCHEDULERS,
    USER_SITE,
    HostCommands,
)


class Key(NamedTuple):
    """One key of a profile."""

    check: check.Check
    form: str
    """Type of the value, for the reference page."""
    meaning: str


SCHEMA: Mapping[str, Key] = {
    "name": Key(check.check_text, "string", "the only required key"),
    "description": Key(check.check_text, "string", "one line, for people"),
    "extends": Key(
        check.check_text,
        "text",
        "name or file of a profile to start from, or `machine`: the one that would be used without this file. A key "
        "set here replaces the inherited value, and `KEY = false` removes it; tables are merged entry by entry",
    ),
    "tried": Key(
        check.tried,
        "text",
        "what was tried of this profile: `rendered only`, `run on a stand-in`, `run by hpcmod's tests`, or "
        "`reported by a user on YYYY-MM-DD`; not inherited",
    ),
    "sources.*": Key(
        check.source,
        "string",
        "a document that values are from: `OWNER/NAME@COMMIT:PATH`, `OWNER/NAME#NUMBER` (an issue) or an address, then "
        "its date as `YYYY-MM-DD`. A comment with `[NAME]` above a value says that it is from there; not inherited",
    ),
    "detect.paths": Key(
        check.paths,
        "list of paths",
        "the profile is selected if one of these exists; read only from profiles that come with hpcmod",
    ),
    "detect.variables": Key(
        check.variables, "table of strings", "the profile is selected if one of these variables has this value"
    ),
    "catalogues": Key(
        check.paths,
        "list of paths",
        "directories of catalogues, highest priority first; `$HPCMOD_CATALOGUE` precedes them",
    ),
    "usage.names": Key(
        check.one_of("groups", "users"),
        "`groups` or `users`",
        "granularity of `hpcmod catalogue usage`, if modules count loads (default: `groups`)",
    ),
    "images.central": Key(check.paths, "list of paths", "directories with the site's images, searched in order"),
    "images.install_mode": Key(
        check.one_of("copy", "link", "central"),
        "`copy`, `link` or `central`",
        "a private copy, a hard link, or the site's file: the meaning of `install_mode = 'auto'` in an easyconfig",
    ),
    "images.places": Key(
        check.places,
        "list of paths",
        "where users' private copies belong, best first; may contain variables. `hpcmod install` uses the first that "
        "the user can write to, or the project's directory in it, which is named after the project's group",
    ),
    "images.compression": Key(
        check.compression,
        "text",
        f"compression of SIFs made here: {ANY_OF}, optionally followed by a colon and a level",
    ),
    "images.striping": Key(
        check.striping,
        "string",
        "options of `lfs setstripe` for images that hpcmod writes to Lustre, e.g. `-c 8`: over how many servers it "
        "distributes them",
    ),
    "images.cache": Key(check.place, "path", "cache of downloads from registries; may contain variables"),
    "images.cache_group": Key(check.check_text, "text", "group that shares the cache"),
    "trust.needs": Key(
        parse_needs,
        "list of `digest`, `checksum`, `signature`",
        "verification that an image needs if no rule matches its source; an empty list: none",
    ),
    "trust.keys": Key(
        parse_keys, "list of paths", "public keys, PEM or PGP; the image must be signed with one of them"
    ),
    "trust.rules": Key(
        check.rules,
        "list of tables",
        '`{ source = "docker://HOST/*", needs = ["signature"], keys = [] }`: the first rule that matches applies; '
        "`*` matches any characters, except `/` in a host. "
        "Optional `identities`: image names in the signatures of a mirror",
    ),
    "binds.required": Key(
        check.binds(required=True),
        "list of bind paths",
        "bind paths that a job needs; the module and the wrappers warn if one is missing",
    ),
    "binds.when": Key(
        check.binds_by_condition,
        "table of lists of bind paths",
        'optional bind paths for images that satisfy a condition: `"rocm<6.2" = [...]`',
    ),
    "binds.optional": Key(check.binds(required=False), "list of bind paths", "bind paths that are bound if they exist"),
    "binds.why": Key(
        check.texts_by(check.path),
        "table of strings",
        'what binds are for, by their source: `"/opt/cray" = "..."`; modules say it beside the bind',
    ),
    "netstack.directory": Key(
        check.library_directories,
        "list of paths",
        "directories with the host's network libraries, as created by `hpcmod site netstack capture`: the first that "
        "exists is bound to `/host/lib` and searched first. Patterns work as in binds: the newest match is used",
    ),
    "netstack.mode": Key(
        check.one_of(*NETSTACK_MODES),
        "`auto`, `swap` or `off`",
        "`swap`: the host's libraries precede the image's; `off`: never; `auto`: swap, except for images whose label "
        "says that they contain all they need, or need none",
    ),
    "netstack.libraries": Key(
        check.texts, "list of strings", "names or paths of the libraries that `hpcmod site netstack capture` copies"
    ),
    "netstack.leave_out": Key(
        check.texts,
        "list of strings",
        "names of libraries that it leaves out, in addition to glibc's; `*` matches any characters",
    ),
    "netstack.search_last": Key(
        check.library_places,
        "list of paths",
        "container directories to search after the image's own, e.g. `/host/usr/lib64`",
    ),
    "environment": Key(
        check.tunables,
        "table of strings",
        'variables for every run; a value set by the user wins. `NAME = { value = "...", when = "multi-node", '
        'why = "..." }`: with a condition and a reason to print; in a list of such tables, the first that holds '
        "is used; `NAME = false`: not set, even if the extended profile sets it",
    ),
    "network.interfaces": Key(check.texts, "list of strings", "network interfaces for traffic between GPUs, in order"),
    "network.host_suffix": Key(
        check.host_suffix,
        "string",
        "suffix of the host names of the fast network: `i` if `node1` is `node1i` there. `MASTER_ADDR` and the output "
        "of `get-master` have it, unless you set `MASTER_ADDR`",
    ),
    "network.fabric": Key(
        check.one_of(*FABRICS),
        "`cxi`, `efa` or `ib`",
        "the fast network: a provider of libfabric (`cxi`: HPE Slingshot, `efa`: AWS), or `ib` for InfiniBand and RoCE "
        "through verbs. `hpcmod check --network` compares logs with it",
    ),
    "gpu.vendor": Key(check.one_of("amd", "nvidia", "none"), "`amd`, `nvidia` or `none`", "vendor of the GPUs"),
    "gpu.targets": Key(
        check.gpu_targets,
        "list of words",
        "micro-architectures of all GPUs of the machine, e.g. `gfx90a` or `sm_90`: of several versions of a container, "
        "those built for them count first. Default: those of the node's GPUs",
    ),
    "gpu.visibility": Key(
        check.variable_names, "list of names", "variables that select GPUs, Slurm's own first; none: no GPUs"
    ),
    "gpu.per_rank": Key(
        check.one_of("one", "all"),
        "`one` or `all`",
        "GPUs that a rank sees if Slurm gives it several. `all`: all of them, and `LOCAL_RANK` is its index on the "
        "node, as under torchrun; `one`: the GPU with its index, and `LOCAL_RANK` is 0",
    ),
    "gpu.runtime_flags": Key(
        check.some_of("--nv", "--rocm", "--nvccli"),
        "list of strings",
        "flags that the container runtime needs on nodes with GPUs; none if the site has configured this",
    ),
    "caches.node_local": Key(
        check.path,
        "path",
        "node-local directory for compiler caches (MIOpen, Triton, ...), with a subdirectory for each job",
    ),
    "caches.root": Key(
        check.place, "path", "where large caches (models, data sets) belong instead of `$HOME`; may contain variables"
    ),
    "module.family": Key(
        check.text_or_nothing,
        "string",
        'Lmod family: only one module of a family can be loaded; `""`: any number of containers',
    ),
    "module.keep_env": Key(
        check.some_of(*HOST_PYTHON, USER_SITE),
        "list of strings",
        "variables of the host's Python that modules pass to the container, as if they were in `$HPCMOD_KEEP_ENV`; "
        "`PYTHONNOUSERSITE`: the packages in `~/.local`",
    ),
    "module.bind_variable": Key(
        check.one_of("SINGULARITY_BIND"),
        "`SINGULARITY_BIND`",
        "another variable that modules set to their binds, for scripts that read or extend it",
    ),
    "nodes.default": Key(check.check_text, "string", "the node type for jobs that do not request one"),
    "nodes.*.cores": Key(check.count, "number", "physical cores that a job may use"),
    "nodes.*.threads_per_core": Key(check.count, "number", "hardware threads per core"),
    "nodes.*.gpus": Key(check.count, "number", "GPUs, as the scheduler counts them"),
    "nodes.*.gpu_cores": Key(
        check.cores_by_gpu,
        "list of ranges",
        'for each GPU, in the order of the runtime: the nearby cores that a job may use, e.g. `"1-7"`; used for masks',
    ),
    "nodes.*.reserved_cores": Key(check.cores, "ranges", 'cores reserved for the system, e.g. `"0,8,16"`'),
    "nodes.*.partitions": Key(check.texts, "list of strings", "Slurm partitions with such nodes, the default first"),
    "nodes.*.qos": Key(
        check.texts,
        "list of strings",
        "qualities of service (`--qos`) that provide such nodes; `*` matches any characters",
    ),
    "nodes.*.memory_gib": Key(
        check.count, "number", "memory that a job may use, in GiB: a job requests all of it, or its share by GPUs"
    ),
    "launcher.kind": Key(
        check.one_of(*LAUNCHERS), "`srun`, `torchrun`, `deepspeed` or `accelerate`", "what starts the ranks of a job"
    ),
    "launcher.verb": Key(
        check.one_of("exec", "run"),
        "`exec` or `run`",
        "verb of the container runtime; `run` if images need their own entry script, e.g. to use the host's libraries: "
        "jobs use it for images whose run script starts a program",
    ),
    "launcher.srun": Key(check.options, "list of strings", "flags that every srun needs here"),
    "launcher.cpu_bind": Key(
        check.one_of("mask", "cores", "socket", "none"),
        "`mask`, `cores`, `socket` or `none`",
        "`mask`: the masks computed from `gpu_cores`; `cores`, `socket`: srun's own; `none`: left to Slurm",
    ),
    "launcher.distribution": Key(check.check_text, "string", "value of srun's `--distribution`"),
    "launcher.cpus_per_gpu": Key(check.count, "number", "CPUs that a job must request for each GPU"),
    "launcher.mpi": Key(
        check.texts,
        "list of strings",
        "types of MPI that srun offers, as `srun --mpi=list` names them: pmix, pmi2, ...",
    ),
    "launcher.mpi_default": Key(
        check.check_text, "text", "`--mpi` for images whose MPI is unknown or does not need it; default: srun's own"
    ),
    "launcher.refused": Key(check.reasons, "table of strings", "launchers that must not be used here, with the reason"),
    "launcher.discouraged": Key(
        check.reasons, "table of strings", "launchers that the site advises against, with the reason, which jobs print"
    ),
    "job.scheduler": Key(
        check.one_of(*SCHEDULERS),
        "text",
        "scheduler of the machine, `slurm` (default), `pbs` or `flux`; hpcmod writes jobs for Slurm only",
    ),
    "job.required": Key(check.job_options, "list of names", "sbatch options, without dashes, that the user must give"),
    "job.lines": Key(
        check.options, "list of strings", "options that every batch script gets, as written after `#SBATCH`"
    ),
    "job.gpus": Key(
        check.text_or_nothing,
        "text",
        "option that requests GPUs; `{gpus}`: GPUs per node. Empty: a node always comes with all of them",
    ),
    "job.exclusive": Key(check.texts, "list of strings", "partitions that allocate only full nodes"),
    "job.command": Key(
        check.texts, "list of strings", "lines of bash that every batch script needs before the first srun"
    ),
    "job.module_init": Key(
        check.path,
        "path",
        "file that defines the `module` command in bash, sourced by batch scripts if undefined; default: the file "
        "of the shell in which `hpcmod job` runs",
    ),
    "job.network_one_node": Key(
        check.texts, "list of strings", "values of sbatch's `--network` for jobs on one node, e.g. `single_node_vni`"
    ),
    "job.network_several_nodes": Key(
        check.texts, "list of strings", "values of sbatch's `--network` for jobs on several nodes"
    ),
    "job.network_several_steps": Key(
        check.texts, "list of strings", "values of sbatch's `--network` for jobs with concurrent steps: `job_vni`"
    ),
    "job.slurm": Key(check.slurm_release, "string", "release of Slurm, e.g. `24.11`, for `hpcmod lint`"),
    "limits.*.nodes": Key(
        check.count, "number", "largest number of nodes of a job in the partition or quality of service `NAME`"
    ),
    "limits.*.hours": Key(
        check.hours,
        "table of numbers, or a number",
        "its longest time limit in hours; `{ 1 = 2, 92 = 6 }`: 2 hours, from 92 nodes on 6",
    ),
    "limits.*.cores": Key(check.count, "number", "largest number of cores of a job there, on all nodes together"),
    "limits.*.required": Key(check.job_options, "list of names", "as `job.required`, for jobs there"),
    "stage.*.directory": Key(
        check.place, "path", "a node-local directory that a job may fill, `nvme` or `ram`; may contain variables"
    ),
    "stage.*.flag": Key(check.option, "string", "sbatch option that a job needs to get this storage"),
    "host_commands.allowed": Key(
        check.host_commands,
        "list of strings",
        "commands of the host, by name or absolute path, that programs in a container may run if the user sets "
        "`HPCMOD_HOST_COMMANDS=1` (default: none)",
    ),
    "host_commands.environment": Key(
        check.variable_patterns,
        "list of strings",
        "variables that these commands take from the container instead of from the host; `*` matches any characters "
        f"(default: {', '.join(f'`{name}`' for name in HostCommands().environment)})",
    ),
    "host_commands.refused_options": Key(
        check.options,
        "list of strings",
        "options that are refused for these commands "
        f"(default: {', '.join(f'`{name}`' for name in HostCommands().refused_options)})",
    ),
    "proxies": Key(
        check.variables,
        "table of strings",
        "proxy variables for internet access from compute nodes; set only on request",
    ),
    "bandwidth.*": Key(
        check.bandwidths,
        "table of numbers",
        "bus bandwidths measured here, in GB/s by number of nodes; `{ busbw = GB/s, bytes = N }` adds the size of the "
        "messages; `NAME` is the collective, e.g. `all_reduce`",
    ),
}
"""Every key a profile may have; `*` is a name chosen by the profile."""

NOT_INHERITED = ("detect.", "tried", "sources.")
"""How the keys begin that a profile does not take from the one it extends."""

TABLES_THAT_ADD = (
    "environment",
    "proxies",
    "detect.variables",
    "launcher.refused",
    "launcher.discouraged",
    "binds.why",
)
"""Tables that are merged with those of the extended profile; every other value replaces."""
