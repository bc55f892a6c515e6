"""The schema of site profiles: every key, and how it is checked. What it means is said below its field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hpcmod.core.values.shape import Check
from hpcmod.machine.values import checks as check
from hpcmod.machine.values.site import FABRICS, HOST_PYTHON, LAUNCHERS, NETSTACK_MODES, SCHEDULERS, USER_SITE


class Key(NamedTuple):
    """One key of a profile."""

    check: Check
    form: str
    """Type of the value, for the reference page."""
    meaning: str = ""
    """Of a key that is not a field of Site or of one of its tables."""


SCHEMA: Mapping[str, Key] = {
    "name": Key(check.check_text, "string"),
    "description": Key(check.check_text, "string"),
    "extends": Key(
        check.check_text,
        "text",
        "Name or file of a profile to start from, or `machine`: the one that would be used without this file. A key "
        "set here replaces the inherited value, and `KEY = false` removes it; tables are merged entry by entry, and "
        "`TABLE = false`, or `TABLE.NAME = false` (`nodes.NAME`, `limits.NAME`, ...), removes all keys below it.",
    ),
    "tried": Key(
        check.tried,
        "text",
        "What was tried of this profile: `rendered only`, `run on a stand-in`, `run by hpcmod's tests`, or "
        "`reported by a user on YYYY-MM-DD`; not inherited.",
    ),
    "sources.*": Key(
        check.source,
        "string",
        "A document that values are from: `OWNER/NAME@COMMIT:PATH`, `OWNER/NAME#NUMBER` (an issue) or an address, then "
        "its date as `YYYY-MM-DD`. A comment with `[NAME]` above a value says that it is from there; not inherited.",
    ),
    "detect.paths": Key(check.paths, "list of paths"),
    "detect.variables": Key(check.variables, "table of strings"),
    "catalogues": Key(check.paths, "list of paths"),
    "usage.names": Key(check.one_of("groups", "users"), "`groups` or `users`"),
    "images.central": Key(check.paths, "list of paths"),
    "images.install_mode": Key(check.one_of("copy", "link", "central"), "`copy`, `link` or `central`"),
    "images.places": Key(check.places, "list of paths"),
    "images.compression": Key(check.compression, "text"),
    "images.striping": Key(check.striping, "string"),
    "images.cache": Key(check.place, "path"),
    "images.cache_group": Key(check.check_text, "text"),
    "trust.needs": Key(check.needs, "list of `digest`, `checksum`, `signature`, `attestation:TYPE`"),
    "trust.keys": Key(check.keys, "list of paths"),
    "trust.signers": Key(check.signers, "list of tables"),
    "trust.trusted_root": Key(check.trusted_root, "path"),
    "trust.rules": Key(check.rules, "list of tables"),
    "binds.required": Key(check.binds(required=True), "list of bind paths"),
    "binds.when": Key(check.binds_by_condition, "table of lists of bind paths"),
    "binds.optional": Key(check.binds(required=False), "list of bind paths"),
    "binds.why": Key(
        check.texts_by(check.path),
        "table of strings",
        'What binds are for, by their source: `"/opt/cray" = "..."`; modules say it beside the bind.',
    ),
    "netstack.directory": Key(check.library_directories, "list of paths"),
    "netstack.mode": Key(check.one_of(*NETSTACK_MODES), "`auto`, `swap` or `off`"),
    "netstack.libraries": Key(check.texts, "list of strings"),
    "netstack.leave_out": Key(check.texts, "list of strings"),
    "netstack.search_last": Key(check.library_places, "list of paths"),
    "environment": Key(
        check.tunables,
        "table of strings",
        'Variables for every run; a value set by the user wins. `NAME = { value = "...", when = "multi-node", '
        'why = "..." }`: with a condition and a reason to print; in a list of such tables, the first that holds '
        "is used; `NAME = false`: not set, even if the extended profile sets it.",
    ),
    "network.interfaces": Key(check.texts, "list of strings"),
    "network.host_suffix": Key(check.host_suffix, "string"),
    "network.fabric": Key(check.one_of(*FABRICS), "`cxi`, `efa` or `ib`"),
    "gpu.vendor": Key(check.one_of("amd", "nvidia", "none"), "`amd`, `nvidia` or `none`"),
    "gpu.targets": Key(check.gpu_targets, "list of words"),
    "gpu.visibility": Key(check.variable_names, "list of names"),
    "gpu.per_rank": Key(check.one_of("one", "all"), "`one` or `all`"),
    "gpu.runtime_flags": Key(check.some_of("--nv", "--rocm", "--nvccli"), "list of strings"),
    "caches.node_local": Key(check.path, "path"),
    "caches.root": Key(check.place, "path"),
    "module.family": Key(check.text_or_nothing, "string"),
    "module.keep_env": Key(check.some_of(*HOST_PYTHON, USER_SITE), "list of strings"),
    "module.bind_variable": Key(check.one_of("SINGULARITY_BIND"), "`SINGULARITY_BIND`"),
    "nodes.default": Key(check.check_text, "string"),
    "nodes.*.cores": Key(check.count, "number"),
    "nodes.*.threads_per_core": Key(check.count, "number"),
    "nodes.*.gpus": Key(check.count, "number"),
    "nodes.*.gpu_cores": Key(check.cores_by_gpu, "list of ranges"),
    "nodes.*.reserved_cores": Key(check.cores, "ranges"),
    "nodes.*.partitions": Key(check.texts, "list of strings"),
    "nodes.*.qos": Key(check.texts, "list of strings"),
    "nodes.*.memory_gib": Key(check.count, "number"),
    "launcher.kind": Key(check.one_of(*LAUNCHERS), "`srun`, `torchrun` or `accelerate`"),
    "launcher.verb": Key(check.one_of("exec", "run"), "`exec` or `run`"),
    "launcher.srun": Key(check.options, "list of strings"),
    "launcher.cpu_bind": Key(check.one_of("mask", "cores", "socket", "none"), "`mask`, `cores`, `socket` or `none`"),
    "launcher.distribution": Key(check.check_text, "string"),
    "launcher.cpus_per_gpu": Key(check.count, "number"),
    "launcher.mpi": Key(check.texts, "list of strings"),
    "launcher.mpi_default": Key(check.check_text, "text"),
    "launcher.refused": Key(check.reasons, "table of strings"),
    "launcher.discouraged": Key(check.reasons, "table of strings"),
    "job.scheduler": Key(check.one_of(*SCHEDULERS), "text"),
    "job.required": Key(check.job_options, "list of names"),
    "job.lines": Key(check.options, "list of strings"),
    "job.gpus": Key(check.text_or_nothing, "text"),
    "job.exclusive": Key(check.texts, "list of strings"),
    "job.command": Key(check.texts, "list of strings"),
    "job.module_init": Key(check.path, "path"),
    "job.network_one_node": Key(check.texts, "list of strings"),
    "job.network_several_nodes": Key(check.texts, "list of strings"),
    "job.network_several_steps": Key(check.texts, "list of strings"),
    "job.slurm": Key(check.slurm_release, "string"),
    "limits.*.nodes": Key(check.count, "number"),
    "limits.*.hours": Key(check.hours, "table of numbers, or a number"),
    "limits.*.cores": Key(check.count, "number"),
    "limits.*.required": Key(check.job_options, "list of names"),
    "stage.*.directory": Key(check.place, "path"),
    "stage.*.flag": Key(check.option, "string"),
    "host_commands.allowed": Key(check.host_commands, "list of strings"),
    "host_commands.environment": Key(check.variable_patterns, "list of strings"),
    "host_commands.refused_options": Key(check.options, "list of strings"),
    "proxies": Key(check.variables, "table of strings"),
    "bandwidth.*": Key(
        check.bandwidths,
        "table of numbers",
        "Bus bandwidths measured here, in GB/s by number of nodes; `{ busbw = GB/s, bytes = N }` adds the size of the "
        "messages; `NAME` is the collective, e.g. `all_reduce`.",
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
